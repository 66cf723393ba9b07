"""Reads values out of a plan's document, so that nothing looks for them by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def planned_instances(plan: Mapping[str, Any], host: str, service: str) -> list[Mapping[str, Any]]:
    """Return the instances of a service on a host; none where the plan has none."""
    found: list[Mapping[str, Any]] = (
        plan["hosts"].get(host, {}).get("services", {}).get(service, {}).get("instances", [])
    )
    return found


def planned_value(instance: Mapping[str, Any], key: str) -> str:
    """Return the planned value of a key of an instance.

    Raises:
        KeyError: when the plan has no such key; the message names it.
    """
    for setting in instance["settings"]:
        if setting["key"] == key:
            return str(setting["value"])
    message = f"the plan of instance {instance['name']} has no {key}"
    raise KeyError(message)


def planned_rollout(plan: Mapping[str, Any], host: str, service: str) -> dict[str, int]:
    """Return what a rollout of a service of a host waits for."""
    return {s["key"]: int(s["value"]) for s in plan["rollouts"][host][service]["settings"]}


def reached(plan: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """Return how a client of the kit reaches a cluster."""
    found = plan["clusters"][cluster]
    own = {"client": dict(client)} if (client := found.get("client")) else {}
    return {"bootstrap_servers": found["bootstrap_servers"], **own}
