"""The Java that a host gets is one on which each of its services starts."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan
from tests.planned import mirrors, streams
from tests.rest_inventories import of_rule, rest


@pytest.mark.parametrize(
    ("inventory", "needed"),
    [
        (rest(1), None),
        (rest(1, common={"java_version": 11}), "confluent 8.3.1 starts on Java 17"),
        (rest(1, version="7.9.1", common={"java_version": 11}), None),
        (rest(1, distribution="strimzi", version="0.33.1"), None),
        (rest(1, distribution="strimzi", version="1.1.0"), None),
        (
            rest(1, distribution="strimzi", version="1.1.0", common={"java_version": 17}),
            "its HTTP bridge, starts on Java 21",
        ),
        (rest(1, distribution="strimzi", version="1.1.0", common={"java_version": 21}), None),
        (mirrors(1, common={"java_version": 11}), None),
        (
            mirrors(1, kind="mirror_maker_2", version="4.3.1", common={"java_version": 11}),
            "4.3.1 starts on Java 17",
        ),
        (streams(1, common={"java_version": 8}), "streams_app 4.3.1 starts on Java 11"),
    ],
)
def test_a_release_that_a_service_does_not_start_on_is_an_error(
    inventory: Inventory, needed: str | None
) -> None:
    found = of_rule(make_plan(inventory), "host.java", "error")
    assert [needed in f.message for f in found if needed] == ([True] if needed else [])
    assert bool(found) is bool(needed)


@pytest.mark.parametrize(
    ("inventory", "release"),
    [
        (rest(1), "17"),
        (rest(1, version="7.9.1"), "17"),
        (rest(1, version="7.9.1", common={"java_version": 11}), "11"),
        (rest(1, distribution="strimzi", version="0.33.1"), "17"),
        (rest(1, distribution="strimzi", version="1.1.0"), "21"),
        (rest(1, distribution="mapr", version="5.1.2"), None),
    ],
)
def test_a_host_gets_the_release_that_its_services_need(inventory: Inventory, release: str | None) -> None:
    planned = make_plan(inventory).services["rest1"].get("java")
    assert (planned[0].value("release") if planned else None) == release


@pytest.mark.parametrize("release", ["17", 17.5, True])
def test_a_release_that_is_no_number_is_refused(release: Any) -> None:
    (error,) = of_rule(make_plan(rest(1, common={"java_version": release})), "inventory.variable", "error")
    assert error.message.startswith("java_version is ")


@pytest.mark.parametrize(("flag", "said"), [("-XX:+UseZGC", "42,100"), ("-XX:+UseParallelGC", "158 ms")])
def test_a_collector_that_was_measured_to_be_worse_is_a_warning(flag: str, said: str) -> None:
    inventory = rest(1, settings={"KAFKAREST_JVM_PERFORMANCE_OPTS": flag})
    (warning,) = of_rule(make_plan(inventory), "rest.gc", "warning")
    assert said in warning.message
