"""Limits of a cluster, and what planned partitions use of them: leaders, latency, files, maps and links."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster, broker_count
from kedge.plan.inventory.service_levels import service_levels
from kedge.plan.settings import MBIT, Setting, Sheet
from kedge.plan.values import int_or_zero

#: Leaders on one broker: 2,000 is where the guide's "2 to 4000" begins, 4,000 where it ends.
LEADERS_NOTE: Final = 2000
LEADERS_WARNING: Final = 4000
#: "Low tens of thousands" of partitions in a cluster.
CLUSTER_PARTITIONS: Final = 20_000
#: The most open file handles on a broker that the guide reports from production.
HANDLES_SEEN: Final = 30_000
#: What Kafka's page Hardware and OS asks for at least.
HANDLES_LIMIT: Final = 100_000
#: vm.max_map_count of a kernel that nobody tuned; Kafka maps two index files a segment.
MAPS_LIMIT: Final = 65_530
#: What the hosts of Kedge's own brokers get: an estimate.
BROKER_MAPS: Final = 262_144
#: Replicating 1,000 partitions from one broker to another adds about 20 ms.
ADDED_MS_PER_PARTITION: Final = 20 / 1000
_SEGMENT_BYTES: Final = 2**30  # default of segment.bytes
#: Defaults of retention.ms and segment.ms, and of brokers: Kafka documentation, Topic configurations.
_WEEK_MS: Final = 604_800_000
#: What ends the life of a record of a topic that deletes, with their defaults.
_RETENTION: Final = (("retention.ms", str(_WEEK_MS)), ("retention.bytes", "-1"))
_DAY_S: Final = 86_400
#: Planned copies of a partition where there are brokers enough.
_COPIES: Final = 3


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """A cluster with its planned topics; ``rates`` are their targets in MB/s, where they have one."""

    name: str
    cluster: KafkaCluster
    planned: Mapping[str, tuple[Setting, ...]]
    rates: Mapping[str, float]


def added_replication_ms(partitions: float, brokers: int, replication: int) -> float:
    """Return the latency that replication adds: (p / b) x (r - 1) x (20 / 1000) ms."""
    return partitions / brokers * (replication - 1) * ADDED_MS_PER_PARTITION


def planned_partitions(settings: tuple[Setting, ...]) -> int:
    """Return the partitions of a planned topic."""
    return int(_value(settings, "partitions", "1"))


def check_cluster(inventory: Inventory, of: ClusterTopics) -> list[Finding]:
    """Return what is wrong with a cluster that has these topics."""
    name, cluster, planned = of.name, of.cluster, of.planned
    brokers = broker_count(inventory, cluster)
    sheet = Sheet(f"cluster {name}", "measured", {})
    total = cluster.other_partitions + sum(planned_partitions(s) for s in planned.values())
    if total > CLUSTER_PARTITIONS:
        sheet.warning(
            "topics.cluster.partitions",
            f"cluster {name} has {total} partitions; low tens of thousands are the most that is advised",
            "use fewer partitions a topic, or another cluster",
        )
    _growth(sheet, of)
    if brokers is None:
        return sheet.findings
    copies = _median_replication(planned)
    leaders = total / brokers
    if leaders > LEADERS_NOTE:
        report = sheet.warning if leaders > LEADERS_WARNING else sheet.note
        report(
            "topics.leaders",
            f"{total} partitions on {brokers} brokers of cluster {name} are {leaders:.0f} leaders a broker, "
            f"all unavailable for a moment when it fails; advised are {LEADERS_NOTE} to "
            f"{LEADERS_WARNING} at most",
            f"use {math.ceil(total / LEADERS_NOTE)} brokers or more, or fewer partitions",
        )
    added = added_replication_ms(cluster.other_partitions, brokers, copies) + sum(
        added_replication_ms(planned_partitions(s), brokers, int(_value(s, "replication.factor", "1")))
        for s in planned.values()
    )
    _latency(sheet, inventory, name, total, brokers, added)
    _handles(sheet, inventory, of, brokers)
    _links(sheet, inventory, of, brokers)
    return sheet.findings


def _latency(sheet: Sheet, inventory: Inventory, name: str, total: int, brokers: int, added: float) -> None:
    levels = service_levels(inventory)
    wanted = ((levels.get("latency") or {}).get("kafka") or {}).get("ack_p99_ms")
    what = (
        f"replication of {total} partitions on {brokers} brokers of cluster {name} adds about {added:.1f} ms"
    )
    if isinstance(wanted, int | float) and added > wanted / 2:
        sheet.warning(
            "topics.replication.latency",
            f"{what}, of the {wanted:g} ms of service_levels.latency.kafka.ack_p99_ms",
            "use more brokers, fewer partitions, or raise num.replica.fetchers",
        )
    elif added >= 1:
        sheet.note(
            "topics.replication.latency",
            f"{what}: (partitions / brokers) x (replication - 1) x 20 / 1000",
            "use more brokers or fewer partitions where that is too much",
        )


def broker_files(of: ClusterTopics, brokers: int) -> int:
    """Return how many files a broker keeps open: two of each log segment that it has a copy of."""
    segments = of.cluster.other_partitions * _median_replication(of.planned)
    for topic, s in of.planned.items():
        copies = planned_partitions(s) * int(_value(s, "replication.factor", "1"))
        segments += copies * segments_of(s, of.rates.get(topic))
    return math.ceil(2 * segments / brokers)


def _handles(sheet: Sheet, inventory: Inventory, of: ClusterTopics, brokers: int) -> None:
    name, hosts = of.name, _hosts(inventory, of.cluster)
    handles = broker_files(of, brokers)
    limit = min(
        (int(inventory.hosts[h].get("kafka_broker_open_files", HANDLES_LIMIT)) for h in hosts),
        default=HANDLES_LIMIT,
    )
    by_rate = [t for t, s in of.planned.items() if t in of.rates and _kept_bytes(s, of.rates[t]) is not None]
    what = (
        f"a broker of cluster {name} opens about {handles} files: 2 for each of {handles // 2} log segments"
        + (f", at the target rate of {', '.join(sorted(by_rate)[:3])}" if by_rate else "")
    )
    if handles > limit and not hosts:
        sheet.warning(
            "topics.file_handles",
            f"{what}, and Kafka asks for a limit of {limit} at least",
            f"see that its brokers may open {2 * handles}, or use fewer partitions or larger segments",
        )
    elif handles > limit:
        sheet.error(
            "topics.file_handles",
            f"{what}, and may open {limit}",
            f"set kafka_broker_open_files to {2 * handles}, or use fewer partitions or larger segments",
        )
    elif handles > HANDLES_SEEN:
        sheet.note(
            "topics.file_handles",
            f"{what}, above the {HANDLES_SEEN} seen in production",
            f"watch them: kedge limits --cluster {name} --inventory DIR",
        )
    _maps(sheet, inventory, name, of.cluster, handles)


def _growth(sheet: Sheet, of: ClusterTopics) -> None:
    """Find topics at a rate from which nothing is ever deleted: the disks are full one day."""
    for topic, rate in sorted(of.rates.items()):
        settings = of.planned.get(topic, ())
        ends = [int_or_zero(_value(settings, key, end)) for key, end in _RETENTION]
        if not settings or max(ends) >= 0 or _value(settings, "cleanup.policy", "delete") != "delete":
            continue
        copies = int(_value(settings, "replication.factor", "1"))
        files = 2 * copies * rate * 1e6 * _DAY_S
        files /= _segment_bytes(settings, rate * 1e6 / planned_partitions(settings))
        sheet.warning(
            "topics.retention",
            f"topic {topic} of cluster {of.name} has retention.ms {ends[0]} and no retention.bytes: nothing "
            f"of it is ever deleted, and at {rate:g} MB/s its {copies} copies grow by "
            f"{rate * copies * _DAY_S / 1000:.0f} GB and {math.ceil(files)} files a day",
            f"set retention.ms to {_WEEK_MS} in the settings of topic {topic}, or retention.bytes to what "
            "disks have for a partition",
        )


def _links(sheet: Sheet, inventory: Inventory, of: ClusterTopics, brokers: int) -> None:
    """Find targets whose copies the brokers' links do not carry."""
    given = (
        int_or_zero(inventory.hosts[h].get("host_link_mbit_per_s")) for h in _hosts(inventory, of.cluster)
    )
    if not (links := [link for link in given if link > 0]):
        return
    copies = {t: int(_value(s, "replication.factor", "1")) for t, s in of.planned.items()}
    # In come what producers send and what leaders send to the copies; out goes as much again to readers.
    taken = sum(rate * copies[t] for t, rate in of.rates.items() if t in copies) / brokers
    if taken * 1e6 > (link := min(links)) * MBIT:
        more = sum(rate * _copies(of.planned[t], many=True) for t, rate in of.rates.items() if t in copies)
        sheet.error(
            "topics.link",
            f"the targets of cluster {of.name} with their copies are {taken:.1f} MB/s into each of {brokers} "
            f"brokers, and host_link_mbit_per_s is {link}, {link * MBIT / 1e6:g} MB/s each way",
            f"use {math.ceil(more * 1e6 / (link * MBIT))} brokers or more, or links of "
            f"{math.ceil(taken * 1e6 / MBIT)} Mbit/s; a target is meant as it is stored, after compression",
        )


