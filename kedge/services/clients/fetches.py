"""What a consumer holds of what it has fetched: one sum for all services that have consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster, broker_count
from kedge.plan.settings import MIB
from kedge.plan.values import int_or_zero

SOURCE: Final = "KIP-81; Broker, client and JVM facts, Fetches"
FETCH: Final = "fetch.max.bytes"
PARTITION_FETCH: Final = "max.partition.fetch.bytes"
#: Kafka documentation, Consumer configurations: the defaults.
FETCH_BYTES: Final = 50 * MIB
PARTITION_FETCH_BYTES: Final = MIB
#: Where nobody says how many brokers there are: as many as have the copies of a topic.
_BROKERS: Final = 3


@dataclass(frozen=True, slots=True)
class Fetches:
    """How a consumer fetches: from how many brokers at once, and how much, in bytes.

    ``known``: the inventory says how many brokers there are.
    """

    brokers: int = _BROKERS
    known: bool = False
    fetch_bytes: int = FETCH_BYTES
    partition_bytes: int = PARTITION_FETCH_BYTES

    def held(self, partitions: int, consumers: int = 1) -> int:
        """Return the bytes that ``consumers`` hold at most, which have that many partitions together.

        One answer of each broker, and no more of a partition than one fetch of it (KIP-81).
        """
        return min(consumers * self.brokers * self.fetch_bytes, partitions * self.partition_bytes)

    def said(self, partitions: int, consumers: int = 1) -> str:
        """Return the sum in words."""
        assumed = "" if self.known else " (assumed: broker_count of the cluster is not given)"
        of_brokers = f"{self.brokers} brokers{assumed} x {self.fetch_bytes / MIB:g} MiB"
        if consumers > 1:
            of_brokers = f"{consumers} consumers x {of_brokers}"
        return f"the smaller of {of_brokers} and {partitions} partitions x {self.partition_bytes / MIB:g} MiB"


def fetches_of(
    inventory: Inventory, cluster: KafkaCluster, own: Mapping[str, Any] | None = None, *prefixes: str
) -> Fetches:
    """Return how consumers of a cluster fetch.

    ``own`` are a person's settings; of a key, the largest under one of the ``prefixes`` counts.
    """
    brokers = broker_count(inventory, cluster)

    def largest(key: str, default: int) -> int:
        values = [int_or_zero((own or {}).get(f"{prefix}{key}")) for prefix in prefixes or ("",)]
        return max(values) or default

    return Fetches(
        brokers or _BROKERS,
        brokers is not None,
        largest(FETCH, FETCH_BYTES),
        largest(PARTITION_FETCH, PARTITION_FETCH_BYTES),
    )
