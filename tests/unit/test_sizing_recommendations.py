"""Recommendations are laid over the inventory value by value, and what they cannot change is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.recommendations import laid_over, with_recommendations
from kedge.plan.plan import Plan
from kedge.services.planning import make_plan, what_changes
from kedge.services.registry import SERVICES
from tests.planned import METRICS, findings, instances, mirrors, of_topics, streams, value
from tests.rest_inventories import rest

RATES: dict[str, Any] = {
    "cluster": "leaf",
    "record_bytes": 1000,
    "codec": "none",
    "acks": "all",
    "replication": 3,
    "production_mb_per_s": 10,
    "consumption_mb_per_s": 20,
    "run": "measure-1",
}


def linger(plan: Plan, host: str = "mm1") -> str:
    return value(instances(plan, "mirror_maker")[host][0], "linger.ms")


def filled(**flow: Any) -> dict[str, Any]:
    return {"recommended": {"mirror_maker_flows": {"metrics": flow}}}


def test_one_value_of_a_flow_is_replaced_and_the_others_stay() -> None:
    plan = make_plan(mirrors(common=filled(fill_ms_p95=9000), flow={"fill_ms_p95": 12_000}))
    assert not plan.has_errors
    assert linger(plan) == "9000"
    assert value(instances(plan, "mirror_maker")["mm1"][0], "batch.size") == "50000"


def test_entries_of_lists_are_found_by_their_names() -> None:
    orders = {"name": "orders", "cluster": "leaf", "partitions": 12}
    topics = of_topics({"partitions": 1}, {"name": "orders", "partitions": 3, "settings": {"a": 1}},
                       recommended={"kafka_topics": [orders]})  # fmt: skip
    (first, second) = with_recommendations(topics, SERVICES).inventory.common("kafka_topics")
    assert (first["partitions"], second) == (1, {**orders, "settings": {"a": 1}})


def test_measurements_of_one_workload_replace_each_other_and_others_are_added() -> None:
    mine, other = {**RATES, "run": "measure-2"}, {**RATES, "record_bytes": 100}
    topics = of_topics(kafka_partition_rates=[RATES], recommended={"kafka_partition_rates": [mine, other]})
    assert with_recommendations(topics, SERVICES).inventory.common("kafka_partition_rates") == [mine, other]


def test_a_store_is_changed_where_there_is_one_of_its_name() -> None:
    """Two applications share the variable's name, and not the store's."""
    stores = {"streams_app_stores": [{"name": "joins", "partitions": 24}]}
    one, two = streams(["a"], common={"recommended": stores}), streams(["b"], common={"recommended": stores})
    other = {**two.hosts["b"]["streams_app_stores"][0], "name": "sums"}
    hosts = {"a": one.hosts["a"], "b": {**two.hosts["b"], "streams_app_stores": [other]}}
    recommended = with_recommendations(Inventory(hosts, {"streams_app": ("a", "b")}), SERVICES)
    assert not recommended.findings
    found = {h: v["streams_app_stores"][0]["partitions"] for h, v in recommended.inventory.hosts.items()}
    assert found == {"a": 24, "b": 12}


def test_a_variable_of_a_role_reaches_the_hosts_of_that_role_alone() -> None:
    inventory = rest(
        1, common={"recommended": {"kafka_rest_heap_mib": 2048}}, groups={"rest_balancer": ("lb1",)}
    )
    hosts = with_recommendations(inventory, SERVICES).inventory.hosts
    assert (hosts["rest1"].get("kafka_rest_heap_mib"), hosts["lb1"].get("kafka_rest_heap_mib")) == (
        2048,
        None,
    )


@pytest.mark.parametrize(
    ("recommended", "name", "fix"),
    [
        ([1], "recommended", "write a mapping"),
        ({"kafka_topic": []}, "recommended.kafka_topic", "did you mean recommended.kafka_topics?"),
        ({"advice": "documented"}, "recommended.advice", "take it out"),
        ({"mirror_maker_flows": {"metric": {}}}, "recommended.mirror_maker_flows.metric", "did you mean metrics?"),
        (
            {"mirror_maker_flows": {"metrics": {"fill_p95": 1}}},
            "recommended.mirror_maker_flows.metrics.fill_p95",
            "did you mean recommended.mirror_maker_flows.metrics.fill_ms_p95?",
        ),
        (
            {"mirror_maker_flows": {"metrics": {"fill_ms_p95": "9s"}}},
            "recommended.mirror_maker_flows.metrics.fill_ms_p95",
            "write 9000: the unit is ms",
        ),
        # A word is no name of a variable.
        (
            {"mirror_maker_flows": {"metrics": {"priority": "latencies"}}},
            "recommended.mirror_maker_flows.metrics.priority",
            "did you mean latency?",
        ),
        ({"mirror_maker_flows": 3}, "recommended.mirror_maker_flows", "write a mapping"),
        (
            {"kafka_topics": [{"name": "order", "cluster": "leaf"}]},
            "recommended.kafka_topics[0]",
            "did you mean orders leaf?",
        ),
        (
            {"kafka_topics": [{"name": "orders", "cluster": "leaf", "partitions": 0}]},
            "recommended.kafka_topics[0].partitions",
            "above 0",
        ),
        ({"kafka_topics": ["orders"]}, "recommended.kafka_topics[0]", "did you mean orders leaf?"),
        ({"kafka_topics": {"orders": 1}}, "recommended.kafka_topics", "write a list"),
        (
            {"kafka_partition_rates": [{**RATES, "codec": "rar"}]},
            "recommended.kafka_partition_rates[0].codec",
            "'zstd'",
        ),
        (
            {"kafka_partition_rates": [{"cluster": "leaf"}]},
            "recommended.kafka_partition_rates[0].record_bytes",
            "add it",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_below_recommended(recommended: Any, name: str, fix: str) -> None:
    orders = {"name": "orders", "cluster": "leaf", "partitions": 3}
    inventory = mirrors(common={"recommended": recommended, "kafka_topics": [orders]})
    found = [
        f for f in findings(inventory, "inventory.variable", "error") if f.message.startswith(name + " ")
    ]
    assert found, findings(inventory)
    assert fix in found[0].fix


def test_without_recommendations_nothing_is_said() -> None:
    inventory = mirrors()
    assert what_changes(inventory, make_plan(inventory)) == ""


def test_what_changes_is_said_of_the_inventory_and_of_the_plan() -> None:
    orders = {"name": "orders", "cluster": "leaf", "partitions": 3}
    common = filled(fill_ms_p95=9000) | {"kafka_topics": [orders]}
    common["recommended"] |= {"kafka_topics": [{**orders, "partitions": 5}]}
    inventory = mirrors(common=common, flow=METRICS)
    said = what_changes(inventory, make_plan(inventory))
    assert "mirror_maker_flows.metrics.fill_ms_p95: not set -> 9000" in said
    assert "linger.ms\n        recommended: 9000\n        without: 15000" in said
    assert "kafka_topics[orders].partitions: 3 -> 5" in said
    assert "leaf topic@orders" in said
    assert "2 settings differ between recommended and without" in said


def test_a_secret_is_not_shown_as_changed() -> None:
    settings = {"recommended": {"kafka_rest_settings": {"producer.ssl.key.password": "hunter2"}}}
    inventory = rest(1, common=settings)
    said = what_changes(inventory, make_plan(inventory))
    assert "producer.ssl.key.password: not set -> ***" in said
    assert "hunter2" not in said


def test_several_recommendations_become_one_mapping() -> None:
    flows = [{"mirror_maker_flows": {name: {"fill_ms_p95": 1}}} for name in ("a", "b")]
    rates = [{"kafka_partition_rates": [RATES]}, {"kafka_partition_rates": [{**RATES, "run": "later"}]}]
    assert laid_over([*flows, *rates]) == {
        "mirror_maker_flows": {"a": {"fill_ms_p95": 1}, "b": {"fill_ms_p95": 1}},
        "kafka_partition_rates": [{**RATES, "run": "later"}],
    }
