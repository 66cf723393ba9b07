"""Client profiles: settings for somebody's producers and consumers."""
