"""Profiles of the clients inside services: the REST proxy's and MirrorMaker's take the rows of kafka_clients."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.settings import Setting
from kedge.services.clients.profiles import PROFILES, Profile
from kedge.services.planning import make_plan
from tests.planned import findings, instances, mirrors
from tests.rest_inventories import of_rule, rest

NO_LOSS: dict[str, Any] = {"service_levels": {"delivery": {"lost": 0}}}
LOSS: dict[str, Any] = {"service_levels": {"delivery": {"lost": None}}}


def of_service(plan: Any, service: str) -> dict[str, Setting]:
    (instance, *_), *_ = instances(plan, service).values()
    return {s.key: s for s in instance.settings}


@pytest.mark.parametrize(
    ("variables", "prefix"),
    [
        ({"distribution": "confluent", "version": "8.3.0"}, ""),
        ({"distribution": "strimzi", "version": "0.32.0"}, "kafka."),
    ],
)
@pytest.mark.parametrize("profile", ["throughput", "durability", "balanced"])
def test_the_proxys_clients_have_the_rows_of_the_profile(
    variables: dict[str, str], prefix: str, profile: Profile
) -> None:
    plan = make_plan(rest(profile=profile, common=LOSS, **variables))
    settings = of_service(plan, "kafka_rest")
    for row in PROFILES[profile]["producer"]:
        key = f"{prefix}producer.{row.key}"
        if row.key == "enable.idempotence":
            assert key not in settings, "the proxy forces it off"
        else:
            assert settings[key].because.startswith((f"{row.because}; the price: {row.price}", "the default"))
            assert settings[key].rule == f"clients.{profile}.{row.key}"


def test_without_a_profile_the_proxys_clients_are_left_alone() -> None:
    assert "producer.acks" not in of_service(make_plan(rest()), "kafka_rest")


def test_an_own_value_wins_over_the_profile() -> None:
    plan = make_plan(rest(profile="balanced", settings={"producer.linger.ms": 3}))
    setting = of_service(plan, "kafka_rest")["producer.linger.ms"]
    assert (setting.value, setting.by) == ("3", "person")


@pytest.mark.parametrize(
    "variables", [{"profile": "throughput"}, {"settings": {"producer.acks": 1}}], ids=["profile", "own"]
)
def test_a_proxy_that_may_lose_records_is_an_error_where_none_may_be_lost(variables: dict[str, Any]) -> None:
    (found,) = of_rule(make_plan(rest(common=NO_LOSS, **variables)), "rest.clients.acks", "error")
    assert "acks=1, and service_levels.delivery.lost is 0" in found.message
    assert not of_rule(make_plan(rest(common=LOSS, **variables)), "rest.clients.acks")


def test_the_build_of_mapr_has_no_keys_for_a_profile() -> None:
    plan = make_plan(rest(distribution="mapr", version="5.1.2", profile="balanced", default_stream="/s"))
    (found,) = of_rule(plan, "rest.profile", "warning")
    assert "has no effect" in found.message


@pytest.mark.parametrize(
    ("kind", "version", "prefix"), [("classic", "3.9.2", ""), ("mirror_maker_2", "4.3.1", "leaf.consumer.")]
)
def test_a_mirrors_consumer_has_the_rows_of_the_profile(kind: str, version: str, prefix: str) -> None:
    plan = make_plan(mirrors(flow={"profile": "balanced"}, kind=kind, version=version))
    settings = of_service(plan, "mirror_maker")
    for row in PROFILES["balanced"]["consumer"]:
        assert settings[f"{prefix}{row.key}"].value == row.value
    # What mirrors have rules for stays theirs.
    linger = next(s for key, s in settings.items() if key.endswith("linger.ms"))
    assert linger.rule == "mirror.producer.linger"


def test_a_mirror_that_may_lose_records_is_an_error() -> None:
    (found,) = findings(mirrors(flow={"profile": "throughput"}), "mirror.producer.acks", "error")
    assert "acks of flow metrics is 1" in found.message
