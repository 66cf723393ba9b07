"""Measures what one partition, and a few of them, take and give on a cluster."""
