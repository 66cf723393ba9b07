"""Several loads of an inventory: each is checked under its name, a run takes the one that it was given."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.loads import chosen
from kedge.plan.inventory.security import Security
from kedge.services.planning import make_plan
from kedge.services.rights import rights_of

FIRST = {"cluster": "leaf", "kafka": {"topic": "orders", "group": "g", "records_per_s": 5}}
OTHER = {"cluster": "agg", "kafka": {"topic": "orders", "group": "h", "records_per_s": 5}}


def inventory(**variables: Any) -> Inventory:
    """Two clusters with a topic each, and proxies of the first."""
    every = {
        "host_cores": 16,
        "host_memory_mib": 32_768,
        "kafka_clusters": {
            n: {"version": "4.3.1", "bootstrap_servers": f"{n}:9092"} for n in ("leaf", "agg")
        },
        "kafka_topics": [
            {"name": "orders", "cluster": n, "partitions": 6, "replication": 1} for n in ("leaf", "agg")
        ],
        "kafka_rest_distribution": "confluent",
        "kafka_rest_version": "8.3.1",
        "kafka_rest_cluster": "leaf",
        "kafka_rest_archive": "/srv/proxy.tar.gz",
        "kafka_rest_archive_checksum": "a1" * 32,
        "kafka_rest_ready_topic": "orders",
        **variables,
    }
    return Inventory({"rest1": every}, {"all": ("rest1",), "kafka_rest": ("rest1",)})


def wrong(**variables: Any) -> list[str]:
    found = make_plan(inventory(**variables)).findings
    return [f.line() for f in found if f.severity == "error" and "verify" in f.where]


def test_a_run_takes_verify_or_the_load_that_it_was_given() -> None:
    both = {"verify": FIRST, "verify_loads": {"agg": OTHER}}
    assert chosen(inventory(**both)) == FIRST
    assert chosen(inventory(**both, verify_load="agg")) == OTHER
    assert wrong(**both, verify_load="agg") == []


def test_each_load_is_checked_under_its_name() -> None:
    (line,) = wrong(verify=FIRST, verify_loads={"agg": {**OTHER, "cluster": "nope"}})
    assert line.startswith("all: verify_loads.agg.cluster: verify_loads.agg.cluster is nope")


@pytest.mark.parametrize(
    ("loads", "fix"), [({"agg": OTHER}, "write one of: agg"), ({}, "name a load in verify_loads")]
)
def test_a_name_that_no_load_has_is_refused(loads: dict[str, Any], fix: str) -> None:
    (line,) = wrong(verify_loads=loads, verify_load="leaf")
    assert "verify_load is leaf, and verify_loads has no such load" in line
    assert fix in line


def test_what_is_no_mapping_of_loads_is_refused() -> None:
    (line,) = wrong(verify_loads=["agg"])
    assert "all: verify_loads: " in line


def test_the_login_of_several_loads_may_use_the_topics_of_all_of_them() -> None:
    login = {"client": {"sasl.username": "load"}}
    loads = {
        name: {**FIRST, **login, "kafka": {**FIRST["kafka"], "topic": name, "group": name}}  # type: ignore[dict-item]
        for name in ("a", "b")
    }
    security = Security.model_construct(
        protocol="SASL_PLAINTEXT", broker_user="broker", user="admin", users={"load": "x"}, rights={}
    )
    rights = rights_of(inventory(verify_loads=loads), "leaf", security)["load"]
    assert {"a", "b"} <= {right["name"] for right in rights if right["resource"] == "TOPIC"}
