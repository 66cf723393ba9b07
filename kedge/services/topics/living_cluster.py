"""Rules for a living cluster: what was found beside the most that there should be, and why that much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kedge.services.topics.cluster_limits import (
    CLUSTER_PARTITIONS,
    HANDLES_SEEN,
    LEADERS_WARNING,
    added_replication_ms,
)

GUIDE: Final = "Configure Kafka for High Throughput"
_KAFKA: Final = "Kafka documentation, Hardware and OS"
#: A broker that has used four fifths of what the host allows is near enough to it that a burst of segments,
#: connections, or a restart with its recovery, can end in "too many open files". An estimate of ours: the
#: guide says to watch the limit, and names no share.
SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class ClusterLimit:
    """What was found, the most that there should be (None: shown, not judged), by which rule and why."""

    rule: str
    where: str
    what: str
    found: float
    most: float | None
    because: str
    source: str

    @property
    def exceeded(self) -> bool:
        """Whether there is more than there should be."""
        return self.most is not None and self.found > self.most


@dataclass(frozen=True, slots=True)
class Led:
    """A partition of the living cluster: its leader (-1 without one) and its number of copies."""

    leader: int
    copies: int


@dataclass(frozen=True, slots=True)
class BrokerUse:
    """What a broker's process holds open, and what its host allows it; None: as much as it likes."""

    files: int
    files_allowed: int | None
    maps: int
    maps_allowed: int


def of_cluster(name: str, brokers: Iterable[int], partitions: Sequence[Led]) -> list[ClusterLimit]:
    """Return the limits of a cluster's metadata: leaders, partitions, and what replication should add."""
    ids = sorted(brokers)
    leaders = Counter(each.leader for each in partitions)
    rows = [
        ClusterLimit("limits.leaders", f"broker {n}", "leaders", leaders[n], LEADERS_WARNING,
              f"all {leaders[n]} are unavailable for a moment when it fails; 2,000 to "
              f"{LEADERS_WARNING:,} are the "
              "most that is advised", f"{GUIDE}, Trade-offs, availability")
        for n in ids
    ]  # fmt: skip
    added = expected_replication_ms(len(ids), partitions)
    return [
        *rows,
        ClusterLimit("limits.leaderless", name, "partitions without a leader", leaders[-1], 0,
              "nothing can be written to them or read", "Kafka documentation, Replication"),
        ClusterLimit("limits.partitions", name, "partitions", len(partitions), CLUSTER_PARTITIONS,
              "low tens of thousands are the most that is advised", f"{GUIDE}, Trade-offs, availability"),
        ClusterLimit("limits.replication", name, "ms that replication is expected to add", added, None,
              f"{len(partitions)} partitions on {len(ids)} brokers: (partitions / brokers) x "
              "(replication - 1) x 20 / 1000", f"{GUIDE}, Trade-offs, end-to-end latency"),
    ]  # fmt: skip


def expected_replication_ms(brokers: int, partitions: Sequence[Led]) -> float:
    """Return the latency that the guide's formula gives, each partition with its own number of copies."""
    return sum(added_replication_ms(1, max(1, brokers), max(1, each.copies)) for each in partitions)


def measured_replication(name: str, alone_ms: float, all_ms: float, copies: int) -> ClusterLimit:
    """Return what replication was measured to add, from median answers to single records."""
    return ClusterLimit(
        "limits.replication", name, "ms that replication was measured to add", all_ms - alone_ms, None,
        f"{all_ms:.2f} ms with acks=all, {alone_ms:.2f} ms with acks=1, {copies} copies, medians of records "
        "sent one by one", "this measurement",
    )  # fmt: skip


def of_broker(host: str, use: BrokerUse) -> list[ClusterLimit]:
    """Return the limits of a broker's process on its host."""
    allowed = use.files_allowed
    files_most, because = (
        (HANDLES_SEEN, f"no limit is set; {HANDLES_SEEN:,} are the most that is reported from production")
        if allowed is None
        else (allowed * SHARE, f"{SHARE:.0%} of the {allowed:,} that its process may open")
    )
    return [
        ClusterLimit("limits.files", host, "files open", use.files, files_most, because,
              f"{GUIDE}, Trade-offs, OS File handle limit"),
        ClusterLimit("limits.maps", host, "memory maps", use.maps, use.maps_allowed * SHARE,
              f"{SHARE:.0%} of vm.max_map_count, {use.maps_allowed:,}; each segment has two mapped indexes",
              _KAFKA),
    ]  # fmt: skip


def as_rows(limits: Iterable[ClusterLimit]) -> list[Mapping[str, object]]:
    """Return limits as JSON has them."""
    return [
        {
            "rule": each.rule,
            "where": each.where,
            "what": each.what,
            "found": round(each.found, 3),
            "most": each.most,
            "exceeded": each.exceeded,
            "because": each.because,
            "source": each.source,
        }
        for each in limits
    ]
