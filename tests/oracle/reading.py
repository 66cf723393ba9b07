"""Reads a plan: what stands in plan.json, and what an inventory says of its clusters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Plan = Mapping[str, Any]
Hosts = Mapping[str, Mapping[str, Any]]
Groups = Mapping[str, list[str]]
Settings = Mapping[str, Mapping[str, Any]]


def processes(plan: Plan, service: str) -> Iterator[tuple[str, str, Settings]]:
    """Yield host, name and settings by key of every process of a service."""
    for host, of_host in plan["hosts"].items():
        for each in of_host["services"].get(service, {"instances": []})["instances"]:
            yield host, each["name"], {s["key"]: s for s in each["settings"]}


def value(settings: Settings, key: str, default: float) -> float:
    """Return the number of a key, also under the prefix of a component or client; the default without it."""
    found = settings.get(key) or next((s for k, s in settings.items() if k.endswith(f".{key}")), None)
    return float(found["value"]) if found else default


def heap_mib(settings: Settings) -> float | None:
    """Return the heap of a process by its -Xmx; None where no heap is planned."""
    flags = " ".join(s["value"] for k, s in settings.items() if k.endswith("_OPTS"))
    found = re.search(r"-Xmx(\d+)m", flags)
    return float(found[1]) if found else None


def limit_mib(settings: Settings) -> float:
    """Return what a unit may take, or keeps for itself, in MiB; 0 without a limit."""
    written = settings.get("MemoryMax") or settings.get("MemoryLow")
    return float(written["value"].removesuffix("M")) if written else 0


def is_own(settings: Settings, ends: str) -> bool:
    """Return whether the person's own value stands under a key that ends so."""
    return any(s["by"] == "person" for k, s in settings.items() if k.endswith(ends))


def cluster_of(hosts: Hosts, groups: Groups, name: str) -> tuple[Mapping[str, Any], int | None]:
    """Return what the inventory says of a cluster, and its number of brokers."""
    declared: Mapping[str, Any] = next(
        (h.get("kafka_clusters", {}).get(name, {}) for h in hosts.values()), {}
    )
    return declared, declared.get("broker_count") or len(groups.get(declared.get("brokers", ""), [])) or None


def measured(variables: Mapping[str, Any]) -> bool:
    """Return whether the inventory asks for measured advice."""
    return str(variables.get("advice", "measured")) == "measured"


def partitions_of(plan: Plan, cluster: str, patterns: list[str] | None = None) -> list[int]:
    """Return the partitions of a cluster's planned topics, or of those that one of the patterns matches whole."""
    found = plan["topics"].get(cluster, {}).items()
    return [
        int(next(s["value"] for s in topic["settings"] if s["key"] == "partitions"))
        for name, topic in found
        if patterns is None or any(re.fullmatch(p, name) for p in patterns)
    ]


def max_message(plan: Plan, cluster: str, topic: str) -> int | None:
    """Return max.message.bytes of a planned topic; None without it."""
    settings = plan["topics"][cluster][topic]["settings"]
    return next((int(s["value"]) for s in settings if s["key"] == "max.message.bytes"), None)
