"""Brokers that the kit runs, and the balancer: identities that stay, findings."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.services.planning import make_plan
from kedge.services.rights import rights_of
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


def test_a_broker_that_is_added_to_a_running_cluster_changes_nothing_of_the_others() -> None:
    three, four = brokers(["leaf1", "leaf2", "leaf3"]), brokers(["leaf1", "leaf2", "leaf3", "leaf4"])
    hosts = four.hosts | {"leaf4": dict(four.hosts["leaf4"]) | {"kafka_broker_controller": False}}
    before, after = (make_plan(one).services for one in (three, Inventory(hosts, four.groups)))
    for host in ("leaf1", "leaf2", "leaf3"):
        old, new = (one[host]["kafka_broker"][0] for one in (before, after))
        assert [(s.key, s.value) for s in old.settings] == [(s.key, s.value) for s in new.settings]
    added = after["leaf4"]["kafka_broker"][0]
    assert added.value("process.roles") == "broker"
    assert "CONTROLLER://" not in added.value("listeners")
    assert "4@" not in added.value("controller.quorum.voters")


def test_a_cluster_without_a_controller_is_an_error() -> None:
    plan = make_plan(brokers(["leaf1", "leaf2"], kafka_broker_controller=False))
    (error,) = of_rule(plan, "broker.quorum", "error")
    assert "all 2 brokers of cluster leaf" in error.message


def test_brokers_that_nothing_uses_are_left_out_with_a_warning() -> None:
    both = OURS | {"spare": {"version": "4.3.1", "brokers": "kafka_spare"}}
    groups = {"kafka_leaf": ("leaf1",), "kafka_spare": ("spare1", "spare2")}
    every = brokers(["leaf1", "spare1", "spare2"], kafka_clusters=both)
    inventory = Inventory(every.hosts, {**every.groups, **groups})
    plan = make_plan(inventory)
    (warning,) = of_rule(plan, "broker.cluster", "warning")
    assert warning.where == "all: kafka_clusters.spare"
    assert warning.message.endswith("left out of the plan: spare[1-2]")
    assert not any("kafka_broker" in plan.services.get(host, {}) for host in groups["kafka_spare"])
    topics = [{"name": "t", "cluster": name, "partitions": 1} for name in both]
    used = Inventory({h: {**v, "kafka_topics": topics} for h, v in inventory.hosts.items()}, inventory.groups)
    plan = make_plan(used)
    assert of_rule(plan, "broker.cluster") == []
    assert "kafka_broker" in plan.services["spare2"]


def test_keys_of_another_version_are_found_in_own_broker_settings() -> None:
    plan = make_plan(brokers(["leaf1"], kafka_broker_settings={"zookeeper.connect": "z:2181"}))
    assert "does not read zookeeper.connect" in of_rule(plan, "broker.keys", "warning")[0].message


def test_brokers_that_ask_for_certificates_are_refused_unless_kedges_own_clients_have_one() -> None:
    security: dict[str, Any] = {"protocol": "SSL", "ca": "ca.pem"}
    secured = {"leaf": OURS["leaf"] | {"security": security}}
    pair = {"certificate": "broker.pem", "key": "broker.key"}
    variables: dict[str, Any] = {"kafka_clusters": secured, "kafka_broker_tls": pair}
    (error,) = of_rule(make_plan(brokers(["leaf1"], **variables)), "broker.tls", "error")
    assert "Kedge's own clients have none" in error.message
    assert "security.client_tls" in error.fix
    known = {"leaf": OURS["leaf"] | {"security": security | {"client_tls": pair}}}
    plan = make_plan(brokers(["leaf1"], **variables | {"kafka_clusters": known}))
    assert [f.line() for f in plan.findings if f.severity == "error"] == []
    (broker,) = plan.services["leaf1"]["kafka_broker"]
    assert broker.value("ssl.client.auth") == "required"
    own = {"kafka_broker_settings": {"ssl.client.auth": "none"}}
    assert not of_rule(make_plan(brokers(["leaf1"], **variables, **own)), "broker.tls", "error")


SECURED: dict[str, Any] = {
    "protocol": "SASL_SSL",
    "ca": "ca.pem",
    "user": "kedge",
    "password": "planted-kedge",
    "users": {name: f"planted-{name}" for name in ("broker", "kedge", "proxy", "verify", "app")},
}


def secured(names: list[str], security: dict[str, Any] | None = None, **variables: Any) -> Inventory:
    clusters = {"leaf": OURS["leaf"] | {"security": SECURED | (security or {})}}
    pair = {"certificate": "broker.pem", "key": "broker.key"}
    return brokers(names, kafka_clusters=clusters, kafka_broker_tls=pair, **variables)


def test_users_may_do_what_their_rights_say_and_brokers_are_known_by_their_certificates() -> None:
    inventory = secured(["leaf1", "leaf2"])
    inventory = Inventory(
        {
            **inventory.hosts,
            "leaf2": {**inventory.hosts["leaf2"], "kafka_broker_certificate_name": "l2.example"},
        },
        inventory.groups,
    )
    plan = make_plan(inventory)
    assert not plan.has_errors
    for host in ("leaf1", "leaf2"):
        (broker,) = plan.services[host]["kafka_broker"]
        assert broker.value("authorizer.class.name").endswith(".StandardAuthorizer")
        assert broker.value("super.users") == "User:broker;User:kedge;User:host:leaf1;User:host:l2.example"
        assert broker.value("allow.everyone.if.no.acl.found") == ""


@pytest.mark.parametrize(("authorization", "open_"), [("none", ""), ("prepared", "true")])
def test_authorization_is_turned_on_in_two_deploys(authorization: str, open_: str) -> None:
    (broker,) = make_plan(secured(["leaf1"], {"authorization": authorization})).services["leaf1"][
        "kafka_broker"
    ]
    assert broker.value("allow.everyone.if.no.acl.found") == open_
    assert bool(broker.value("authorizer.class.name")) is bool(open_)


def test_without_tls_whoever_reaches_the_controllers_is_a_broker_and_that_is_said() -> None:
    plan = make_plan(secured(["leaf1"], {"protocol": "SASL_PLAINTEXT"}))
    (warning,) = of_rule(plan, "broker.authorization", "warning")
    assert "whoever reaches the port of the controllers" in warning.message
    assert plan.services["leaf1"]["kafka_broker"][0].value("super.users").endswith(";User:ANONYMOUS")


def test_a_storage_is_formatted_with_the_brokers_own_user_and_no_readable_password() -> None:
    (broker,) = make_plan(secured(["leaf1"])).services["leaf1"]["kafka_broker"]
    (user,) = [s for s in broker.settings if s.key == "--add-scram"]
    assert user.value.startswith("SCRAM-SHA-512=[name=broker,iterations=4096,salt=")
    assert user.hidden
    assert "planted" not in "".join(s.value for s in broker.settings if s.file.endswith("format.args"))
    assert make_plan(secured(["leaf1"])).services["leaf1"]["kafka_broker"][0] == broker, "a plan is pure"


def test_rights_are_of_users() -> None:
    (error,) = of_rule(
        make_plan(secured(["leaf1"], {"rights": {"nobody": {}}})), "inventory.variable", "error"
    )
    assert "nobody has rights and is none of users" in error.message


def test_the_login_of_the_load_may_use_its_topics_and_others_delete_none() -> None:
    verify = {
        "cluster": "leaf",
        "client": {"sasl.username": "verify", "sasl.password": "planted-verify"},
        "kafka": {"topic": "kedge-verify", "group": "kedge-group"},
    }
    rights = {"app": {"topics": ["joins-*", "orders"], "groups": ["joins"], "may": "delete"}}
    inventory = secured(["leaf1"], {"rights": rights}, verify=verify)
    security = clusters(inventory)[0]["leaf"].security
    found = rights_of(inventory, "leaf", security)
    assert sorted(found) == ["app", "proxy", "verify"], "broker and kedge may do all"
    load = {(r["resource"], r["name"]): r["operations"] for r in found["verify"]}
    assert load == {
        ("TOPIC", "kedge-verify"): ["DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"],
        ("GROUP", "kedge-group"): ["DESCRIBE", "READ"],
        ("TOPIC", "*"): ["DESCRIBE"],
        ("GROUP", "*"): ["DESCRIBE"],
    }
    proxy = {r["resource"]: r["operations"] for r in found["proxy"]}
    assert "CREATE" in proxy["TOPIC"]
    assert "DELETE" not in proxy["TOPIC"] + proxy["GROUP"]
    app = {
        r["name"]: (r["prefix"], "DELETE" in r["operations"])
        for r in found["app"]
        if r["resource"] == "TOPIC"
    }
    assert app == {"joins-": (True, True), "orders": (False, True)}
    without = security.model_copy(update={"authorization": "none"}) if security else None
    assert rights_of(inventory, "leaf", without) == {}


LOGIN = {"sasl.username": "verify", "sasl.password": "planted-verify"}


@pytest.mark.parametrize(
    ("client", "generators", "said"),
    [
        ({}, [], None),
        (LOGIN, ["load1"], None),
        ({"linger.ms": 5}, ["load1"], "is missing, and hosts of load_generator would get a login that may do all"),
        (LOGIN | {"sasl.username": "kedge", "sasl.password": "planted-kedge"}, ["load1"], "is kedge, and hosts"),
        (LOGIN | {"sasl.username": "broker", "sasl.password": "planted-broker"}, ["load1"], "is broker, and hosts"),
        (LOGIN | {"sasl.username": "else"}, [], "is else, who is nobody"),
        (LOGIN | {"sasl.password": "planted-other"}, [], "is verify, and its password is another one"),
        ({"sasl.username": "verify"}, [], "is missing, and verify.client.sasl.username is set"),
        ({"sasl.password": "planted-verify"}, [], "is missing, and verify.client.sasl.password is set"),
    ],
)  # fmt: skip
def test_hosts_that_make_load_get_a_login_for_that_alone(
    client: dict[str, Any], generators: list[str], said: str | None
) -> None:
    verify = {
        "cluster": "leaf",
        "service": "kafka_broker",
        "client": client,
        "kafka": {"topic": "t", "group": "g", "records_per_s": 10},
    }
    found = secured(["leaf1"], verify=verify)
    groups = {**found.groups, "load_generator": tuple(generators)}
    hosts = {**found.hosts, **dict.fromkeys(generators, found.hosts["leaf1"])}
    errors = [f for f in make_plan(Inventory(hosts, groups)).findings if f.severity == "error"]
    assert [f.where for f in errors] == ([] if said is None else [errors[0].where])
    assert said is None or said in errors[0].message
    assert not any("planted" in f.message + f.fix for f in errors)


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


@pytest.mark.parametrize(("hosts", "most"), [(1, "800"), (2, "800"), (4, "2400")])
def test_a_balancer_takes_what_all_clients_keep_open_and_no_host_twice(hosts: int, most: str) -> None:
    plan = make_plan(rest(hosts, {"connections": 400}, groups={"rest_balancer": ("lb1",)}))
    (balancer,) = plan.services["lb1"]["rest_balancer"]
    assert balancer.value("maxconn") == most


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


@pytest.mark.parametrize(
    ("more", "bound"),
    [
        ({}, "0.0.0.0:8080"),
        ({"ansible_host": "balancer.example.net"}, "0.0.0.0:8080"),
        ({"ansible_host": "10.0.0.9"}, "10.0.0.9:8080"),
        ({"ansible_ssh_host": "10.0.0.9"}, "10.0.0.9:8080"),
        ({"ansible_host": "203.0.113.9", "rest_balancer_bind_address": "10.0.0.9"}, "10.0.0.9:8080"),
    ],
)
def test_a_balancer_listens_where_clients_reach_it(more: dict[str, str], bound: str) -> None:
    """Debian has the own name of a host at 127.0.1.1, and an address behind NAT cannot be bound."""
    inventory = rest(1, groups={"rest_balancer": ("lb1",)})
    inventory.hosts["lb1"].update(more)  # type: ignore[attr-defined] # a dict
    (balancer,) = make_plan(inventory).services["lb1"]["rest_balancer"]
    assert balancer.value("bind") == bound


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
