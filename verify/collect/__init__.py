"""Collects what only the hosts know: running settings, pauses of garbage collectors, clocks."""
