"""The brokers of a cluster that Kedge runs itself: variables and rules."""
