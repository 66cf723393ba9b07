"""What is compared: settings deployed side by side, and loads that are sent to each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.services.rest.distributions import DISTRIBUTIONS


@dataclass(frozen=True)
class Produce:
    """A closed loop of clients that send arrays of records; without ``session`` each on a new connection."""

    records: int
    clients: int = 16
    session: bool = True


@dataclass(frozen=True)
class Variant:
    """Variables over the inventory's, by which a case differs from the others of its part."""

    name: str
    extra: Mapping[str, Any] = field(default_factory=dict)


#: Records a request, and what a connection of its own for each costs.
REQUESTS: Final = {
    "1 record": Produce(1),
    "10 records": Produce(10),
    "100 records": Produce(100),
    "1000 records": Produce(1000),
    "1 record, new connections": Produce(1, session=False),
    "100 records, new connections": Produce(100, session=False),
}

#: Two processes against one with the same heap in all, on each host.
SPLIT: Final = (
    Variant("one process", {"kafka_rest_instances_per_host": 1, "kafka_rest_heap_mib": 1024}),
    Variant(
        "two processes, half the heap each", {"kafka_rest_instances_per_host": 2, "kafka_rest_heap_mib": 512}
    ),
)

#: The whole advice, each form as the plan has it, and the collector alone.
_FORMS: Final = tuple(Variant(advice, {"advice": advice}) for advice in ("stock", "documented", "measured"))
_G1: Final = "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
_COLLECTORS: Final = {
    "the guide's set": f"{_G1} -XX:G1HeapRegionSize=16M -XX:MetaspaceSize=96m",
    "the guide's set without the region size": f"{_G1} -XX:MetaspaceSize=96m",
    "nothing set": "-Dkedge.bench=nothing",
    "Parallel": "-XX:+UseParallelGC",
}
#: How one consumer reads a backlog.
_READS: Final = {
    "default": {"consumer.receive.buffer.bytes": 65536},
    "consumer.iterator.backoff.ms=5": {
        "consumer.receive.buffer.bytes": 65536,
        "consumer.iterator.backoff.ms": 5,
    },
    "consumer.receive.buffer.bytes=-1": {"consumer.receive.buffer.bytes": -1},
}
_READS_BRIDGE: Final = {
    "default": {"kafka.consumer.max.poll.records": 500},
    "kafka.consumer.max.poll.records=5000": {"kafka.consumer.max.poll.records": 5000},
}


def variants(part: str, distribution: str) -> tuple[Variant, ...]:
    """Return the cases of a part that deploys them, in the keys of a distribution."""
    # The keys of its clients have a prefix, and one variable has heap and flags.
    bridge = bool(DISTRIBUTIONS[distribution].keys.prefix)
    if part == "split":
        return SPLIT
    if part == "advice":
        return _FORMS
    if part == "reads":
        reads = _READS_BRIDGE if bridge else _READS
        return tuple(Variant(name, {"kafka_rest_settings": settings}) for name, settings in reads.items())
    if bridge:
        of = {name: {"JAVA_OPTS": f"-Xms1g -Xmx1g {flags}"} for name, flags in _COLLECTORS.items()}
        return tuple(Variant(name, {"kafka_rest_settings": settings}) for name, settings in of.items())
    return tuple(
        Variant(
            name,
            {"kafka_rest_heap_mib": 1024, "kafka_rest_settings": {"KAFKAREST_JVM_PERFORMANCE_OPTS": flags}},
        )
        for name, flags in _COLLECTORS.items()
    )
