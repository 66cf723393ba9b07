"""Rules for topics and their partitions."""

from __future__ import annotations

from sizing.model import Finding, Inventory, Part, Setting
from sizing.workload import clusters
from sizing.workload_topics import topics

_INVENTORY = "the inventory"


def plan_topics(inventory: Inventory) -> Part:
    """Plan the declared topics of every cluster."""
    known, findings = clusters(inventory)
    declared, wrong = topics(inventory)
    findings += wrong
    planned: dict[str, dict[str, tuple[Setting, ...]]] = {}
    for topic in declared:
        where = f"kafka_topics: {topic.name}"
        if topic.cluster not in known:
            findings.append(
                Finding(
                    "error",
                    "topics.cluster",
                    where,
                    f"cluster {topic.cluster} of topic {topic.name} is not in kafka_clusters",
                    f"use one of {', '.join(sorted(known)) or 'none is declared'}, or declare it",
                )
            )
            continue
        brokers = len(inventory.group(known[topic.cluster].brokers or ""))
        replication = topic.replication or min(3, brokers or 3)
        settings = [
            Setting(
                "",
                "partitions",
                str(topic.partitions or 1),
                "topics.partitions",
                "set in the inventory",
                _INVENTORY,
                by="person",
            ),
            Setting(
                "",
                "replication.factor",
                str(replication),
                "topics.replication",
                f"{replication} copies on {brokers or 'at least 3'} brokers",
                "Kafka documentation, Replication",
            ),
        ]
        settings += [
            Setting("", key, str(value), "topics.own", "set in the inventory", _INVENTORY, by="person")
            for key, value in sorted(topic.settings.items())
        ]
        planned.setdefault(topic.cluster, {})[topic.name] = tuple(settings)
    return Part(topics=planned, findings=tuple(findings))