def replicated_per_s(of: ClusterTopics, *, many: bool = False) -> float:
    """Return the bytes a second that leaders send to other copies, at the target rates; ``many`` brokers."""
    return sum(
        rate * 1e6 * (_copies(of.planned[topic], many=many) - 1)
        for topic, rate in of.rates.items()
        if topic in of.planned
    )


def _copies(settings: tuple[Setting, ...], *, many: bool) -> int:
    """Return the copies of a partition; with ``many`` brokers as many as the plan has there: three."""
    found = next((s for s in settings if s.key == "replication.factor"), None)
    copies = int(found.value) if found else 1
    return _COPIES if many and found is not None and found.by == "plan" else copies


def broker_maps(inventory: Inventory, of: ClusterTopics) -> int:
    """Return the vm.max_map_count of a cluster's hosts: twice a broker's index files, 262144 at least."""
    return max(BROKER_MAPS, 2 * broker_files(of, broker_count(inventory, of.cluster) or 1))


def _maps(sheet: Sheet, inventory: Inventory, name: str, cluster: KafkaCluster, maps: int) -> None:
    """Hold the maps of a broker against what its kernel has, or a person gives it; the plan's own suffice."""
    hosts = _hosts(inventory, cluster)
    own = [inventory.hosts[h].get("host_tuning_settings") for h in hosts]
    # What is no mapping, the rules for hosts find.
    of_hosts = [int_or_zero(each.get("vm.max_map_count")) for each in own if isinstance(each, Mapping)]
    given = [each for each in of_hosts if each]
    if hosts and not given:
        return
    limit = min(given, default=MAPS_LIMIT)
    if maps > limit:
        sheet.warning(
            "topics.memory_maps",
            f"a broker of cluster {name} maps about {maps} index files, above the "
            + (
                f"vm.max_map_count of {limit} on its hosts"
                if hosts
                else f"kernel's usual vm.max_map_count of {limit}"
            ),
            f"set vm.max_map_count to {2 * maps} or more "
            + ("in host_tuning_settings of its brokers" if hosts else "on its brokers"),
        )


