"""The copies of a topic, and how many of them have to be in sync."""

from __future__ import annotations

from kedge.plan.settings import Choice, Sheet
from kedge.services.topics.partition_count import put_own
from kedge.services.topics.variables import DeclaredTopic


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
