"""The Kafka clusters that an inventory declares, and how each is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory, in_url
from kedge.plan.inventory.security import Security
from kedge.plan.variable_messages import no_mapping, wrong_variable
from kedge.plan.variables import Count, MessageBytes, Positive, Strict, Version, read_model

#: Default of the brokers' message.max.bytes and so of a topic's max.message.bytes; Kafka documentation.
MESSAGE_MAX_BYTES: Final = 1_048_588


class KafkaCluster(Strict):
    """A Kafka cluster: ours (``brokers`` names the group of its hosts) or somebody else's."""

    version: Version
    """Version of Apache Kafka that the brokers run, such as 4.3.1."""
    brokers: str | None = None
    """Inventory group of its brokers, if Kedge runs them. Either this or `bootstrap_servers` is required."""
    bootstrap_servers: str | None = None
    """Its bootstrap servers, HOST:PORT,HOST:PORT, if Kedge does not run it; not together with `brokers`."""
    data_center: str | None = None
    """Data center of its brokers; the plan compares it with that of the hosts."""
    broker_count: Positive | None = None
    """Number of its brokers, if `brokers` is not set."""
    message_max_bytes: MessageBytes | None = None
    """message.max.bytes of its brokers; Kafka's default if not set."""
    other_partitions: Count = 0
    """Partitions of its topics that are not in kafka_topics."""
    group_session_ms: Positive | None = None
    """group.consumer.session.timeout.ms of its brokers, if they have the consumer protocol turned on."""
    security: Security | None = None
    """Encryption and logins of its clients; without it, plain text and no login."""


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
                no_mapping(declared),
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
        f"{in_url(inventory.address(b))}:{inventory.hosts[b].get('kafka_broker_port', port)}" for b in brokers
    )


def servers(text: str) -> frozenset[str]:
    """Return the brokers of a list as HOST:PORT, whatever their order, spaces, letters' case and protocol."""
    return frozenset(one for word in text.lower().split(",") if (one := word.strip().rpartition("://")[2]))


def same_cluster(one: str, other: str) -> bool:
    """Return whether two lists name a broker in common, which is of one cluster alone.

    Lists without one may still be of one cluster: by other names, other listeners, or other brokers of it.
    Only the brokers themselves could tell.
    """
    return not servers(one).isdisjoint(servers(other))


def message_max_bytes(inventory: Inventory, cluster: KafkaCluster) -> int | None:
    """Return the message.max.bytes of a cluster's brokers; None when the inventory does not say.

    Of brokers of the inventory, the smallest that one of them is given.
    """
    if cluster.message_max_bytes is not None:
        return cluster.message_max_bytes
    found = [
        int(settings["message.max.bytes"])
        for host in (inventory.group(cluster.brokers) if cluster.brokers else ())
        if "message.max.bytes" in (settings := inventory.hosts[host].get("kafka_broker_settings") or {})
        and str(settings["message.max.bytes"]).isdecimal()
    ]
    return min(found, default=None)


def broker_count(inventory: Inventory, cluster: KafkaCluster) -> int | None:
    """Return how many brokers a cluster has; None when the inventory does not say."""
    if cluster.broker_count is not None:
        return cluster.broker_count
    return len(inventory.group(cluster.brokers)) or None if cluster.brokers else None
