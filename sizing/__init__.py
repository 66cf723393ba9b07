"""Maps a workload and the facts of its hosts to a plan: settings with reasons, and findings."""
