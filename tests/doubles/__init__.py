"""Stand-ins for vendors' software that no public registry holds, each named a double."""
