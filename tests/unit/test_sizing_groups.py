"""The protocol of consumer groups: who can speak it, what is then refused, and what moves to the brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.planning import make_plan
from tests.planned import CLUSTERS, findings, of_topics, streams
from tests.rest_inventories import of_rule, planned, rest

PROTOCOL = "consumer.group.protocol"
PAUSE = "consumer.iterator.backoff.ms"
SESSION = "consumer.session.timeout.ms"
RULE = "rest.consumer.protocol"
LEVELS = {"service_levels": {"rebalance": {"consume_stall_s": 15}}}
READERS = {"consumers": 4}
ABLE = {"kafka_clusters": CLUSTERS | {"leaf": CLUSTERS["leaf"] | {"group_session_ms": 10_000}}}


def proxies(leaf: dict[str, Any] | None = None, **role: Any) -> Any:
    """Return a proxy with consumers, on somebody else's cluster."""
    clusters = CLUSTERS | {"leaf": CLUSTERS["leaf"] | (leaf or {})}
    return rest(1, READERS, common={"kafka_clusters": clusters} | LEVELS, **role)


def ours(broker: dict[str, Any] | None = None, brokers: str = "4.3.1", **role: Any) -> Any:
    """Return a proxy with consumers, on a cluster that the kit runs."""
    common = {
        "kafka_clusters": {"leaf": {"version": brokers, "brokers": "kafka_leaf"}},
        "kafka_broker_settings": broker or {},
    }
    groups = {"kafka_leaf": ("leaf1",), "kafka_broker": ("leaf1",)}
    return rest(1, READERS, common | LEVELS, groups, **role)


@pytest.mark.parametrize(
    ("distribution", "version", "key"),
    [
        ("confluent", "8.3.1", PROTOCOL),
        ("confluent", "8.0.0", PROTOCOL),
        ("strimzi", "1.1.0", f"kafka.{PROTOCOL}"),
    ],
)
def test_proxies_with_clients_of_kafka_4_speak_the_consumer_protocol(
    distribution: str, version: str, key: str
) -> None:
    inventory = ours(distribution=distribution, version=version)
    assert planned(inventory, key) == "consumer"
    # A consumer that has both does not start.
    assert planned(inventory, key.replace("group.protocol", "session.timeout.ms")) == ""


@pytest.mark.parametrize(
    ("distribution", "version", "session"),
    [("confluent", "7.9.1", SESSION), ("strimzi", "0.33.1", f"kafka.{SESSION}")],
)
def test_proxies_with_older_clients_stay_classic_with_a_session_of_their_own(
    distribution: str, version: str, session: str
) -> None:
    inventory = ours(distribution=distribution, version=version)
    assert planned(inventory, session.replace("session.timeout.ms", "group.protocol")) == ""
    assert planned(inventory, session) == "10000"
    (note,) = of_rule(make_plan(inventory), RULE, "note")
    assert "classic" in note.message


@pytest.mark.parametrize(
    ("version", "asked", "workload", "polled"),
    [
        ("8.3.1", {}, {"records_per_request": 1000}, "1000"),
        ("8.3.1", {}, {"records_per_request": 30}, ""),  # the proxy's own
        ("8.3.1", {}, {"records_per_request": 1000, "record_bytes": 100_000}, ""),  # 20 fill a read
        ("8.3.1", {}, {"records_per_request": 1000, "record_bytes": 20_000}, "104"),
        ("8.3.1", {PROTOCOL: "classic"}, {"records_per_request": 1000}, ""),
        ("8.3.1", {"consumer.max.poll.records": 40}, {"records_per_request": 1000}, "40"),
        ("7.9.1", {}, {"records_per_request": 1000}, ""),
    ],
)
def test_a_poll_of_the_consumer_protocol_takes_what_a_produce_request_has(
    version: str, asked: dict[str, Any], workload: dict[str, Any], polled: str
) -> None:
    inventory = rest(1, READERS | workload, common=ABLE | LEVELS, version=version, settings=asked)
    assert planned(inventory, "consumer.max.poll.records") == polled


@pytest.mark.parametrize(
    ("consumers", "settings", "pause"),
    [
        (4, {}, "25"),
        (16, {}, "25"),
        (17, {}, ""),  # the proxy's own
        (0, {}, ""),
        (4, {PROTOCOL: "classic"}, ""),
        (4, {PAUSE: 50}, "50"),
        (4, {PAUSE: 25}, "25"),
    ],
)
def test_reads_of_few_consumers_pause_for_half_the_default(
    consumers: int, settings: dict[str, Any], pause: str
) -> None:
    common = ABLE | LEVELS
    inventory = rest(1, {"consumers": consumers * 2}, common, instances_per_host=2, settings=settings)
    assert planned(inventory, PAUSE) == pause
    assert not of_rule(make_plan(inventory), "rest.dont_touch", "warning")


