"""Plans the declared topics: their partitions, copies and own keys, held against their cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kedge.keys.accepted_values import check_values
from kedge.keys.catalogue import takes
from kedge.keys.unread import check_keys
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import broker_count, cluster_names, clusters
from kedge.plan.plan import Part
from kedge.plan.settings import Setting, Sheet
from kedge.plan.variable_messages import declare
from kedge.services.topics.cluster_limits import ClusterTopics, check_cluster
from kedge.services.topics.partition_count import check_in_sync, plan_partitions, plan_replication, put_own
from kedge.services.topics.variables import DeclaredTopic, PartitionRates, partition_rates, topics


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
            severity="error",
            consequence=": brokers refuse a topic with it",
            variable=f"{where}.settings",
        )
        findings += check_values(f"{where}.settings", "all", topic.settings, takes("topic", version))
        planned.setdefault(topic.cluster, {}).setdefault(topic.name, tuple(sheet.settings))
    part = Part(topics=planned)
    for of in with_topics(inventory, part).values():
        findings += check_cluster(inventory, of)
    return replace(part, findings=tuple(findings))


def with_topics(inventory: Inventory, planned: Part) -> dict[str, ClusterTopics]:
    """Return the clusters that have planned topics, with these and their targets."""
    known, declared = clusters(inventory)[0], topics(inventory)[0]
    rates: dict[str, dict[str, float]] = {}
    for topic in declared:
        if topic.target_mb_per_s:
            rates.setdefault(topic.cluster, {})[topic.name] = topic.target_mb_per_s
    return {
        name: ClusterTopics(name, known[name], of_cluster, rates.get(name, {}))
        for name, of_cluster in sorted(planned.topics.items())
    }


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


def _unknown_cluster(topic: DeclaredTopic, known: list[str]) -> Finding:
    return Finding(
        "error",
        "topics.cluster",
        f"kafka_topics: {topic.name}",
        f"cluster {topic.cluster} of topic {topic.name} is not in kafka_clusters",
        declare(known),
    )


def _settings(
    sheet: Sheet, topic: DeclaredTopic, brokers: int | None, measured: Sequence[PartitionRates]
) -> None:
    plan_partitions(sheet, topic, measured)
    replication = plan_replication(sheet, topic, brokers)
    for key, value in sorted(topic.settings.items()):
        put_own(sheet, key, value, "topics.own")
    check_in_sync(sheet, topic, replication)
