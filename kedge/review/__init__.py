"""Reviews what runs today, from its files: what it is, what of it nobody reads, what the plan would say."""
