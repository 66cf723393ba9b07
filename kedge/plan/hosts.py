"""Hosts with their variables, and groups with their hosts, as Ansible resolved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kedge.plan.findings import WITH_INVENTORY, Finding, Reader


def in_url(address: str) -> str:
    """Return an address as it stands before a colon and a port: of IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts with their variables, and groups with their hosts, as Ansible resolved them.

    Attributes:
        hosts: host -> variables.
        groups: group -> hosts, in inventory order, children included.
        source_findings: what is to be said of how its variables were written, which their values no longer
            tell.
        vaulted: values that lie in a vault, wherever in the inventory.
        reader: who gets its plan, and what he calls its variables.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]
    source_findings: tuple[Finding, ...] = ()
    vaulted: frozenset[str] = frozenset()
    reader: Reader = WITH_INVENTORY

    def group(self, name: str) -> tuple[str, ...]:
        """Return the hosts of a group; none when the inventory has no such group."""
        return self.groups.get(name, ())

    def address(self, host: str) -> str:
        """Return the address by which other machines reach a host."""
        variables = self.hosts[host]
        # As Ansible: of both names, the older one counts.
        return str(variables.get("ansible_ssh_host") or variables.get("ansible_host") or host)

    def common(self, variable: str, default: Any = None) -> Any:
        """Return a variable that is the same for the whole inventory (set for the group ``all``)."""
        for variables in self.hosts.values():
            if variable in variables:
                return variables[variable]
        return default
