"""Values with which a component refuses to start are refused before it is deployed, wherever they stand."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from kedge.keys.accepted_values import check_values
from kedge.keys.catalogue import Component, takes
from kedge.plan.hosts import Inventory
from kedge.plan.version_numbers import numbers
from kedge.services.planning import make_plan
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.keys import rest_takes
from tests.planned import mirrors, of_topics, streams
from tests.rest_inventories import rest


def topic(**settings: Any) -> Inventory:
    return of_topics({"partitions": 1, "settings": {k.replace("_", "."): v for k, v in settings.items()}})


def client(library: str, version: str, **settings: Any) -> Inventory:
    whole = {"name": "a", "cluster": "leaf", "library": library, "version": version, "profile": "balanced"}
    return of_topics({"partitions": 1}, kafka_clients=[whole | settings])


def broker(**settings: Any) -> Inventory:
    clusters = {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}}
    own = {k.replace("_", "."): v for k, v in settings.items()}
    common = {"kafka_clusters": clusters, "kafka_broker_settings": own}
    return rest(["b1"], common=common, groups={"kafka_leaf": ("b1",), "kafka_broker": ("b1",)})


@pytest.mark.parametrize(
    ("inventory", "said", "fix"),
    [
        (topic(compression_type="lz5"), "kafka_topics: t0.settings.compression.type is 'lz5', and compression.type takes one of uncompressed, zstd, lz4, snappy, gzip, producer", "did you mean lz4?"),
        (topic(compression_type="none"), "compression.type is 'none'", "write one of uncompressed, zstd"),
        (topic(cleanup_policy="delte"), "cleanup.policy takes some of compact, delete", "did you mean delete?"),
        (topic(cleanup_policy="compact,delet"), "cleanup.policy is 'compact,delet'", "did you mean delete?"),
        (topic(message_timestamp_type="createtime"), "message.timestamp.type is 'createtime'", "did you mean CreateTime?"),
        (topic(min_insync_replicas=0), "min.insync.replicas is 0, and min.insync.replicas takes 1 or more", "write 1 or more"),
        (topic(min_cleanable_dirty_ratio=50), "takes 1 or less", "write 1 or less"),
        (topic(preallocate="yes"), "preallocate is 'yes', and preallocate takes one of true, false", "write one of true, false"),
        (topic(segment_bytes=2**31), "segment.bytes takes 2147483647 or less", "write 2147483647 or less"),
        (broker(log_cleanup_policy="trim"), "kafka_broker_settings.log.cleanup.policy is 'trim'", "write one of compact, delete"),
        (broker(num_partitions="three"), "num.partitions takes a whole number", "write a whole number"),
        (rest(1, settings={"producer.acks": "7"}), "kafka_rest_settings.producer.acks is '7', and producer.acks takes one of all, -1, 0, 1", "write one of all, -1, 0, 1"),
        (rest(1, settings={"consumer.isolation.level": "READ_COMMITTED"}), "is 'READ_COMMITTED'", "did you mean read_committed?"),
        (rest(1, settings={"client.security.protocol": "TLS"}), "client.security.protocol is 'TLS'", "PLAINTEXT"),
        (rest(1, distribution="strimzi", version="1.1.0", settings={"kafka.producer.acks": "none"}), "kafka.producer.acks is 'none'", "-1"),
        (rest(1, distribution="strimzi", version="1.1.0", settings={"kafka.security.protocol": "TLS"}), "kafka.security.protocol is 'TLS'", "PLAINTEXT"),
        (mirrors(1, flow={"producer_settings": {"compression.type": "lz5"}}), "mirror_maker_flows.metrics.producer_settings.compression.type is 'lz5'", "did you mean lz4?"),
        (mirrors(1, flow={"consumer_settings": {"auto.offset.reset": "earliest "}}), "", ""),
        (mirrors(1, flow={"consumer_settings": {"auto.offset.reset": "begin"}}), "auto.offset.reset is 'begin'", "write one of latest, earliest, none"),
        (mirrors(1, kind="mirror_maker_2", version="4.3.1", flow={"settings": {"leaf->agg.tasks.max": 0}}), "settings.leaf->agg.tasks.max is 0", "write 1 or more"),
        (mirrors(1, kind="mirror_maker_2", version="4.3.1", flow={"settings": {"leaf.consumer.isolation.level": "committed"}}), "isolation.level is 'committed'", "did you mean read_committed?"),
        (mirrors(1, kind="mirror_maker_2", version="4.3.1", flow={"settings": {"leaf.consumer.client.dns.lookup": "default"}}), "client.dns.lookup is 'default'", "write one of use_all_dns_ips"),
        (mirrors(1, version="4.3.1", flow={"consumer_settings": {"auto.offset.reset": "by_durations:PT1H"}}), "takes one of latest, earliest, none, by_duration:PT1H", "none, by_duration:PT1H"),
        (mirrors(1, flow={"producer_settings": {"acks": "${PROTO}"}}), "acks is '${PROTO}'", "write one of all"),
        (streams(1, settings={"processing.guarantee": "exactly_once"}), "processing.guarantee is 'exactly_once'", "did you mean exactly_once_v2?"),
        (streams(1, settings={"main.consumer.auto.offset.reset": "smallest"}), "main.consumer.auto.offset.reset is 'smallest'", "did you mean earliest?"),
        (streams(1, settings={"isolation.level": "dirty"}), "streams_app_settings.isolation.level is 'dirty'", "read_committed"),
        (streams(1, settings={"topic.cleanup.policy": "compakt"}), "topic.cleanup.policy is 'compakt'", "did you mean compact?"),
        (client("java", "4.1.0", producer_settings={"acks": "7"}), "kafka_clients: a.producer_settings.acks is '7'", "write one of all, -1, 0, 1"),
        (client("java", "4.1.0", producer_settings={"enable.idempotence": "on"}), "enable.idempotence is 'on'", "write one of true, false"),
        (client("spark", "4.0.0", consumer_settings={"kafka.isolation.level": "commited"}), "kafka.isolation.level is 'commited'", "did you mean read_committed?"),
        (client("librdkafka", "2.6.0", producer_settings={"compression.codec": "lz5"}), "compression.codec is 'lz5'", "did you mean lz4?"),
        (client("librdkafka", "2.6.0", producer_settings={"linger.ms": "5 ms"}), "linger.ms takes a number", "write a number"),
        (client("librdkafka", "2.6.0", consumer_settings={"auto.offset.reset": "first"}), "auto.offset.reset is 'first'", "write one of"),
    ],
)  # fmt: skip
def test_a_value_that_a_component_refuses_is_one_error(inventory: Inventory, said: str, fix: str) -> None:
    refused = (f for f in make_plan(inventory).findings if f.rule == "inventory.variable")
    found = [f for f in refused if ", and " in f.message and " takes " in f.message]
    if not said:
        assert found == []
        return
    (finding,) = found
    assert finding.severity == "error"
    assert said in finding.message
    assert fix in finding.fix


@pytest.mark.parametrize(
    ("component", "version", "settings"),
    [
        ("producer", "4.3.1", {"acks": -1, "enable.idempotence": "TRUE", "compression.type": " zstd", "retries": "+5"}),
        ("consumer", "4.3.1", {"auto.offset.reset": "by_duration:PT1H", "security.protocol": "sasl_ssl"}),
        ("consumer", "4.3.1", {"auto.offset.reset": "by_duration:pt1h"}),
        ("producer", "4.3.1", {"security.protocol": "${env:PROTO}", "acks": "${file:/etc/own:acks}", "linger.ms": "${strimzienv:MS}"}),
        ("topic", "4.3.1", {"cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "5e-1", "retention.ms": 2**62}),
        ("streams", "4.3.1", {"upgrade.from": 4.0, "topology.optimization": "all"}),
        ("streams", "3.9.2", {"processing.guarantee": "exactly_once"}),
        ("producer", "4.9.0", {"acks": "quorum"}),
        ("librdkafka-producer", "2.16.0", {"compression.codec": "LZ4"}),
        ("librdkafka-producer", "1.9.2", {"linger.ms": 0.5, "queue.buffering.max.ms": "0.5"}),
    ],
)  # fmt: skip
def test_what_a_component_takes_is_left_alone(
    component: Component, version: str, settings: dict[str, Any]
) -> None:
    assert check_values("own", "here", settings, takes(component, version)) == []


def test_a_value_of_another_version_is_refused() -> None:
    settings = {"auto.offset.reset": "by_duration:PT1H"}
    assert check_values("own", "here", settings, takes("consumer", "3.9.2")) != []


def test_of_mapr_only_what_its_own_keys_are_called_is_known() -> None:
    assert rest_takes(DISTRIBUTIONS["mapr"], "5.1.2") == {}
    assert "producer.acks" in rest_takes(DISTRIBUTIONS["sandbox"], "1.0.0")


def test_the_running_librdkafka_takes_what_the_catalogue_says_and_nothing_like_it() -> None:
    version = confluent_kafka.libversion()[0]
    assert numbers(version) >= (2, 16)
    for kind in ("producer", "consumer"):
        base = {"log_level": 0} | ({"group.id": "g"} if kind == "consumer" else {})
        for key, form in takes(f"librdkafka-{kind}", version).items():  # type: ignore[arg-type] # one of two
            if not form or key.startswith("sasl.oauthbearer."):  # which ask for each other
                continue
            for value in [*form.split()[1:], "qqqq"]:
                refused = _refused(kind, base | {key: value})
                assert refused == (value == "qqqq"), (key, value)


def _refused(kind: str, settings: dict[str, Any]) -> bool:
    make = confluent_kafka.Producer if kind == "producer" else confluent_kafka.Consumer
    try:
        make(settings)
    except confluent_kafka.KafkaException as error:
        return "Invalid value" in str(error)
    return False
