"""Reads values out of a plan, so that no role looks for them by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kedge.services.registry import SERVICES


def planned_instances(plan: Mapping[str, Any], host: str, service: str) -> list[Mapping[str, Any]]:
    """Return the instances of a service on a host; none where the plan has none."""
    found: list[Mapping[str, Any]] = (
        plan["hosts"].get(host, {}).get("services", {}).get(service, {}).get("instances", [])
    )
    return found


def instance_names(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of a service's instances by host, of those of these hosts that have any."""
    found = {host: [str(i["name"]) for i in planned_instances(plan, host, service)] for host in hosts}
    return {host: names for host, names in found.items() if names}


def named(instances: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the instances with these names, in the plan's order."""
    wanted = set(names)
    return [i for i in instances if i["name"] in wanted]


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


def rollout_value(plan: Mapping[str, Any], service: str, key: str) -> int:
    """Return a number of a service's rollout, such as ``at_once``; 0 where it has none of the name."""
    settings = plan["waves"][service]["settings"]
    return next((int(s["value"]) for s in settings if s["key"] == key), 0)


def servers_of(plan: Mapping[str, Any], service: str) -> list[str]:
    """Return the planned instances of a service as balancers name them, HOST:PORT."""
    return [
        f"{host}:{instance['port']}"
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, service)
    ]


def brokers_of(plan: Mapping[str, Any], cluster: str) -> int:
    """Return how many brokers of a cluster are planned."""
    return sum(
        instance["name"] == cluster
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, "kafka_broker")
    )


def draining_balancers(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planned balancers: host, and the seconds that a drain of theirs and its end may take."""
    return [
        {"host": host, "drain": waits["drain_seconds"], "finish": waits["finish_seconds"]}
        for host in plan["hosts"]
        if planned_instances(plan, host, "rest_balancer")
        for waits in [planned_rollout(plan, host, "rest_balancer")]
    ]


def leased_services(plan: Mapping[str, Any], asked: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return by host the services that a run holds: those that are asked for, or tags; without any, all.

    A service is held as well by what changes with it, such as the balancers in front of proxies.
    """
    tags = set(asked)
    wanted = {service.name for service in SERVICES if tags & {service.name, *service.changes_with}}
    found = {host: sorted(part["services"]) for host, part in plan["hosts"].items()}
    if not wanted & {service for services in found.values() for service in services}:
        return found
    chosen = {
        host: [service for service in services if service in wanted] for host, services in found.items()
    }
    return {host: services for host, services in chosen.items() if services}


def vendor_controls(instances: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return instance name to who starts and stops it, of those that a vendor's control runs."""
    return {i["name"]: i["software"]["control"] for i in instances if "control" in i["software"]}


def adopted(instances: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return instance name to the predecessor that it takes over from, of those that have one."""
    return {i["name"]: i["software"]["adopt"] for i in instances if "adopt" in i["software"]}


def reached(plan: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """Return how a client of the kit reaches a cluster."""
    found = plan["clusters"][cluster]
    own = {"client": dict(client)} if (client := found.get("client")) else {}
    return {"bootstrap_servers": found["bootstrap_servers"], **own}
