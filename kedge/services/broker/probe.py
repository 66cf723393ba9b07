"""When a broker counts as ready, and what clients miss while its host is away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plan.document import planned_instances
from kedge.services.broker.planner import SERVICE


def kafka_probe(instance: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return the probe that asks a broker which requests it knows, which it answers before any login."""
    ca = [s["file"] for s in instance["settings"] if s["file"].endswith("/cluster-ca.pem")]
    probe = {"kind": "kafka", "host": address, "port": instance["port"]}
    return probe | ({"ca": ca[0]} if ca else {})


def brokers_of(plan: Mapping[str, Any], cluster: str) -> int:
    """Return how many brokers of a cluster are planned."""
    return sum(
        instance["name"] == cluster
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, SERVICE)
    )


def missed(plan: Mapping[str, Any], host: str) -> str:
    """Return what clients miss while a host with a broker is away; nothing where others have its data."""
    cluster = str(planned_instances(plan, host, SERVICE)[0]["name"])
    return f"it is the one broker of {cluster}" if brokers_of(plan, cluster) == 1 else ""
