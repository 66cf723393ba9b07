"""Inventories in a line, for tests of mirrors, Streams applications, topics and clients; readers of plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.plan import Plan, PlannedInstance
from kedge.services.planning import make_plan

CLUSTERS = {
    "leaf": {"version": "4.3.1", "bootstrap_servers": "leaf:9092", "broker_count": 3},
    "agg": {"version": "4.3.1", "bootstrap_servers": "agg:9092", "broker_count": 3},
}
METRICS: dict[str, Any] = {
    "source": "leaf",
    "target": "agg",
    "topics": ["metrics[.].*"],
    "priority": "latency",
    "latency_budget_ms": 60_000,
    "largest_topic_partitions": 20,
    "max_message_bytes": 1_000_000,
}
JOINS: dict[str, Any] = {
    "name": "joins",
    "kind": "join",
    "count": 8,
    "partitions": 12,
    "window_ms": 120_000,
    "grace_ms": 60_000,
}


def mirrors(
    hosts: int | list[str] = 2,
    flow: Mapping[str, Any] | None = None,
    flows: Mapping[str, Any] | None = None,
    cores: int = 16,
    memory_mib: int = 32_768,
    common: Mapping[str, Any] | None = None,
    **role: Any,
) -> Inventory:
    """Return an inventory of mirror hosts for one flow, metrics, or for those given."""
    names = [f"mm{n}" for n in range(1, hosts + 1)] if isinstance(hosts, int) else hosts
    variables = {
        "kafka_clusters": CLUSTERS,
        "advice": "documented",
        "host_cores": cores,
        "host_memory_mib": memory_mib,
        "mirror_maker_kind": "classic",
        "mirror_maker_version": "3.9.2",
        "mirror_maker_flows": flows or {"metrics": METRICS | dict(flow or {})},
    }
    variables |= dict(common or {}) | {f"mirror_maker_{k}": v for k, v in role.items()}
    return Inventory({h: without_none(variables) for h in names}, {"mirror_maker": tuple(names)})


def streams(
    hosts: int | list[str] = 1,
    cores: int = 2,
    memory_mib: int = 16_384,
    common: Mapping[str, Any] | None = None,
    **role: Any,
) -> Inventory:
    """Return an inventory of hosts for the application joins."""
    names = [f"st{n}" for n in range(1, hosts + 1)] if isinstance(hosts, int) else hosts
    variables = {
        "kafka_clusters": CLUSTERS,
        "advice": "measured",
        "host_cores": cores,
        "host_memory_mib": memory_mib,
        "streams_app_name": "joins",
        "streams_app_main_class": "example.Joins",
        "streams_app_jars": [{"path": "joins.jar", "sha256": "0" * 64}],
        "streams_app_version": "4.3.1",
        "streams_app_cluster": "leaf",
        "streams_app_record_bytes": 6000,
        "streams_app_stores": [JOINS],
    }
    variables |= dict(common or {}) | {f"streams_app_{k}": v for k, v in role.items()}
    return Inventory({h: without_none(variables) for h in names}, {"streams_app": tuple(names)})


def of_topics(
    *topics: Mapping[str, Any], clusters: Mapping[str, Any] | None = None, **common: Any
) -> Inventory:
    """Return an inventory of one load generator that declares topics on leaf."""
    declared = [{"name": f"t{n}", "cluster": "leaf"} | dict(t) for n, t in enumerate(topics)]
    variables = {"kafka_clusters": clusters or CLUSTERS, "kafka_topics": declared} | common
    variables = {"host_cores": 2, "host_memory_mib": 4096} | variables
    return Inventory({"somewhere": variables}, {"all": ("somewhere",), "load_generator": ("somewhere",)})


def without_none(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables without those that are None."""
    return {k: v for k, v in variables.items() if v is not None}


def instances(plan: Plan, service: str) -> dict[str, list[PlannedInstance]]:
    """Return the instances of a service on each host."""
    return {host: list(of_host.get(service, ())) for host, of_host in plan.services.items()}


def value(instance: PlannedInstance, key: str) -> str:
    """Return the planned value of a key that must be there."""
    found = [s.value for s in instance.settings if s.key == key]
    assert found, f"{key} is not planned for {instance.name}"
    return found[0]


def findings(inventory: Inventory, rule: str = "", severity: str = "") -> list[Finding]:
    """Return the findings of an inventory's plan by rule and severity."""
    plan = make_plan(inventory)
    return [f for f in plan.findings if f.rule.startswith(rule) and severity in ("", f.severity)]


def files(instance: PlannedInstance) -> list[tuple[str, str, str, str]]:
    """Return all that is rendered of an instance: file, key, value and reason."""
    return [(s.file, s.key, s.value, s.because) for s in instance.settings]
