"""The traffic check: what a change cost topics and groups of others, by samples alone."""
