"""The module that creates and alters topics, as a playbook calls it, against a real broker."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.kafka.crashable import CrashableBroker
from tests.kafka.guarded import GuardedBroker
from tests.kafka.modules import run_module

pytestmark = pytest.mark.kafka


def settings(**values: Any) -> dict[str, Any]:
    plan = {"partitions": 2, "replication.factor": 1} | {k.replace("_", "."): v for k, v in values.items()}
    return {"settings": [{"key": key, "value": str(value)} for key, value in plan.items()]}


def present(
    servers: str, topics: dict[str, Any], *, check: bool = False, grow: list[str] | None = None
) -> Any:
    arguments = {"bootstrap_servers": servers, "topics": topics, "grow": grow or []}
    return run_module("kafka_topics_present", arguments, check=check)


def partitions(servers: str) -> dict[str, int]:
    found = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def running(servers: str, topic: str, key: str) -> str:
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    # A client that is let go takes the answers that are under way with it.
    client = AdminClient({"bootstrap.servers": servers})
    (answer,) = client.describe_configs([asked]).values()
    return str(answer.result(10)[key].value)


@pytest.fixture
def name() -> str:
    return f"declared-{uuid.uuid4().hex}"


def test_a_topic_is_created_once_and_check_mode_tells_the_truth(broker: CrashableBroker, name: str) -> None:
    servers, plan = broker.bootstrap_servers, {name: settings(retention_ms=600000)}
    assert present(servers, plan, check=True)["changed"]
    assert name not in partitions(servers)
    assert present(servers, plan)["changed"]
    assert partitions(servers)[name] == 2
    assert running(servers, name, "retention.ms") == "600000"
    assert not present(servers, plan)["changed"]
    assert not present(servers, plan, check=True)["changed"]


def test_settings_that_drifted_are_told_and_set_back(broker: CrashableBroker, name: str) -> None:
    servers = broker.bootstrap_servers
    present(servers, {name: settings(retention_ms=5, flush_ms=7)})
    plan = {name: settings(retention_ms=600000)}
    told = present(servers, plan, check=True)
    assert told["changes"] == {name: {"set": {"retention.ms": ["5", "600000"]}}}
    assert running(servers, name, "retention.ms") == "5"
    done = present(servers, plan)
    assert running(servers, name, "retention.ms") == "600000"
    assert f"topic {name} has flush.ms=7, which the plan does not name" in done["drift"][0]


def test_keyed_topic_with_fewer_partitions_is_refused_and_nothing_is_changed(
    broker: CrashableBroker, name: str
) -> None:
    servers, other = broker.bootstrap_servers, f"{name}-other"
    present(servers, {name: settings()})
    plan = {name: settings(partitions=4, retention_ms=5), other: settings()}
    for check in (True, False):
        told = present(servers, plan, check=check)
        assert told["failed"]
        assert "records of one key would lie in two partitions" in told["msg"]
        assert "keys_may_move: true at the topic" in told["msg"]
        assert "\n" not in told["msg"]
    found = partitions(servers)
    assert (found[name], other in found) == (2, False)
    assert running(servers, name, "retention.ms") != "5"
    assert present(servers, plan, grow=[name])["changed"]
    assert partitions(servers)[name] == 4


def test_more_copies_than_brokers_are_refused_and_nothing_is_changed(
    broker: CrashableBroker, name: str
) -> None:
    servers, other = broker.bootstrap_servers, f"{name}-other"
    told = present(servers, {other: settings(), name: settings(**{"replication.factor": 3})})
    assert f"{name} is to have 3 copies, and the cluster has 1 broker" in told["msg"]
    assert not {name, other} & partitions(servers).keys()


def test_a_setting_that_the_cluster_refuses_changes_nothing(broker: CrashableBroker, name: str) -> None:
    servers, other = broker.bootstrap_servers, f"{name}-other"
    for check in (True, False):
        told = present(servers, {other: settings(), name: settings(cleanup_policy="sometimes")}, check=check)
        assert told["msg"].startswith(f"Refusing to change the topics of {servers}: {name} cannot be ")
    assert not {name, other} & partitions(servers).keys()


def test_a_cluster_that_refuses_topics_is_one_line(guarded: GuardedBroker, name: str) -> None:
    servers = guarded.bootstrap_servers
    told = present(servers, {name: settings()})
    assert told["msg"].startswith(f"Refusing to change the topics of {servers}: {name} cannot be ")
    assert "TOPIC_AUTHORIZATION_FAILED" in told["msg"]
    assert "\n" not in told["msg"]
