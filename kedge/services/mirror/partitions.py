"""The partitions of a flow, on both of its clusters, and what else topics and clusters bound of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import KafkaCluster
from kedge.plan.plan import Part
from kedge.plan.settings import Setting, Sheet
from kedge.services.mirror.message_bytes import check_messages, message_bytes, target_bytes
from kedge.services.mirror.variables import MirrorFlow
from kedge.services.topics.cluster_limits import planned_partitions


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a flow.

    Attributes:
        largest: partitions of the largest topic.
        source_partitions: partitions of all its topics, as far as they are known.
        target_partitions: partitions of the target that its producers may write to, and what they are.
        written: those of them that it is known to write to.
        message_bytes: the largest message, and where that is said.
        target_bytes: the largest message that the target takes, and what takes no more.
        target_copies, source_copies: replication that the clusters can give to internal topics.
    """

    largest: int
    source_partitions: int
    target_partitions: int
    target_source: str
    written: int
    message_bytes: int
    message_source: str
    target_bytes: int
    target_taker: str
    target_copies: int
    source_copies: int


_OF_TOPICS: Final = "those of its topics"


def limits(
    sheet: Sheet,
    inventory: Inventory,
    name: str,
    flow: MirrorFlow,
    clusters: Mapping[str, KafkaCluster],
    topics: Part,
    prefix: str,
) -> Limits | None:
    """Return the bounds of a flow; None, with an error on the sheet, when they cannot be known.

    ``prefix`` is what the names of its topics begin with on the target.
    """
    source = matching(flow, topics.topics.get(flow.source, {}))
    target = {
        t.removeprefix(prefix): s
        for t, s in topics.topics.get(flow.target, {}).items()
        if t.startswith(prefix) and matching(flow, {t.removeprefix(prefix): s})
    }
    known = {t: planned_partitions(s) for t, s in source.items()}
    largest = max([flow.largest_topic_partitions or 0, *known.values()])
    if not largest:
        sheet.error(
            "mirror.topics",
            f"no topic in kafka_topics on cluster {flow.source} matches {', '.join(flow.topics)}, and "
            f"mirror_maker_flows.{name}.largest_topic_partitions is missing",
            "declare the topics, or say how many partitions the largest one has",
        )
        return None
    if flow.largest_topic_partitions and max(known.values(), default=0) > flow.largest_topic_partitions:
        biggest = max(known, key=lambda t: known[t])
        sheet.error(
            "mirror.topics",
            f"mirror_maker_flows.{name}.largest_topic_partitions is {flow.largest_topic_partitions}, and "
            f"topic {biggest} has {known[biggest]}",
            "take the variable out, or correct it",
        )
    in_all = max(sum(known.values()), largest)
    written = max(in_all, sum(planned_partitions(s) for s in target.values()))
    partitions, counted = _target_partitions(flow, name, written, topics, clusters[flow.target])
    if counted == _OF_TOPICS and not known:
        counted = sheet.name(f"mirror_maker_flows.{name}.largest_topic_partitions")
    unknown = not flow.target_partitions and not clusters[flow.target].other_partitions
    if unknown and partitions == written and (not source or _matches_more(flow)):
        declared = f"{len(source)} declared topics match" if source else "no declared topic matches"
        sheet.note(
            "mirror.target_partitions",
            f"{declared} {', '.join(flow.topics)}, others may, and the buffer of flow {name} counts "
            f"{partitions} partitions: it has to hold a batch for each that the flow writes to on "
            f"{flow.target}",
            f"set mirror_maker_flows.{name}.target_partitions, or "
            f"kafka_clusters.{flow.target}.other_partitions, to what kafka-topics says",
        )
    takes, taker = target_bytes(inventory, clusters[flow.target], flow, target)
    variable = sheet.name(f"mirror_maker_flows.{name}.max_message_bytes")
    message, said = message_bytes(flow, variable, source, clusters[flow.source])
    check_messages(sheet, flow, message, said, source, target, inventory, clusters)
    return Limits(
        largest=largest,
        source_partitions=in_all,
        target_partitions=partitions,
        target_source=counted,
        written=max(flow.target_partitions or 0, written),
        message_bytes=message,
        message_source=said,
        target_bytes=takes,
        target_taker=taker,
        target_copies=_copies(inventory, clusters[flow.target]),
        source_copies=_copies(inventory, clusters[flow.source]),
    )


def _target_partitions(
    flow: MirrorFlow, name: str, written: int, topics: Part, target: KafkaCluster
) -> tuple[int, str]:
    """Return how many partitions of the target a producer may have a batch of, and why so many.

    The article counts all of the target's. A pattern may match topics that nobody declared, so without a
    number all count that the inventory knows of.
    """
    if flow.target_partitions:
        if flow.target_partitions >= written:
            return flow.target_partitions, f"mirror_maker_flows.{name}.target_partitions"
        return written, f"{_OF_TOPICS}, more than mirror_maker_flows.{name}.target_partitions"
    of_cluster = target.other_partitions + sum(
        planned_partitions(s) for s in topics.topics.get(flow.target, {}).values()
    )
    if of_cluster > written:
        return of_cluster, f"all that the inventory knows of cluster {flow.target}"
    return written, _OF_TOPICS


def matching(flow: MirrorFlow, topics: Mapping[str, tuple[Setting, ...]]) -> dict[str, tuple[Setting, ...]]:
    """Return the topics that one of the flow's patterns matches whole."""
    patterns = [re.compile(p) for p in flow.topics]
    return {t: s for t, s in topics.items() if any(p.fullmatch(t) for p in patterns)}


def _matches_more(flow: MirrorFlow) -> bool:
    """Tell whether a pattern of the flow is more than one name, whose dots may be written plainly."""
    return any(set(re.sub(r"\[\.\]|\\\.", ".", pattern)) & set(r"*+?{}()|[]^$\\") for pattern in flow.topics)


def _copies(inventory: Inventory, cluster: KafkaCluster) -> int:
    known = cluster.broker_count or (len(inventory.group(cluster.brokers)) if cluster.brokers else 0)
    return min(3, known or 3)