def _hosts(inventory: Inventory, cluster: KafkaCluster) -> tuple[str, ...]:
    return inventory.group(cluster.brokers) if cluster.brokers else ()


def segments_of(settings: tuple[Setting, ...], rate_mb_per_s: float | None) -> int:
    """Return the segments of one partition: what retention keeps, and the one that is written.

    By retention.bytes, and at a topic's rate by retention.ms; a segment is closed by its size or its age. A
    compacted topic keeps what its keys make, which nobody says: one segment.
    """
    size = int_or_zero(_value(settings, "segment.bytes", str(_SEGMENT_BYTES)))
    if "delete" not in _value(settings, "cleanup.policy", "delete") or size <= 0:
        return 1
    kept = _kept_bytes(settings, rate_mb_per_s)
    if kept is None:
        by_bytes = int_or_zero(_value(settings, "retention.bytes", "-1"))
        return math.ceil(by_bytes / size) + 1 if by_bytes > 0 else 1
    bytes_per_s, kept_bytes = kept
    return math.ceil(kept_bytes / _segment_bytes(settings, bytes_per_s)) + 1


def _segment_bytes(settings: tuple[Setting, ...], bytes_per_s: float) -> float:
    """Return with how much a segment of a partition is closed: by its size, or at a rate by its age."""
    size = int_or_zero(_value(settings, "segment.bytes", str(_SEGMENT_BYTES)))
    by_age = bytes_per_s * int_or_zero(_value(settings, "segment.ms", str(_WEEK_MS))) / 1000
    return min(size, by_age) if by_age > 0 else size


def _kept_bytes(settings: tuple[Setting, ...], rate_mb_per_s: float | None) -> tuple[float, float] | None:
    """Return the bytes/s of a partition, and those that retention keeps of it; None where nobody knows."""
    retention = int_or_zero(_value(settings, "retention.ms", str(_WEEK_MS)))
    by_bytes = int_or_zero(_value(settings, "retention.bytes", "-1"))
    if not rate_mb_per_s or (retention < 0 and by_bytes < 0):
        return None
    rate = rate_mb_per_s * 1e6 / planned_partitions(settings)
    by_time = rate * retention / 1000 if retention >= 0 else math.inf
    return rate, min(by_time, by_bytes if by_bytes > 0 else math.inf)


def _median_replication(planned: Mapping[str, tuple[Setting, ...]]) -> int:
    copies = sorted(int(_value(s, "replication.factor", "1")) for s in planned.values())
    return copies[len(copies) // 2] if copies else 1


def _value(settings: tuple[Setting, ...], key: str, default: str) -> str:
    return next((s.value for s in settings if s.key == key), default)
