"""Variables by their former names: they work for a minor version more, and the plan names the successor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.variables import OfHost, Shared
from kedge.plan.service import Service
from kedge.plan.variable_messages import wrong_variable
from kedge.plan.variables import Replaces


def with_successors(inventory: Inventory, services: Iterable[Service]) -> tuple[Inventory, list[Finding]]:
    """Return the inventory with each variable by its name of today, and a finding for each former name."""
    former = _former(services)
    if not former:
        return inventory, []
    hosts: dict[str, Mapping[str, Any]] = {}
    findings: list[Finding] = []
    for host, variables in inventory.hosts.items():
        given = [name for name in former if name in variables]
        kept = {name: value for name, value in variables.items() if name not in given}
        for name in given:
            successor, since = former[name]
            if successor in variables:
                findings.append(
                    wrong_variable(
                        name, host, f"is the former name of {successor}, which is set too", "take it out"
                    )
                )
                continue
            kept[successor] = variables[name]
            findings.append(
                Finding(
                    "warning",
                    "inventory.deprecated",
                    f"{host}: {name}",
                    f"{name} is {successor} since {since}, and the next minor version does not read it",
                    f"write {successor}",
                )
            )
        hosts[host] = kept
    return replace(inventory, hosts=hosts), findings


def _former(services: Iterable[Service]) -> dict[str, tuple[str, str]]:
    """Return the former names of variables, each with its successor and the version that has it."""
    models: list[tuple[str, type[BaseModel]]] = [("", Shared), ("", OfHost)]
    models += [(f"{service.name}_", service.variables) for service in services if service.variables]
    return {
        f"{prefix}{mark.name}": (f"{prefix}{name}", mark.since)
        for prefix, model in models
        for name, field in model.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Replaces)
    }
