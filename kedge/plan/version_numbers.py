"""Versions of software as numbers, and those of Kafka that the plan knows."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

#: After the newest major version of Apache Kafka that there is: Confluent Platform's numbers lie beyond it.
NEWER_KAFKA: Final = (5,)
OF_KAFKA: Final = "write Kafka's own version (Confluent Platform 7.9 has Kafka 3.9, 8.0 has 4.0)"
#: Versions of Kafka whose jars have a lock in roles/jar_set/files; others are deployed with a kafka_lock.
LOCKED_KAFKA: Final = ("3.9.2", "4.3.1")


# A plan asks for the same few versions for each instance.
@lru_cache(maxsize=1024)
def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, so that 7.10 comes after 7.9."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
