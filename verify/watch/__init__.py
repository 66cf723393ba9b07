"""Watchers: what consumer groups are doing, sampled on absolute ticks while a load runs."""
