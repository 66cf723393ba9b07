"""How many partitions a topic gets, from its throughput and beside those that it has; and its copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from kedge.plan.settings import Basis, Choice, Setting, Sheet
from kedge.services.topics.rates import check_rates, rates_of
from kedge.services.topics.variables import DeclaredTopic, PartitionRates

_GUIDE: Final = "Configure Kafka for High Throughput"
_PARTITIONS: Final = f"{_GUIDE}, Number of Partitions"


def partitions_needed(target: float, production: float, consumption: float, growth: float = 1.0) -> int:
    """Return max(t / t_production, t / t_consumption), rounded up; all in the same unit of throughput."""
    # A quotient such as 0.3 / 0.1 must not become a partition more by its last bit.
    return max(1, math.ceil(round(growth * max(target / production, target / consumption), 9)))


def plan_partitions(sheet: Sheet, topic: DeclaredTopic, measured: Sequence[PartitionRates]) -> None:
    """Plan how many partitions a topic gets."""
    _check_live(sheet, topic, _partitions(sheet, topic, measured))


def _partitions(sheet: Sheet, topic: DeclaredTopic, measured: Sequence[PartitionRates]) -> int:
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
            f"measure: kedge measure --cluster {topic.cluster} --codec {topic.codec or 'none'} "
            f"--acks {topic.acks or 'all'}",
        )
    if topic.partitions is not None:
        put_own(sheet, "partitions", topic.partitions, "topics.partitions")
        if needed is None and topic.target_mb_per_s:
            sheet.note(
                "topics.target",
                f"the {topic.partitions} partitions of topic {topic.name} count; whether they reach its "
                "target is not known: nothing was measured",
                f"measure: kedge measure --cluster {topic.cluster}",
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
                f"topic {topic.name} has keys and no headroom to grow: partitions that are added later "
                f"move keys",
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


def _check_live(sheet: Sheet, topic: DeclaredTopic, count: int) -> None:
    live = topic.live_partitions
    if live is None or count == live:
        return
    if count < live:
        sheet.error(
            "topics.partitions.live",
            f"topic {topic.name} has {live} partitions and the plan says {count}: Kafka cannot "
            "remove partitions",
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


def put_own(sheet: Sheet, key: str, value: str | int | float | bool, rule: str) -> None:
    """Take a value that the inventory sets itself."""
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    sheet.settings.append(Setting("", key, shown, rule, "set in the inventory", "the inventory", "yours"))


def plan_replication(sheet: Sheet, topic: DeclaredTopic, brokers: int | None) -> int:
    """Plan how many copies a topic has; return them."""
    replication = topic.replication or min(3, brokers or 3)
    if topic.replication:
        put_own(sheet, "replication.factor", replication, "topics.replication")
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
    return replication


def check_in_sync(sheet: Sheet, topic: DeclaredTopic, replication: int) -> None:
    """Find copies of which too many have to be in sync."""
    in_sync = topic.settings.get("min.insync.replicas")
    if isinstance(in_sync, int) and in_sync > replication:
        sheet.error(
            "topics.min_insync",
            f"min.insync.replicas of topic {topic.name} is {in_sync}, above its {replication} copies: with "
            "acks=all nothing can be written",
            f"set it to {max(1, replication - 1)}, so that one copy may be unavailable",
        )
    elif isinstance(in_sync, int) and in_sync == replication > 1:
        sheet.warning(
            "topics.min_insync",
            f"min.insync.replicas of topic {topic.name} is {in_sync}, as many as its copies: while a broker "
            "is down or restarts, nothing can be written with acks=all",
            f"set it to {replication - 1}, or raise replication",
        )
