"""What somebody does wrong with a first inventory of their own is said before a host is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sizing.model import Finding, Inventory
from sizing.plan import make_plan
from tests.rest_inventories import rest


def errors(inventory: Inventory, rule: str = "") -> list[Finding]:
    return [f for f in make_plan(inventory).findings if f.severity == "error" and f.rule.startswith(rule)]


def regrouped(groups: Mapping[str, tuple[str, ...]], **common: Any) -> Inventory:
    return Inventory(rest(2, common=common).hosts, groups)


def test_an_inventory_without_hosts_is_an_error() -> None:
    (error,) = errors(Inventory({}, {}))
    assert "has no host in any group that Kedge deploys: kafka_rest, kafka_broker" in error.message


def test_an_inventory_without_a_group_of_a_service_is_an_error() -> None:
    (error,) = errors(regrouped({"proxies": ("rest1", "rest2")}), "inventory.group")
    assert "has no host in any group" in error.message


def test_a_misspelt_group_of_a_service_is_an_error() -> None:
    for name in ("kafka_rests", "kafka-rest", "kafka_rset", "Kafka_Rest"):
        (error,) = errors(regrouped({name: ("rest1",), "load_generator": ("rest2",)}), "inventory.group")
        assert name in error.message
        assert error.fix == "did you mean kafka_rest?"


def test_a_group_within_a_service_or_of_brokers_may_have_a_name_like_it() -> None:
    assert not errors(regrouped({"kafka_rest1": ("rest1",), "kafka_rest": ("rest1", "rest2")}))
    clusters = {"leaf": {"version": "4.3.1", "brokers": "kafka_test"}}
    inventory = regrouped({"kafka_test": ("rest1",), "kafka_broker": ("rest1",)}, kafka_clusters=clusters)
    assert not errors(inventory, "inventory.group")


def test_a_host_to_which_nothing_is_deployed_is_a_note() -> None:
    findings = make_plan(regrouped({"kafka_rest": ("rest1",)})).findings
    (note,) = [f for f in findings if f.rule == "inventory.host"]
    assert (note.severity, note.where) == ("note", "rest2")
