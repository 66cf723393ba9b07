"""Brokers that the kit runs, and the balancer: identities that stay, findings."""

from __future__ import annotations

from typing import Any

from sizing.core.inventory import Inventory
from sizing.plan import make_plan
from tests.rest_inventories import of_rule, rest

OURS = {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}}


def brokers(names: list[str], **variables: Any) -> Inventory:
    every = {"kafka_clusters": OURS, "host_cores": 4, "host_memory_mib": 8192} | variables
    topic = {"kafka_topics": [{"name": "t", "cluster": "leaf", "partitions": 1}]}
    return Inventory(
        dict.fromkeys(names, every | topic), {"kafka_leaf": tuple(names), "kafka_broker": tuple(names)}
    )


def ids(inventory: Inventory) -> dict[str, str]:
    plan = make_plan(inventory)
    return {h: s["kafka_broker"][0].value("node.id") for h, s in plan.services.items()}


def test_a_broker_keeps_its_id_when_others_come_and_go() -> None:
    assert ids(brokers(["leaf1", "leaf2", "leaf3"])) == {"leaf1": "1", "leaf2": "2", "leaf3": "3"}
    assert ids(brokers(["leaf2", "leaf3"])) == {"leaf2": "2", "leaf3": "3"}
    named = ids(brokers(["alpha", "beta"]))
    assert len(set(named.values())) == 2
    assert ids(brokers(["beta"])) == {"beta": named["beta"]}


def test_brokers_with_the_same_id_are_an_error() -> None:
    (error,) = of_rule(make_plan(brokers(["a1", "b1"])), "broker.identity", "error")
    assert "kafka_broker_id 1" in error.message
    assert not make_plan(brokers(["a1", "b2"])).has_errors


def test_keys_of_another_version_are_found_in_own_broker_settings() -> None:
    plan = make_plan(brokers(["leaf1"], kafka_broker_settings={"zookeeper.connect": "z:2181"}))
    assert "does not read zookeeper.connect" in of_rule(plan, "broker.keys", "warning")[0].message


def test_brokers_that_ask_clients_for_certificates_are_refused_as_no_client_has_one() -> None:
    secured = {"leaf": OURS["leaf"] | {"security": {"protocol": "SSL", "ca": "ca.pem"}}}
    pair = {"certificate": "broker.pem", "key": "broker.key"}
    variables: dict[str, Any] = {"kafka_clusters": secured, "kafka_broker_tls": pair}
    (error,) = of_rule(make_plan(brokers(["leaf1"], **variables)), "broker.tls", "error")
    assert "no client of the plan has one" in error.message
    assert "SASL_SSL" in error.fix
    own = {"kafka_broker_settings": {"ssl.client.auth": "none"}}
    assert not of_rule(make_plan(brokers(["leaf1"], **variables, **own)), "broker.tls", "error")


def test_memory_is_kept_for_a_broker_and_its_page_cache_left_free() -> None:
    (broker,) = make_plan(brokers(["leaf1"])).services["leaf1"]["kafka_broker"]
    assert broker.value("MemoryLow") == "1408M"
    assert broker.value("MemoryMax") == ""


def test_the_balancer_serves_every_instance_and_outlasts_a_slow_request() -> None:
    plan = make_plan(rest(2, groups={"rest_balancer": ("lb1",)}, instances_per_host=2))
    (balancer,) = plan.services["lb1"]["rest_balancer"]
    servers = [s.value for s in balancer.settings if s.key.startswith("server ")]
    assert servers == ["rest1:8082", "rest1:8083", "rest2:8082", "rest2:8083"]
    assert balancer.value("timeout server") == "60s"
    # Ten failed connections put an instance out: for both of a host, twenty tries reach one that is left.
    assert "error-limit 10 on-error mark-down" in balancer.value("default-server observe")
    assert balancer.value("retries") == "20"
    assert not of_rule(plan, "rest.balancing")


def test_an_address_that_moves_is_what_clients_are_told_and_is_listened_for() -> None:
    common = {"rest_balancer_address": "192.0.2.10"}
    plan = make_plan(
        rest(1, groups={"rest_balancer": ("lb1", "lb2")}, common=common, consumers_via="balancer")
    )
    for host in ("lb1", "lb2"):
        (balancer,) = plan.services[host]["rest_balancer"]
        assert (balancer.value("bind"), balancer.value("address")) == ("0.0.0.0:8080", "192.0.2.10:8080")
    (proxy, *_) = plan.services["rest1"]["kafka_rest"]
    assert "192.0.2.10:8080" in proxy.value("advertised.listeners")


def test_a_home_that_is_forgotten_before_its_consumer_is_gone_is_a_warning() -> None:
    inventory = rest(
        1,
        groups={"rest_balancer": ("lb1",)},
        settings={"consumer.instance.timeout.ms": 900_000},
        common={"rest_balancer_consumer_minutes": 10},
    )
    (warning,) = of_rule(make_plan(inventory), "balancer.stickiness", "warning")
    assert "rest_balancer_consumer_minutes is 10" in warning.message


def test_a_balancer_without_instances_is_an_error() -> None:
    plan = make_plan(rest([], groups={"rest_balancer": ("lb1",)}))
    assert of_rule(plan, "balancer.servers", "error")
