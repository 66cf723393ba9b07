"""Inventories of REST proxies in a line, for tests of their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.jvm_flags import growing_heap, heap, maximum_heap_mib
from kedge.plan.plan import Plan
from kedge.services.planning import make_plan
from tests.planned import CLUSTERS, without_none


def rest(
    hosts: int | list[str] = 1,
    workload: Mapping[str, Any] | None = None,
    common: Mapping[str, Any] | None = None,
    groups: Mapping[str, tuple[str, ...]] | None = None,
    cores: int = 16,
    memory_mib: int = 65_536,
    **role: Any,
) -> Inventory:
    """Return an inventory of REST hosts for the cluster leaf; a variable of None is left out."""
    names = [f"rest{n}" for n in range(1, hosts + 1)] if isinstance(hosts, int) else hosts
    role = {
        "cluster": "leaf",
        "distribution": "confluent",
        "version": "8.3.1",
        "archive": "/srv/proxy.tar.gz",
        "archive_checksum": "a1" * 32,
        "workload": dict(workload or {}),
    } | role
    variables = {
        "kafka_clusters": CLUSTERS,
        "host_cores": cores,
        "host_memory_mib": memory_mib,
        **{f"kafka_rest_{k}": v for k, v in role.items()},
        **(common or {}),
    }
    every = {*names, *(h for of_group in (groups or {}).values() for h in of_group)}
    return Inventory(
        {h: without_none(variables) for h in sorted(every)}, {"kafka_rest": tuple(names), **(groups or {})}
    )


def planned(
    inventory: Inventory, key: str, host: str = "rest1", service: str = "kafka_rest", number: int = 0
) -> str:
    """Return the planned value of a key of one instance; empty where it is left out."""
    return make_plan(inventory).services[host][service][number].value(key)


def heap_mib(inventory: Inventory) -> int:
    """Return the heap of the first instance of rest1, in MiB."""
    flags = planned(inventory, "KAFKAREST_HEAP_OPTS")
    high = maximum_heap_mib(flags) or 0
    assert flags in (heap(high), growing_heap(high, slowly=True))
    return high


def of_rule(plan: Plan, rule: str, severity: str = "") -> list[Finding]:
    """Return the findings of a rule."""
    return [f for f in plan.findings if f.rule == rule and severity in ("", f.severity)]
