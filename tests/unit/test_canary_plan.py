"""The plan of a canary: its topics, levels, rights, loads and what it costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kedge.deploy.canary_spec import with_canary_loads
from kedge.deploy.watch_spec import watch_spec
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.plan.inventory.secrets import seal
from kedge.plan.plan import Plan
from kedge.services.canary.loads import judged
from kedge.services.planning import make_plan
from kedge.services.rights import rights_of
from tests.planned import CLUSTERS, METRICS
from tests.rest_inventories import rest

PASSWORD = "a-long-password"


SECURITY = {
    "protocol": "SASL_PLAINTEXT",
    "mechanism": "SCRAM-SHA-512",
    "user": "kit",
    "password": "kit-password",
    "users": {"kit": "kit-password", "broker": "brokers-password", "canary": PASSWORD},
}


SECURED = {"leaf": {"version": "4.3.1", "brokers": "kafka_broker", "security": SECURITY}}


def inventory(hosts: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Inventory:
    common = {"kafka_clusters": CLUSTERS, "host_cores": 2, "host_memory_mib": 8192, "canary_cluster": "leaf"}
    others = {host: {**common, **variables, **own} for host, own in (hosts or {}).items()}
    groups = {"kafka_broker": ("kafka1",)} if "kafka1" in others else {}
    return Inventory({"c1": {**common, **variables}, **others}, {"canary": ("c1",), **groups})


def said(plan: Plan, rule: str) -> list[str]:
    return [f.line() for f in plan.findings if f.rule == rule]


def test_each_turn_has_topics_of_its_own_with_a_partition_for_each_broker() -> None:
    plan = make_plan(inventory())
    assert not plan.has_errors
    topics = plan.topics["leaf"]
    assert list(topics) == ["kedge-canary-c1-kafka-0", "kedge-canary-c1-kafka-1"]
    values = {s.key: s.value for s in topics["kedge-canary-c1-kafka-0"]}
    assert values == {"partitions": "3", "replication.factor": "3", "retention.ms": "21600000"}


@pytest.mark.parametrize(
    ("window_s", "rate", "errors"),
    [(300, 10, 1), (1000, 10, 0), (300, 34, 0)],
)
def test_a_level_that_one_window_cannot_show_is_an_error(window_s: int, rate: float, errors: int) -> None:
    levels = {"latency": {"kafka": {"ack_p999_ms": 100, "ack_max_ms": 500}}}
    plan = make_plan(
        inventory(service_levels=levels, canary_window_s=window_s, canary_records_per_s=float(rate))
    )
    found = said(plan, "canary.judged")
    assert len(found) == errors
    assert all("set canary_window_s to 1000, or canary_records_per_s to 34" in one for one in found)


def test_levels_of_what_a_canary_does_not_do_are_none_of_its_own() -> None:
    latency = {"kafka": {"ack_max_ms": 500, "append_max_ms": 9}, "rest": {"ack_p999_ms": 100}}
    levels = {"latency": latency, "mirror": {"lag_p99_ms": 5}, "throughput": {"kafka": {"records_per_s": 9}}}
    found = judged(levels, rest=False, mirrored=False)
    assert found == {"latency": {"kafka": {"ack_max_ms": 500}}, "settings": {"different": None}}
    plan = make_plan(inventory(service_levels={"latency": latency}, canary_window_s=60))
    assert said(plan, "canary.judged") == []
    both = judged(levels, rest=True, mirrored=True)
    assert (both["latency"]["rest"], both["mirror"]) == (latency["rest"], levels["mirror"])


@pytest.mark.parametrize(
    ("values", "rule", "words"),
    [
        ({"canary_rest": True}, "canary.rest", "no balancer has REST proxies of leaf"),
        (
            {"canary_user": "app", "kafka_rest_user": "app"},
            "canary.login",
            "which kafka_rest_user is as well",
        ),
    ],
)
def test_what_a_canary_cannot_do_is_an_error_of_the_plan(
    values: dict[str, Any], rule: str, words: str
) -> None:
    assert any(words in one for one in said(make_plan(inventory(**values)), rule))


def test_proxies_that_ask_for_a_login_want_one_of_the_canary() -> None:
    groups = {"rest_balancer": ("lb1",), "canary": ("rest1",)}
    inventory = rest(2, groups=groups, common={"canary_cluster": "leaf"}, users={"a": "secret-a"})
    assert any("the canary has none" in one for one in said(make_plan(inventory), "canary.rest"))


def test_a_canary_that_is_more_than_a_percent_of_the_workload_is_named() -> None:
    topic = {"name": "orders", "cluster": "leaf", "partitions": 3, "target_mb_per_s": 0.05}
    assert "2.0 percent" in said(make_plan(inventory(kafka_topics=[topic])), "canary.share")[0]
    assert said(make_plan(inventory(kafka_topics=[topic | {"target_mb_per_s": 0.2}])), "canary.share") == []


@pytest.mark.parametrize(
    ("hosts", "rate", "fix"),
    [(2, 400, "set canary_records_per_s to 7"), (60, 10, "set canary_rest_instances to false: ")],
)
def test_what_instances_get_directly_counts_for_the_share(hosts: int, rate: int, fix: str) -> None:
    groups = {"rest_balancer": ("lb1",), "canary": ("c1",)}
    load = {"records_per_s": rate, "record_bytes": 100}
    plan = make_plan(rest(hosts, workload=load, groups=groups, common={"canary_cluster": "leaf"}))
    (line,) = said(plan, "canary.share")
    assert fix in line


def test_a_flow_that_leaves_the_topics_of_the_canary_out_is_named() -> None:
    mirror = {"mirror_maker_kind": "classic", "mirror_maker_version": "3.9.2"}

    def plan(topics: list[str]) -> Plan:
        flows = {"metrics": METRICS | {"topics": topics}}
        found = inventory({"mm1": {}}, mirror_maker_flows=flows, **mirror)
        return make_plan(Inventory(found.hosts, {**found.groups, "mirror_maker": ("mm1",)}))

    assert (
        "flow metrics does not copy kedge-canary-c1-kafka-0"
        in said(plan(["metrics[.].*"]), "canary.mirror")[0]
    )
    assert said(plan(["metrics[.].*", "kedge-canary-.*"]), "canary.mirror") == []


@pytest.mark.parametrize(("kind", "version"), [("classic", "3.9.2"), ("mirror_maker_2", "4.3.1")])
def test_topics_that_classic_mirrors_copy_are_planned_on_the_target_too(kind: str, version: str) -> None:
    mirror = {"mirror_maker_kind": kind, "mirror_maker_version": version}
    first = METRICS | {"topics": ["metrics[.].*", "kedge-canary-.*"]}
    flows = {"metrics": first, "further": first | {"source": "agg", "target": "hub"}}
    more = {
        "mirror_maker_flows": flows,
        "canary_partitions": 7,
        "kafka_clusters": CLUSTERS | {"hub": CLUSTERS["agg"]},
    }
    found = inventory({"mm1": {}}, **more, **mirror)
    plan = make_plan(Inventory(found.hosts, {**found.groups, "mirror_maker": ("mm1",)}))
    # MirrorMaker 2 creates topics itself; the producer of the classic one waits for them, for ever.
    copies = {"kedge-canary-c1-kafka-0": "7", "kedge-canary-c1-kafka-1": "7"}
    for cluster in ("agg", "hub"):
        there = {
            name: next(s.value for s in settings if s.key == "partitions")
            for name, settings in plan.topics.get(cluster, {}).items()
        }
        assert there == (copies if kind == "classic" else {}), cluster


def secured() -> Inventory:
    login = {"canary_user": "canary", "canary_password": PASSWORD}
    return inventory({"kafka1": {}}, **{"kafka_clusters": SECURED, **login})


def test_its_login_may_use_the_topics_of_its_turns_and_no_other() -> None:
    found = rights_of(secured(), "leaf", clusters(secured())[0]["leaf"].security)["canary"]
    writes = {r["name"] for r in found if "WRITE" in r["operations"]}
    assert writes == {"kedge-canary-c1-kafka-0", "kedge-canary-c1-kafka-1"}


def test_its_password_stands_in_its_environment_alone() -> None:
    document, values = seal(make_plan(secured()).to_json())
    assert PASSWORD not in json.dumps(document)
    (held,) = [value for value in values.values() if PASSWORD in value]
    assert json.loads(held) == {"clusters": {"leaf": {"sasl.password": PASSWORD}}}


def test_its_host_gets_loads_with_its_login_and_without_clusters_that_ask_for_another() -> None:
    document = make_plan(secured()).to_json()
    kit = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "kit"}
    flow = {
        "source": "leaf",
        "group": None,
        "workers": None,
        "offsets_topic": None,
        "topics": [".*"],
        "prefix": "",
    }
    document |= {
        "clusters": {
            "leaf": {"bootstrap_servers": "kafka1:9092", "client": kit},
            "open": {"bootstrap_servers": "open:9092"},
            "closed": {"bootstrap_servers": "closed:9092", "client": kit},
        },
        "flows": {name: {**flow, "target": name} for name in ("open", "closed")},
    }
    (instance,) = with_canary_loads(document, "c1")
    loads = json.loads(instance["settings"][-1]["value"])["loads"]
    assert [load["kafka"]["topic"] for load in loads] == [
        "kedge-canary-c1-kafka-0",
        "kedge-canary-c1-kafka-1",
    ]
    assert {load["client"]["sasl.username"] for load in loads} == {"canary"}
    assert [mirror["flow"] for mirror in loads[0]["mirrors"]] == ["open"]


def test_a_watch_of_what_others_send_takes_it_for_kedges_own() -> None:
    document = make_plan(inventory()).to_json() | {"clusters": {"leaf": {"bootstrap_servers": "leaf:9092"}}}
    leaf = watch_spec({}, document, "r")["clusters"]["leaf"]
    assert leaf["own_topics"] == leaf["own_groups"] == leaf["topics"] == sorted(document["topics"]["leaf"])


def test_rest_goes_through_the_planned_balancer_where_it_writes_to_the_cluster_of_the_canary() -> None:
    groups = {"rest_balancer": ("lb1",), "canary": ("rest1",)}
    document = make_plan(rest(2, groups=groups, common={"canary_cluster": "leaf"})).to_json()
    document |= {"clusters": {"leaf": {"bootstrap_servers": "k:9092"}}, "flows": {}, "applications": {}}
    (instance,) = with_canary_loads(document, "rest1")
    (load, _) = json.loads(instance["settings"][-1]["value"])["loads"]
    assert load["rest"]["url"] == "http://lb1:8080"
    assert "kedge-canary-rest1-rest-0" in document["topics"]["leaf"]
    alone = make_plan(rest(2, groups={"canary": ("rest1",)}, common={"canary_cluster": "leaf"})).to_json()
    assert "kedge-canary-rest1-rest-0" not in alone["topics"]["leaf"]


def direct_to(**variables: Any) -> tuple[Plan, dict[str, Any]]:
    groups = {"rest_balancer": ("lb1",), "canary": ("rest1",)}
    common = {"canary_cluster": "leaf", **variables}
    plan = make_plan(rest(2, groups=groups, common=common))
    document = plan.to_json()
    document |= {"clusters": {"leaf": {"bootstrap_servers": "k:9092"}}, "flows": {}, "applications": {}}
    (instance,) = with_canary_loads(document, "rest1")
    return plan, json.loads(instance["settings"][-1]["value"])["loads"][0]


def test_each_rest_instance_is_sent_to_directly() -> None:
    _, load = direct_to()
    assert set(load["rest_instances"]) >= {"rest1:8082", "rest2:8082"}
    assert load["rest_instances"]["rest2:8082"] == "http://rest2:8082"
    assert "rest_instances_ca" not in load
    assert "rest_instances" not in direct_to(canary_rest_instances=False)[1]


@pytest.mark.parametrize(
    ("tls", "variables", "why"),
    [
        ({"clients": "none"}, {}, ""),
        ({"clients": "requested"}, {"canary_rest_user": "canary"}, ""),
        ({"clients": "required"}, {}, "they require a certificate"),
        (None, {"canary_rest_user": "canary"}, "its password would cross the network in the clear"),
    ],
)
def test_a_canary_shows_instances_no_certificate_and_no_password_in_the_clear(
    tls: dict[str, str] | None, variables: dict[str, Any], why: str
) -> None:
    files = {"certificate": "rest.pem", "key": "rest.key", "ca": "ca.pem"}
    plan, load = direct_to(kafka_rest_tls=tls and files | tls, **variables)
    assert load.get("rest_instances", {}).get("rest2:8082") == (None if why else "https://rest2:8082")
    placed = [s for s in plan.services["rest1"]["canary"][0].settings if s.file.endswith("/instances-ca.pem")]
    assert [s.value for s in placed] == [] if why else ["ca.pem"]
    assert [why in one for one in said(plan, "canary.rest")] == [True] * bool(why)
