"""Rules for topics: partitions from a throughput, replication, and what so many partitions cost a cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import declare
from sizing.core.plan import Part
from sizing.core.settings import Basis, Choice, Setting, Sheet
from sizing.core.values import number
from sizing.inventory.clusters import KafkaCluster, cluster_names, clusters
from sizing.inventory.service_levels import service_levels
from sizing.keys.catalogue import check_keys, takes
from sizing.keys.values import check_values
from sizing.topics.rates import check_rates, rates_of
from sizing.topics.variables import PartitionRates, Topic, partition_rates, topics

_GUIDE: Final = "Configure Kafka for High Throughput"
_PARTITIONS: Final = f"{_GUIDE}, Number of Partitions"

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


def partitions_needed(target: float, production: float, consumption: float, growth: float = 1.0) -> int:
    """Return max(t / t_production, t / t_consumption), rounded up; all in the same unit of throughput."""
    # A quotient such as 0.3 / 0.1 must not become a partition more by its last bit.
    return max(1, math.ceil(round(growth * max(target / production, target / consumption), 9)))


def added_replication_ms(partitions: float, brokers: int, replication: int) -> float:
    """Return the latency that replication adds: (p / b) x (r - 1) x (20 / 1000) ms."""
    return partitions / brokers * (replication - 1) * ADDED_MS_PER_PARTITION


def broker_count(inventory: Inventory, cluster: KafkaCluster) -> int | None:
    """Return how many brokers a cluster has; None when the inventory does not say."""
    if cluster.broker_count is not None:
        return cluster.broker_count
    return len(inventory.group(cluster.brokers)) or None if cluster.brokers else None


def plan_topics(inventory: Inventory) -> Part:
    """Plan the declared topics of every cluster."""
    known, findings = clusters(inventory)
    names = cluster_names(inventory)
    declared, wrong = topics(inventory)
    measured, wrong_rates = partition_rates(inventory)
    findings += wrong + wrong_rates
    planned: dict[str, dict[str, tuple[Setting, ...]]] = {}
    for topic in declared:
        if topic.cluster not in known:
            if topic.cluster not in names:
                findings.append(_unknown_cluster(topic, sorted(names)))
            continue
        sheet = Sheet(f"topic {topic.name} on {topic.cluster}", "measured", {})
        _settings(sheet, topic, broker_count(inventory, known[topic.cluster]), measured)
        findings += sheet.findings
        where, version = f"kafka_topics: {topic.name}", known[topic.cluster].version
        # A key of other versions is passed over.
        findings += check_keys(
            "topic",
            version,
            topic.settings,
            where,
            refused="brokers refuse a topic with it",
        )
        findings += check_values(f"{where}.settings", "all", topic.settings, takes("topic", version))
        planned.setdefault(topic.cluster, {}).setdefault(topic.name, tuple(sheet.settings))
    for name in sorted(planned):
        findings += _cluster_findings(inventory, name, known[name], planned[name])
    return Part(topics=planned, findings=tuple(findings))


def targets(inventory: Inventory, cluster: str) -> list[dict[str, object]]:
    """Return the topics of a cluster with a target, and the partitions that a person gave them."""
    return [
        {
            "topic": topic.name,
            "target_mb_per_s": topic.target_mb_per_s,
            "growth": topic.growth,
            "partitions": topic.partitions,
        }
        for topic in topics(inventory)[0]
        if topic.cluster == cluster and topic.target_mb_per_s
    ]


def planned_partitions(settings: tuple[Setting, ...]) -> int:
    """Return the partitions of a planned topic."""
    return int(_value(settings, "partitions", "1"))


def _unknown_cluster(topic: Topic, known: list[str]) -> Finding:
    return Finding(
        "error",
        "topics.cluster",
        f"kafka_topics: {topic.name}",
        f"cluster {topic.cluster} of topic {topic.name} is not in kafka_clusters",
        declare(known),
    )


def _settings(sheet: Sheet, topic: Topic, brokers: int | None, measured: Sequence[PartitionRates]) -> None:
    count = _partitions(sheet, topic, measured)
    _check_live(sheet, topic, count)
    replication = topic.replication or min(3, brokers or 3)
    if topic.replication:
        _own(sheet, "replication.factor", replication, "topics.replication")
    else:
        because = f"{replication} copies on {brokers or 'at least 3'} brokers"
        source = "Kafka documentation, Replication"
        sheet.put(
            "", "replication.factor", "topics.replication", Choice(replication, because, source, "documented")
        )
    if brokers is not None and replication > brokers:
        sheet.error(
            "topics.replication",
            f"replication of topic {topic.name} is {replication}, and cluster {topic.cluster} has {brokers} "
            "brokers",
            f"set replication to {brokers} or less, or add brokers",
        )
    for key, value in sorted(topic.settings.items()):
        _own(sheet, key, value, "topics.own")
    in_sync = topic.settings.get("min.insync.replicas")
    if isinstance(in_sync, int) and in_sync > replication:
        sheet.error(
            "topics.min_insync",
            f"min.insync.replicas of topic {topic.name} is {in_sync}, above its {replication} copies: with "
            "acks=all nothing can be written",
            f"set it to {max(1, replication - 1)}, so that one copy may be away",
        )
    elif isinstance(in_sync, int) and in_sync == replication > 1:
        sheet.warning(
            "topics.min_insync",
            f"min.insync.replicas of topic {topic.name} is {in_sync}, as many as its copies: while a broker "
            "is away or restarts, nothing can be written with acks=all",
            f"set it to {replication - 1}, or raise replication",
        )


def _own(sheet: Sheet, key: str, value: str | int | float | bool, rule: str) -> None:
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    sheet.settings.append(Setting("", key, shown, rule, "set in the inventory", "the inventory", "yours"))


def _partitions(sheet: Sheet, topic: Topic, measured: Sequence[PartitionRates]) -> int:
    needed = None
    rates = rates_of(topic, measured)
    if topic.target_mb_per_s and rates:
        target, production, consumption = topic.target_mb_per_s, rates.production, rates.consumption
        needed = partitions_needed(target, production, consumption, topic.growth)
        grown = f" x growth {topic.growth:g}" if topic.growth != 1 else ""
        because = (
            f"max({target:g} / {production:g}, {target:g} / {consumption:g}) MB/s{grown} = "
            f"{topic.growth * max(target / production, target / consumption):.2f}, rounded up"
        )
        check_rates(sheet, topic, rates)
    elif topic.target_mb_per_s and not topic.partitions and any(m.cluster == topic.cluster for m in measured):
        sheet.error(
            "topics.rates",
            f"topic {topic.name} has a target, and no measurement of cluster {topic.cluster} was made with "
            "its codec and acks",
            f"measure: python -m verify.measure --cluster {topic.cluster} --codec {topic.codec or 'none'} "
            f"--acks {topic.acks or 'all'}",
        )
    if topic.partitions is not None:
        _own(sheet, "partitions", topic.partitions, "topics.partitions")
        if needed is None and topic.target_mb_per_s:
            sheet.note(
                "topics.target",
                f"the {topic.partitions} partitions of topic {topic.name} count; whether they reach its "
                "target is not known: nothing was measured",
                f"measure: python -m verify.measure --cluster {topic.cluster}",
            )
        if needed is not None and topic.partitions < needed:
            sheet.warning(
                "topics.partitions",
                f"topic {topic.name} has {topic.partitions} partitions, and its target needs {needed}: "
                f"{because}",
                f"set partitions to {needed}, or leave partitions out",
            )
        return topic.partitions
    if needed is not None:
        basis: Basis = "measured" if rates and rates.measured else "derived"
        sheet.put(
            "",
            "partitions",
            "topics.partitions",
            Choice(needed, because, rates.source if rates else _PARTITIONS, basis),
        )
        if topic.growth == 1 and topic.keyed:
            sheet.note(
                "topics.growth",
                f"topic {topic.name} has keys and no room to grow: partitions that are added later move keys",
                "set growth to what you expect, such as 2",
            )
        return needed
    because = "no target throughput and no partitions are given"
    sheet.put(
        "",
        "partitions",
        "topics.partitions",
        Choice(1, because, "Kafka documentation, num.partitions", "documented"),
    )
    return 1


def _check_live(sheet: Sheet, topic: Topic, count: int) -> None:
    live = topic.live_partitions
    if live is None or count == live:
        return
    if count < live:
        sheet.error(
            "topics.partitions.live",
            f"topic {topic.name} has {live} partitions and the plan says {count}: Kafka cannot take "
            "partitions away",
            f"set partitions to {live}, or make a new topic",
        )
        return
    moved = (
        f"topic {topic.name} grows from {live} to {count} partitions: a key's new records go to another "
        "partition than its old ones, so until the old ones have expired a key lies in two partitions and "
        "its order is lost"
    )
    if not topic.keyed:
        sheet.note(
            "topics.partitions.live", f"topic {topic.name} grows from {live} to {count} partitions", ""
        )
    elif topic.keys_may_move:
        sheet.warning("topics.partitions.live", moved, "let consumers drain the topic before it grows")
    else:
        sheet.error(
            "topics.partitions.live",
            moved,
            f"keep partitions at {live}, or set keys_may_move: true (keyed: false where records have no key)",
        )


def _cluster_findings(
    inventory: Inventory, name: str, cluster: KafkaCluster, planned: dict[str, tuple[Setting, ...]]
) -> list[Finding]:
    brokers = broker_count(inventory, cluster)
    sheet = Sheet(f"cluster {name}", "measured", {})
    total = cluster.other_partitions + sum(planned_partitions(s) for s in planned.values())
    if total > CLUSTER_PARTITIONS:
        sheet.warning(
            "topics.cluster.partitions",
            f"cluster {name} has {total} partitions; low tens of thousands are the most that is advised",
            "use fewer partitions a topic, or another cluster",
        )
    if brokers is None:
        return sheet.findings
    copies = _median_replication(planned)
    leaders = total / brokers
    if leaders > LEADERS_NOTE:
        report = sheet.warning if leaders > LEADERS_WARNING else sheet.note
        report(
            "topics.leaders",
            f"{total} partitions on {brokers} brokers of cluster {name} are {leaders:.0f} leaders a broker, "
            f"all away for a moment when it fails; advised are {LEADERS_NOTE} to {LEADERS_WARNING} at most",
            f"use {math.ceil(total / LEADERS_WARNING)} brokers or more, or fewer partitions",
        )
    added = added_replication_ms(cluster.other_partitions, brokers, copies) + sum(
        added_replication_ms(planned_partitions(s), brokers, int(_value(s, "replication.factor", "1")))
        for s in planned.values()
    )
    _latency(sheet, inventory, name, total, brokers, added)
    _handles(sheet, inventory, name, cluster, brokers, planned)
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


def _handles(
    sheet: Sheet,
    inventory: Inventory,
    name: str,
    cluster: KafkaCluster,
    brokers: int,
    planned: dict[str, tuple[Setting, ...]],
) -> None:
    segments = cluster.other_partitions * _median_replication(planned) + sum(
        planned_partitions(s) * int(_value(s, "replication.factor", "1")) * _segments(s)
        for s in planned.values()
    )
    handles = math.ceil(2 * segments / brokers)
    limit = min(
        (
            int(inventory.hosts[h].get("kafka_broker_open_files", HANDLES_LIMIT))
            for h in _hosts(inventory, cluster)
        ),
        default=HANDLES_LIMIT,
    )
    what = (
        f"a broker of cluster {name} opens about {handles} files: 2 for each of {handles // 2} log segments"
    )
    if handles > limit and not _hosts(inventory, cluster):
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
            "topics.file_handles", f"{what}, above the {HANDLES_SEEN} seen in production", "watch them"
        )
    _maps(sheet, inventory, name, cluster, handles)


def _maps(sheet: Sheet, inventory: Inventory, name: str, cluster: KafkaCluster, maps: int) -> None:
    """Hold the maps of a broker against what its kernel has, or gets from the plan, or from a person."""
    hosts = _hosts(inventory, cluster)
    own = [inventory.hosts[h].get("host_tuning_settings") for h in hosts]
    # What is no mapping, the rules for hosts find.
    of_hosts = [each.get("vm.max_map_count") if isinstance(each, Mapping) else None for each in own]
    limit = min((number(each) or BROKER_MAPS for each in of_hosts), default=MAPS_LIMIT)
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


def _segments(settings: tuple[Setting, ...]) -> int:
    """Return the segments of one partition: what retention.bytes keeps, and the one being written."""
    kept = _value(settings, "retention.bytes", "-1")
    size = _value(settings, "segment.bytes", str(_SEGMENT_BYTES))
    if kept.isdecimal() and size.isdecimal() and int(size) > 0:
        return math.ceil(int(kept) / int(size)) + 1
    return 1


def _median_replication(planned: dict[str, tuple[Setting, ...]]) -> int:
    copies = sorted(int(_value(s, "replication.factor", "1")) for s in planned.values())
    return copies[len(copies) // 2] if copies else 1


def _value(settings: tuple[Setting, ...], key: str, default: str) -> str:
    return next((s.value for s in settings if s.key == key), default)
