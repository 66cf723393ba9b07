"""The catalogue of keys, and the folding of places."""

from __future__ import annotations

import confluent_kafka
import pytest

from kedge.keys.catalogue import Component, known_keys
from kedge.keys.unread import check_keys
from kedge.plan.compact_names import compact
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.keys import check_rest_keys


@pytest.mark.parametrize(
    ("component", "version", "there", "gone"),
    [
        ("kafka-rest", "7.9.9", "zookeeper.connect", "null.request.body.always.publishes.empty.record"),
        ("kafka-rest", "8.3.1", "consumer.threads", "zookeeper.connect"),
        ("rest-utils", "8.0.7", "thread.pool.max", "dos.filter.tenant.enabled"),
        ("rest-utils", "8.4.0", "dos.filter.tenant.enabled", "request.timeout.ms"),
        ("producer", "3.9.2", "auto.include.jmx.reporter", "nothing"),
        ("producer", "4.0.0", "linger.ms", "auto.include.jmx.reporter"),
        ("consumer", "4.3.1", "group.protocol", "linger.ms"),
        ("topic", "4.3.1", "max.message.bytes", "message.format.version"),
        ("broker", "4.3.1", "node.id", "zookeeper.connect"),
        ("strimzi", "0.33.1", "http.port", "http.management.port"),
        ("librdkafka-producer", "2.16.0", "linger.ms", "fetch.min.bytes"),
        ("librdkafka-consumer", "1.9.2", "fetch.wait.max.ms", "group.protocol"),
        ("mapr", "5.1.2", "streams.default.stream", "streams.default.streams"),
    ],
)
def test_the_catalogue_knows_keys_by_version(
    component: Component, version: str, there: str, gone: str
) -> None:
    assert there in known_keys(component, version)
    assert gone not in known_keys(component, version)


def test_the_catalogue_of_librdkafka_is_what_the_running_one_refuses() -> None:
    version = confluent_kafka.libversion()[0]
    unknown = set()
    for key in known_keys("librdkafka-producer", version) | {"linger.msec"}:
        try:
            confluent_kafka.Producer({key: "~"})
        except confluent_kafka.KafkaException as error:
            if "No such configuration property" in str(error):
                unknown.add(key)
        except (TypeError, ValueError):  # a key that the binding itself reads, and wants a function for
            pass
    assert unknown == {"linger.msec"}


def test_an_unknown_key_brings_the_nearest_known_one() -> None:
    (finding,) = check_keys("producer", "4.3.1", ["linger.m"], "here")
    assert finding.fix == "did you mean linger.ms?"
    (finding,) = check_keys("producer", "4.3.1", ["qqqqqqqqqq"], "here")
    assert "take qqqqqqqqqq out" in finding.fix


def test_an_unknown_key_is_an_error_where_it_is_refused_and_where_a_proxy_passes_over_it() -> None:
    (finding,) = check_keys(
        "topic", "4.3.1", ["qqqqqqqqqq"], "here", severity="error", consequence=": brokers refuse it"
    )
    assert (finding.severity, finding.message) == (
        "error",
        "topic 4.3.1 does not know qqqqqqqqqq: brokers refuse it",
    )
    (finding,) = check_keys("topic", "4.3.1", ["message.format.version"], "here", severity="error")
    assert finding.severity == "warning"
    severities = [
        finding.severity
        for distribution, version in (("confluent", "8.3.1"), ("strimzi", "1.1.0"), ("mapr", "5.1.2"))
        for finding in check_rest_keys(DISTRIBUTIONS[distribution], version, ["qqqqqqqqqq"], "here")
    ]
    assert severities == ["error", "error", "warning"]


def test_a_key_of_another_version_says_so() -> None:
    (finding,) = check_keys("producer", "4.3.1", ["auto.include.jmx.reporter"], "here")
    assert (
        finding.message == "producer 4.3.1 does not read auto.include.jmx.reporter, which other versions do"
    )


def test_nothing_is_said_of_a_version_that_the_catalogue_does_not_have() -> None:
    assert check_keys("producer", "12.0.0", ["linger.m"], "here") == []


def test_keys_of_the_clients_inside_a_proxy_are_checked_under_their_prefixes() -> None:
    good = [
        "producer.linger.ms",
        "consumer.max.poll.records",
        "admin.retries",
        "client.ssl.truststore.location",
    ]
    assert check_rest_keys(DISTRIBUTIONS["confluent"], "8.3.1", good, "here") == []
    assert (
        len(check_rest_keys(DISTRIBUTIONS["confluent"], "8.3.1", ["producer.max.poll.records"], "here")) == 1
    )
    assert (
        check_rest_keys(
            DISTRIBUTIONS["strimzi"], "1.1.0", ["kafka.producer.acks", "kafka.ssl.protocol"], "here"
        )
        == []
    )
    assert len(check_rest_keys(DISTRIBUTIONS["strimzi"], "1.1.0", ["producer.acks"], "here")) == 1


@pytest.mark.parametrize(
    ("places", "short"),
    [
        (["a"], "a"),
        (["h1 s@1", "h1 s@2", "h2 s@1", "h2 s@2"], "h[1-2] s@[1-2]"),
        (["h1 s@1", "h3 s@1"], "h1, h3 s@1"),
        (["h9 x", "h10 x", "h11 x"], "h[9-11] x"),
        (["h1: v", "h2: v"], "h[1-2]: v"),
        (["a x", "b y"], "a x, b y"),
        (
            ["h-09.example.net", "h-10.example.net", "h-11.example.org"],
            "h-[09-10].example.net, h-11.example.org",
        ),
        (["10.0.0.1 x", "10.0.0.2 x"], "10.0.0.[1-2] x"),
    ],
)
def test_many_places_are_named_in_few_words(places: list[str], short: str) -> None:
    assert compact(places) == short


@pytest.mark.parametrize(
    ("component", "key", "fix"),
    [
        ("producer", "key.deserializer", "take key.deserializer out: it is a key of consumers"),
        ("consumer", "key.serializer", "take key.serializer out: it is a key of producers"),
        ("mm2", "heartbeats.topic.retention.ms", "take heartbeats.topic.retention.ms out"),
        (
            "producer",
            "endpoint.identification.algorithm",
            "did you mean ssl.endpoint.identification.algorithm?",
        ),
        ("producer", "compression.codec", "did you mean compression.type?"),
        ("producer", "timeout.ms", "take timeout.ms out"),
    ],
)
def test_no_key_of_another_meaning_is_proposed(component: Component, key: str, fix: str) -> None:
    assert [f.fix for f in check_keys(component, "4.3.1", [key], "x")] == [fix]
