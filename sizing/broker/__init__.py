"""The brokers of a cluster that the kit runs itself: variables and rules."""
