"""The audit: evidence (Parquet) in, verdicts and a report out. See ``python -m spark_checks --help``."""
