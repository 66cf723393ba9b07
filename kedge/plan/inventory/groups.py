"""Checks of the inventory's groups: a host is deployed to by the groups that it is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kedge.evidence.nearest import nearest
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory

_LIKE: Final = 0.88


def check_groups(inventory: Inventory, known: Sequence[str]) -> Iterator[Finding]:
    """Find groups that are no service's although they look so, and hosts that get nothing.

    ``known`` are the groups of the services.
    """
    misspelt = dict(_misspelt(inventory, known))
    names = ", ".join(known)
    for group, near in misspelt.items():
        yield Finding(
            "error",
            "inventory.group",
            f"group {group}",
            f"nothing is deployed to the group {group}, whose hosts are {', '.join(inventory.group(group))}",
            f"did you mean {near}?",
        )
    served = {host for service in known for host in inventory.group(service)}
    if not served and not misspelt:
        yield Finding(
            "error",
            "inventory.group",
            "the inventory",
            f"the inventory has no host in any group that Kedge deploys: {names}",
            "put hosts into these groups, and see that -i names the inventory that you mean",
        )
        return
    served |= {host for group in misspelt for host in inventory.group(group)}
    for host in inventory.hosts:
        if host not in served:
            yield Finding(
                "note",
                "inventory.host",
                host,
                "it is in no group of a service, so nothing is deployed to it",
                f"put it into one of {names}, unless you mean that",
            )


def _misspelt(inventory: Inventory, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the groups that hold hosts and are nearly called as a service which does not have these hosts."""
    declared = inventory.common("kafka_clusters")
    clusters = declared.values() if isinstance(declared, Mapping) else ()
    of_brokers = {c.get("brokers") for c in clusters if isinstance(c, Mapping)}
    for group, hosts in inventory.groups.items():
        if group in known or group in of_brokers:
            continue
        near = nearest(group.lower(), known, _LIKE)
        if near and not set(hosts) <= set(inventory.group(near)):
            yield group, near
