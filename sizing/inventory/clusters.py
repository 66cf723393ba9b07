"""The Kafka clusters that an inventory declares, and how each is reached."""

from __future__ import annotations

from collections.abc import Mapping

from sizing.core import messages
from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import wrong_variable
from sizing.core.variables import Count, Positive, Strict, Version, read_model
from sizing.inventory.security import Security


class KafkaCluster(Strict):
    """A Kafka cluster: ours (``brokers`` names the group of its hosts) or somebody else's.

    Of somebody else's, the plan cannot count or read what it does not run: ``broker_count``,
    ``message_max_bytes`` (the brokers' message.max.bytes), ``other_partitions`` (beside the declared topics),
    ``group_session_ms`` (its group.consumer.session.timeout.ms; naming it says that its brokers have the
    consumer protocol turned on).
    """

    version: Version
    brokers: str | None = None
    bootstrap_servers: str | None = None
    data_center: str | None = None
    broker_count: Positive | None = None
    message_max_bytes: Positive | None = None
    other_partitions: Count = 0
    group_session_ms: Positive | None = None
    security: Security | None = None


def clusters(inventory: Inventory) -> tuple[dict[str, KafkaCluster], list[Finding]]:
    """Read ``kafka_clusters``."""
    found: dict[str, KafkaCluster] = {}
    wrong: list[Finding] = []
    declared = inventory.common("kafka_clusters") or {}
    if not isinstance(declared, Mapping):
        return found, [
            wrong_variable(
                "kafka_clusters",
                "all",
                messages.no_mapping(declared),
                "write a mapping from name to cluster",
            )
        ]
    for name, value in declared.items():
        cluster = read_model(KafkaCluster, value, f"kafka_clusters.{name}.", "all")
        if isinstance(cluster, list):
            wrong += cluster
        else:
            found[name] = cluster
    return found, wrong


def cluster_names(inventory: Inventory) -> frozenset[str]:
    """Return the names of ``kafka_clusters``, also those of clusters that are declared wrongly."""
    declared = inventory.common("kafka_clusters")
    return frozenset(map(str, declared)) if isinstance(declared, Mapping) else frozenset()


def bootstrap(inventory: Inventory, name: str, cluster: KafkaCluster, port: int = 9092) -> str:
    """Return the bootstrap servers of a cluster."""
    if cluster.bootstrap_servers:
        return cluster.bootstrap_servers
    brokers = inventory.group(cluster.brokers or f"kafka_{name}")
    return ",".join(
        f"{inventory.address(b)}:{inventory.hosts[b].get('kafka_broker_port', port)}" for b in brokers
    )
