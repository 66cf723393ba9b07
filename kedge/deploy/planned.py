"""Reads values out of a plan, so that no role looks for them by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kedge.plan.document import planned_instances
from kedge.services.registry import SERVICES


def instance_names(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of a service's instances by host, of those of these hosts that have any."""
    found = {host: [str(i["name"]) for i in planned_instances(plan, host, service)] for host in hosts}
    return {host: names for host, names in found.items() if names}


def named(instances: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the instances with these names, in the plan's order."""
    wanted = set(names)
    return [i for i in instances if i["name"] in wanted]


def rollout_value(plan: Mapping[str, Any], service: str, key: str) -> int:
    """Return a number of a service's rollout, such as ``at_once``; 0 where it has none of the name."""
    settings = plan["waves"][service]["settings"]
    return next((int(s["value"]) for s in settings if s["key"] == key), 0)


def soak(plan: Mapping[str, Any], service: str) -> dict[str, int]:
    """Return how long canary instances soak, and how much slower than the others they may answer."""
    return {key: rollout_value(plan, service, key) for key in ("hold_seconds", "worse_percent")}


def servers_of(plan: Mapping[str, Any], service: str) -> list[str]:
    """Return the planned instances of a service as balancers name them, HOST:PORT."""
    return [
        f"{host}:{instance['port']}"
        for host in plan["hosts"]
        for instance in planned_instances(plan, host, service)
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