def test_the_sandbox_whose_reads_wait_in_the_client_has_no_pause() -> None:
    common = ABLE | LEVELS | {"fleet": {"name": "x"}}
    inventory = rest(1, READERS, common, distribution="sandbox", version="1.0.0")
    assert planned(inventory, PROTOCOL) == "consumer"
    assert planned(inventory, PAUSE) == ""


def test_the_session_moves_to_brokers_that_the_kit_runs() -> None:
    def value(key: str, inventory: Any = None) -> str:
        return planned(inventory or ours(), f"group.consumer.{key}", "leaf1", "kafka_broker")

    assert [value(key) for key in ("session.timeout.ms", "min.session.timeout.ms")] == ["10000", "10000"]
    assert value("heartbeat.interval.ms") == value("min.heartbeat.interval.ms") == "1000"
    own = ours({"group.consumer.session.timeout.ms": 12_000})
    assert value("min.session.timeout.ms", own) == "12000"
    assert value("session.timeout.ms", ours(brokers="3.9.2")) == ""


@pytest.mark.parametrize(
    ("inventory", "why", "fix"),
    [
        (ours(brokers="3.9.2"), "from 4.0 on", "upgrade the brokers to 4.0 or newer"),
        (ours(brokers="4.1.1"), "KAFKA-19862", "upgrade the brokers to 4.1.2 or newer"),
        (ours(brokers="4.0.1"), "4.0.2 does not", "upgrade the brokers to 4.0.2 or newer"),
        (
            ours({"group.coordinator.rebalance.protocols": "classic"}),
            "turn it off",
            "add consumer to group.coordinator.rebalance.protocols in kafka_broker_settings",
        ),
        (
            ours({"group.consumer.session.timeout.ms": 45_000}),
            "allows 15 s",
            "take group.consumer.session.timeout.ms out of kafka_broker_settings",
        ),
        (proxies(), "group_session_ms", "set kafka_clusters.leaf.group_session_ms"),
        (proxies({"group_session_ms": 45_000}), "allows 15 s", "set group.consumer.session.timeout.ms"),
        (
            ours(settings={"consumer.partition.assignment.strategy": "range"}),
            "does not start",
            "take consumer.partition.assignment.strategy out of kafka_rest_settings",
        ),
        (
            ours(settings={"client.heartbeat.interval.ms": 1000}),
            "does not start",
            "take client.heartbeat.interval.ms out of kafka_rest_settings",
        ),
    ],
)
def test_a_note_says_what_keeps_a_group_classic_and_what_to_do(inventory: Any, why: str, fix: str) -> None:
    assert planned(inventory, PROTOCOL) == ""
    (note,) = of_rule(make_plan(inventory), RULE, "note")
    assert why in note.message
    assert fix in note.fix
    assert planned(inventory, SESSION) == "10000"


def test_each_refused_key_is_one_that_the_note_names() -> None:
    refused = ("client.heartbeat.interval.ms", "consumer.partition.assignment.strategy")
    (note,) = of_rule(make_plan(ours(settings=dict.fromkeys(refused, "1000"))), RULE, "note")
    assert note.subject is not None
    assert set(note.subject.named) == set(refused)


def test_somebody_elses_brokers_are_believed_when_their_session_is_declared() -> None:
    inventory = proxies({"group_session_ms": 10_000})
    assert planned(inventory, PROTOCOL) == "consumer"
    assert planned(inventory, SESSION) == ""


