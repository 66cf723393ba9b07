"""The rebalance check: what each restart cost."""
