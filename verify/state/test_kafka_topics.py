"""The topics of the clusters that this inventory deploys: partitions, copies and settings are read back."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

from kedge.deploy.kafka_admin import TIMEOUT_SECONDS, admin
from kedge.evidence.secrets import from_environment

Settings = dict[tuple[str, str], dict[str, str]]
SIZES = ("partitions", "replication.factor")


@pytest.fixture(scope="session")
def wanted(plan: dict[str, Any]) -> Settings:
    """Cluster and topic to what the plan says of it."""
    return {
        (cluster, name): {s["key"]: str(s["value"]) for s in topic["settings"]}
        for cluster, topics in plan["topics"].items()
        for name, topic in topics.items()
    }


@pytest.fixture(scope="session")
def clients(plan: dict[str, Any]) -> dict[str, Any]:
    """An admin client of each cluster that has planned topics."""
    named = {name: plan["clusters"][name] for name in plan["topics"]}
    logins = from_environment().get("clusters", {})
    return {
        name: admin(c["bootstrap_servers"], {**c.get("client", {}), **logins.get(name, {})})
        for name, c in named.items()
    }


def test_each_topic_has_the_planned_partitions_and_copies(wanted: Settings, clients: dict[str, Any]) -> None:
    for (cluster, name), values in wanted.items():
        found = clients[cluster].list_topics(timeout=TIMEOUT_SECONDS).topics
        assert name in found, f"cluster {cluster} has no topic {name}"
        partitions = found[name].partitions.values()
        assert len(partitions) == int(values["partitions"]), name
        assert {len(p.replicas) for p in partitions} == {int(values["replication.factor"])}, name


def test_each_topic_has_the_planned_settings_in_force(wanted: Settings, clients: dict[str, Any]) -> None:
    for (cluster, name), values in wanted.items():
        asked = ConfigResource(ConfigResource.Type.TOPIC, name)
        answers = clients[cluster].describe_configs([asked]).values()
        (running,) = [answer.result(TIMEOUT_SECONDS) for answer in answers]
        planned = {k: v for k, v in values.items() if k not in SIZES}
        assert {k: running[k].value for k in planned} == planned, name