@pytest.mark.parametrize(
    ("inventory", "severity", "why", "fix"),
    [
        (
            ours(brokers="3.9.2", settings={PROTOCOL: "consumer"}),
            "error",
            "from 4.0 on",
            f"take {PROTOCOL} out of kafka_rest_settings, or upgrade the brokers to 4.0 or newer",
        ),
        (
            ours(brokers="4.1.1", settings={PROTOCOL: "consumer"}),
            "warning",
            "KAFKA-19862",
            "upgrade the brokers to 4.1.2",
        ),
        (
            ours(settings={PROTOCOL: "CONSUMER", SESSION: 6000}),
            "error",
            f"have {SESSION}",
            f"take {SESSION} out of kafka_rest_settings",
        ),
        (
            ours(settings={PROTOCOL: "consumer"}, version="7.9.1"),
            "error",
            "no consumer",
            "upgrade kafka-rest to 8 or newer",
        ),
        (
            proxies({"group_session_ms": 45_000}, settings={PROTOCOL: "consumer"}),
            "warning",
            "allows 15 s",
            "set group.consumer.session.timeout.ms",
        ),
    ],
)
def test_a_person_who_asks_for_what_cannot_be_is_told_what_to_do(
    inventory: Any, severity: str, why: str, fix: str
) -> None:
    (found,) = of_rule(make_plan(inventory), RULE, severity)
    assert why in found.message
    assert fix in found.fix


def test_a_persons_own_classic_protocol_stays() -> None:
    inventory = ours(settings={PROTOCOL: "classic"})
    assert planned(inventory, PROTOCOL) == "classic"
    assert planned(inventory, SESSION) == "10000"


def client(common: dict[str, Any] | None = None, **changed: Any) -> Any:
    declared = {
        "name": "app",
        "cluster": "leaf",
        "library": "java",
        "version": "4.3.1",
        "profile": "balanced",
        "topics": ["t0"],
    } | changed
    shared = common or {}
    clusters = shared.get("kafka_clusters")
    return make_plan(of_topics({"partitions": 12}, clusters=clusters, kafka_clients=[declared]))


@pytest.mark.parametrize(
    ("library", "version", "key", "value"),
    [
        ("java", "4.3.1", "group.protocol", "consumer"),
        ("librdkafka", "2.16.1", "group.protocol", "consumer"),
        ("librdkafka", "2.12.0", "group.protocol", ""),
        ("java", "3.9.2", "partition.assignment.strategy", "CooperativeStickyAssignor"),
        ("java", "3.9.2", "group.protocol", ""),
        ("java", "2.8.0", "partition.assignment.strategy", ""),
        ("spark", "4.0.0", "kafka.group.protocol", ""),
    ],
)
def test_clients_speak_the_newest_protocol_that_they_have(
    library: str, version: str, key: str, value: str
) -> None:
    found = {s.key: s.value for s in client(ABLE, library=library, version=version).clients["app"]}
    assert found.get(key, "").endswith(value)
    assert bool(found.get(key)) == bool(value)


@pytest.mark.parametrize(
    ("own", "version", "why", "fix"),
    [
        (
            {"group.protocol": "consumer", "session.timeout.ms": 6000},
            "4.3.1",
            "does not start",
            "take session.timeout.ms out of consumer_settings",
        ),
        (
            {"group.protocol": "consumer"},
            "3.9.2",
            "from 4.0 on",
            "take group.protocol out of consumer_settings, or upgrade java to 4.0 or newer",
        ),
    ],
)
def test_a_client_that_would_not_start_is_found_with_what_to_do(
    own: dict[str, Any], version: str, why: str, fix: str
) -> None:
    plan = client(ABLE, consumer_settings=own, version=version)
    errors = of_rule(plan, "clients.group_protocol", "error")
    assert any(why in f.message and fix in f.fix for f in errors)


def test_a_clients_own_session_keeps_it_classic() -> None:
    plan = client(ABLE, consumer_settings={"session.timeout.ms": 6000})
    assert "group.protocol" not in {s.key for s in plan.clients["app"]}
    assert not of_rule(plan, "clients.group_protocol", "error")


@pytest.mark.parametrize(
    ("brokers", "own", "severity", "why"),
    [
        ("4.2.0", {}, "warning", "KAFKA-20254"),
        ("4.3.1", {"main.consumer.group.instance.id": "a"}, "error", "refuses static members"),
        ("4.3.1", {"num.standby.replicas": 1}, "warning", "num.standby.replicas"),
        ("4.3.1", {"consumer.session.timeout.ms": 6000}, "warning", "consumer.session.timeout.ms"),
    ],
)
def test_what_the_streams_protocol_has_not_is_found(
    brokers: str, own: dict[str, Any], severity: str, why: str
) -> None:
    clusters = {"kafka_clusters": CLUSTERS | {"leaf": CLUSTERS["leaf"] | {"version": brokers}}}
    inventory = streams(1, common=clusters, group_protocol="streams", settings=own)
    found = findings(inventory, "streams.protocol", severity)
    assert [why in f.message for f in found] == [True]
