"""Client profiles: values for library and version, their price, and contradictions with service levels."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.services.clients.profiles import PROFILES, default_value
from kedge.services.planning import make_plan
from tests.planned import findings, of_topics

TOPIC = {"partitions": 12, "replication": 3, "settings": {"min.insync.replicas": 2}}
LOSS_ALLOWED = {"delivery": {"lost": 10, "duplicated": 10, "reordered": 10}}


def inventory(
    levels: dict[str, Any] | None = None, topic: dict[str, Any] | None = None, **client: Any
) -> Any:
    declared = {
        "name": "app",
        "cluster": "leaf",
        "library": "java",
        "version": "4.3.1",
        "profile": "balanced",
        "topics": ["t0"],
    } | client
    return of_topics(topic or TOPIC, kafka_clients=[declared], service_levels=levels or {})


def planned(**client: Any) -> dict[str, str]:
    plan = make_plan(inventory(**client))
    return {s.key: s.value for s in plan.clients["app"]}


@pytest.mark.parametrize("library", ["java", "librdkafka", "spark"])
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_key_has_its_reason_and_its_price(library: str, profile: str) -> None:
    version = {"java": "4.3.1", "librdkafka": "2.6.0", "spark": "4.0.0"}[library]
    client = inventory(LOSS_ALLOWED, library=library, profile=profile, version=version)
    plan = make_plan(client)
    assert not plan.has_errors
    for s in plan.clients["app"]:
        assert "the price: " in s.because or "and stays" in s.because, s
        assert s.rule.startswith(f"clients.{profile}.")
        assert s.source
        assert s.key.startswith("kafka.") == (library == "spark")


def test_profiles_state_the_guides_trade_offs() -> None:
    throughput = planned(levels=LOSS_ALLOWED, profile="throughput")
    assert throughput["acks"] == "1"
    assert throughput["compression.type"] == "lz4"
    assert int(throughput["batch.size"]) > 16_384
    assert int(throughput["fetch.min.bytes"]) > 1
    latency = planned(profile="latency")
    assert (latency["linger.ms"], latency["fetch.min.bytes"], latency["compression.type"]) == (
        "0",
        "1",
        "none",
    )
    durable = planned(profile="durability")
    assert (durable["acks"], durable["enable.idempotence"]) == ("all", "true")
    assert int(durable["max.in.flight.requests.per.connection"]) <= 5
    assert durable["enable.auto.commit"] == "false"


@pytest.mark.parametrize(
    ("library", "version", "key", "default"),
    [
        ("java", "2.8.1", "acks", "1"),
        ("java", "3.0.0", "acks", "all"),
        ("java", "2.8.1", "enable.idempotence", "false"),
        ("java", "3.0.0", "enable.idempotence", "true"),
        ("java", "3.9.1", "linger.ms", "0"),
        ("java", "4.0.0", "linger.ms", "5"),
        ("spark", "4.0.0", "linger.ms", "0"),  # its client is 3.9
        ("librdkafka", "2.6.0", "linger.ms", "5"),
        ("librdkafka", "2.6.0", "enable.idempotence", "false"),
    ],
)
def test_defaults_follow_the_version(library: Any, version: str, key: str, default: str) -> None:
    assert default_value(library, version, key) == default


def test_the_reason_says_what_the_version_would_do_unasked() -> None:
    for version, unasked in (("3.9.1", "0"), ("4.3.1", "5")):
        plan = make_plan(inventory(version=version))
        linger = next(s for s in plan.clients["app"] if s.key == "linger.ms")
        assert linger.because.endswith(f"unset, java {version} has {unasked}")


def test_buffer_memory_holds_a_batch_for_each_partition() -> None:
    assert planned()["buffer.memory"] == str(32 * 2**20)
    many = TOPIC | {"partitions": 2000}
    assert planned(topic=many)["buffer.memory"] == str(2000 * 65_536)
    assert planned(topic=many, profile="latency")["buffer.memory"] == str(2000 * 32_768)


def test_librdkafka_keeps_the_room_that_it_has_by_default() -> None:
    values = planned(levels=LOSS_ALLOWED, library="librdkafka", version="2.6.0", profile="throughput")
    assert values["batch.size"] == "1000000"
    assert values["queue.buffering.max.kbytes"] == "1048576"
    assert values["fetch.wait.max.ms"] == "500"


def test_spark_polls_more_and_leaves_out_what_it_refuses() -> None:
    values = planned(levels=LOSS_ALLOWED, library="spark", version="4.0.0", profile="throughput")
    assert values["kafka.max.poll.records"] == "10000"
    assert "kafka.enable.auto.commit" not in planned(library="spark", version="4.0.0", profile="durability")


def test_acks_1_contradicts_no_loss() -> None:
    (error,) = findings(inventory(profile="throughput"), "clients.acks")
    assert error.severity == "error"
    assert "acks=1" in error.message
    assert findings(inventory(LOSS_ALLOWED, profile="throughput"), "clients.") == []
    own = {"acks": "all", "enable.idempotence": True}
    assert findings(inventory(profile="throughput", producer_settings=own), "clients.") == []


def test_no_idempotence_contradicts_no_duplicates() -> None:
    levels = {"delivery": {"lost": 0, "duplicated": 0, "reordered": 5}}
    own = {"enable.idempotence": False}
    (error,) = findings(inventory(levels, producer_settings=own), "clients.idempotence")
    assert "service_levels.delivery.duplicated is 0" in error.message


@pytest.mark.parametrize(
    ("profile", "levels", "key"),
    [
        ("throughput", {"ack_p99_ms": 20}, "linger.ms=50"),
        ("throughput", {"delivery_p99_ms": 400}, "fetch.max.wait.ms=500"),
        ("latency", {"ack_p99_ms": 20, "delivery_p99_ms": 20}, None),
        ("balanced", {"ack_p99_ms": 20, "delivery_p99_ms": 100}, None),
    ],
)
def test_waits_above_the_latency_levels_are_contradictions(
    profile: str, levels: dict[str, Any], key: str | None
) -> None:
    found = findings(
        inventory(LOSS_ALLOWED | {"latency": {"kafka": levels}}, profile=profile), "clients.latency"
    )
    assert [key in f.message for f in found if key] == ([True] if key else [])
    assert bool(found) == bool(key)


def test_durability_asks_for_two_copies_in_sync() -> None:
    weak = {"partitions": 12, "replication": 3}
    assert [f.rule for f in findings(inventory(topic=weak, profile="durability"), "clients.")] == [
        "clients.min_insync"
    ]
    assert findings(inventory(profile="durability"), "clients.") == []


def test_a_partitioner_of_the_past_is_a_warning() -> None:
    own = {"partitioner.class": "org.apache.kafka.clients.producer.internals.DefaultPartitioner"}
    assert [f.severity for f in findings(inventory(producer_settings=own), "clients.partitioner")] == [
        "warning"
    ]


def test_a_key_that_the_version_does_not_know_gets_the_nearest() -> None:
    (warning,) = findings(inventory(producer_settings={"linger.msec": 5}), "keys.")
    assert "linger.ms" in warning.fix


@pytest.mark.parametrize(
    ("role", "version", "key", "severity", "fix"),
    [
        ("producer", "2.6.0", "linger.msec", "error", "did you mean linger.ms?"),
        ("producer", "2.16.0", "qqqqqqqqqq", "error", "take it out"),
        ("producer", "2.6.0", "fetch.min.bytes", "warning", "consumer_settings"),
        ("consumer", "1.9.2", "group.protocol", "error", "group.protocol.type"),
        ("consumer", "2.8.0", "max.poll.records", None, ""),  # 2.16 has it: this version may
        ("consumer", "2.2.0", "max.poll.records", "error", "take it out"),
        ("producer", "2.99.0", "of.the.future", "warning", "take it out"),
        ("producer", "7.0.0", "of.the.future", None, ""),
        ("producer", "2.6.0", "go.delivery.reports", None, ""),
        ("producer", "2.6.0", "buffer.memory", None, ""),  # Java's name of a key that it has
    ],
)
def test_a_key_that_librdkafka_would_not_start_with_is_an_error(
    role: str, version: str, key: str, severity: str | None, fix: str
) -> None:
    found = findings(
        inventory(library="librdkafka", version=version, **{f"{role}_settings": {key: 1}}), "clients.refused"
    )
    assert [f.severity for f in found] == ([severity] if severity else [])
    assert all(fix in f.fix and key in f.message for f in found)


@pytest.mark.parametrize(
    ("library", "version", "refused"),
    [("java", "4.3.1", True), ("spark", "4.0.0", True), ("librdkafka", "2.15.0", False)],
)
def test_a_java_client_that_gives_up_before_one_request_is_over_is_an_error(
    library: str, version: str, refused: bool
) -> None:
    own = {"delivery.timeout.ms": 10_000} if library != "spark" else {"kafka.delivery.timeout.ms": 10_000}
    found = findings(inventory(library=library, version=version, producer_settings=own), "clients.delivery")
    assert bool(found) == refused


def test_another_profile_is_no_fix_of_an_own_wait() -> None:
    levels = {"latency": {"kafka": {"ack_p99_ms": 3}}}
    fixes = [
        f.fix
        for own in ({}, {"linger.ms": 5})
        for f in findings(inventory(levels, profile="balanced", producer_settings=own), "clients.latency")
    ]
    assert fixes == ["use profile latency, or set linger.ms below 3", "set linger.ms below 3"]
