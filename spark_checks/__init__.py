"""The audit: evidence (Parquet) in, verdicts and a report out. See ``kedge audit --help``."""
