"""The two hops of a record, producer to topic and topic to group, and the order within a partition."""
