"""Topics: partitions from a throughput, replication, limits of a cluster."""
