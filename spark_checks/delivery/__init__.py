"""The delivery check: producer to topic, topic to group, and the order within a partition."""
