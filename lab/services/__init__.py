"""Brokers, mirrors and applications on loopback for tests and benches, and the two Java projects."""
