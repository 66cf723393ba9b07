"""MapR's build: its keys by version, its paths, its streams."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan
from kedge.services.rest.distributions.mapr import topic_in_url
from tests.rest_inventories import of_rule, planned, rest


def mapr(**role: Any) -> Inventory:
    return rest(2, **({"distribution": "mapr", "version": "5.1.2", "default_stream": "/streams/test"} | role))


@pytest.mark.parametrize(
    ("advice", "version", "key", "other"),
    [
        ("measured", "5.1.2", "producer.streams.buffer.max.time.ms", "streams.buffer.max.time.ms"),
        ("documented", "5.1.2", "streams.buffer.max.time.ms", "producer.streams.buffer.max.time.ms"),
        ("measured", "2.0.0", "streams.buffer.max.time.ms", "producer.streams.buffer.max.time.ms"),
    ],
)
def test_the_buffer_time_is_125_ms_under_the_key_that_the_version_reads(
    advice: str, version: str, key: str, other: str
) -> None:
    inventory = mapr(common={"advice": advice}, version=version)
    assert planned(inventory, key) == "125"
    assert planned(inventory, other) == ""
    assert planned(inventory, "consumer.request.timeout.ms") == "125"


def test_a_buffer_time_below_125_ms_warns_of_the_processor() -> None:
    inventory = mapr(settings={"producer.streams.buffer.max.time.ms": 0})
    assert "one or two cores" in of_rule(make_plan(inventory), "rest.mapr.buffer", "warning")[0].message


def test_the_default_stream_stands_under_the_key_that_the_build_reads() -> None:
    assert planned(mapr(), "streams.default.stream") == "/streams/test"
    assert planned(mapr(), "streams.default.streams") == ""
    (note,) = of_rule(make_plan(mapr()), "rest.mapr.default_stream")
    assert note.severity == "note"
    letter = mapr(common={"advice": "documented"})
    assert planned(letter, "streams.default.streams") == "/streams/test"
    assert of_rule(make_plan(letter), "rest.mapr.default_stream", "warning")


def test_the_stream_is_created_with_ten_partitions_a_node() -> None:
    plan = make_plan(mapr(stream_nodes=5))
    (commands,) = plan.services["rest1"]["mapr_streams"]
    assert commands.value("maprcli") == (
        "maprcli stream create -path /streams/test -ttl 604800 -autocreate true -defaultpartitions 50"
    )
    assert "/topics/%2Fstreams%2Ftest%3ATOPIC" in commands.value("produce")
    assert "mapr_streams" not in plan.services["rest2"]


def test_a_topic_in_a_url_is_encoded() -> None:
    assert topic_in_url("/streams/test", "topic1") == "%2Fstreams%2Ftest%3Atopic1"


def test_the_first_instance_has_the_packages_own_file() -> None:
    instances = make_plan(mapr(instances_per_host=2)).services["rest1"]["kafka_rest"]
    files = [next(s.file for s in i.settings if s.key == "id") for i in instances]
    assert files == [
        "/opt/mapr/kafka-rest/kafka-rest-5.1.2/config/kafka-rest.properties",
        "/etc/kafka-rest/8083/kafka-rest.properties",
    ]


def test_keys_of_rest_utils_that_the_build_does_not_carry_are_not_planned() -> None:
    assert planned(mapr(), "thread.pool.max") == ""
    found = of_rule(make_plan(mapr(settings={"thread.pool.max": 100})), "rest.keys", "warning")
    assert "thread.pool.max" in found[0].message
