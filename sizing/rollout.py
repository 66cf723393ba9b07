"""Rules for what a rollout waits for: an instance to be ready, and its groups to be back after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sizing.core.inventory import Inventory
from sizing.core.plan import Part
from sizing.core.service import Planned, Service
from sizing.core.settings import Setting


def plan_rollouts(inventory: Inventory, planned_services: Planned, services: Iterable[Service]) -> Part:
    """Plan what a deploy or a rolling restart of each service of a host waits for."""
    waiting = [service for service in services if service.waits]
    found: dict[str, dict[str, tuple[Setting, ...]]] = {}
    for host, of_host in planned_services.items():
        for service in waiting:
            if service.name in of_host:
                planned = tuple(_waits(service, inventory.hosts[host]))
                drain = service.drain(planned_services, of_host[service.name]) if service.drain else ()
                found.setdefault(host, {})[service.name] = planned + drain
    return Part(rollouts=found)


def _waits(service: Service, variables: Mapping[str, Any]) -> Iterable[Setting]:
    assert service.variables is not None, f"{service.name} waits, and no variable says how long"
    for key, rule, because, source, basis in service.waits:
        own = variables.get(f"{service.name}_{key}")
        default = service.variables.model_fields[key].default
        if own is None or own == default:
            yield Setting("", key, str(default), rule, because, source, basis)
        else:
            why = f"set in the inventory; the plan would have said {default}: {because}"
            yield Setting("", key, str(own), rule, why, "the inventory", "yours")
