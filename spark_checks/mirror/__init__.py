"""The mirror check: parity of source and target, order, lag, batches."""
