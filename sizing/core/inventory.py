"""Hosts with their variables, and groups with their hosts, as Ansible resolved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sizing.core.findings import Finding


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts with their variables, and groups with their hosts, as Ansible resolved them.

    Attributes:
        hosts: host -> variables.
        groups: group -> hosts, in inventory order, children included.
        source_findings: what is to be said of how its variables were written, which their values no longer
            tell.
        vaulted: values that lie in a vault, wherever in the inventory.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, tuple[str, ...]]
    source_findings: tuple[Finding, ...] = ()
    vaulted: frozenset[str] = frozenset()

    def group(self, name: str) -> tuple[str, ...]:
        """Return the hosts of a group; none when the inventory has no such group."""
        return self.groups.get(name, ())

    def address(self, host: str) -> str:
        """Return the address by which other machines reach a host."""
        return str(self.hosts[host].get("ansible_host", host))

    def common(self, variable: str, default: Any = None) -> Any:
        """Return a variable that is the same for the whole inventory (set for the group ``all``)."""
        for variables in self.hosts.values():
            if variable in variables:
                return variables[variable]
        return default

    @classmethod
    def from_ansible(cls, listing: Mapping[str, Any]) -> Inventory:
        """Build from what ``ansible-inventory --list`` prints."""
        hostvars = listing.get("_meta", {}).get("hostvars", {})

        def members(group: str) -> list[str]:
            entry = listing.get(group, {})
            found = list(entry.get("hosts", []))
            for child in entry.get("children", []):
                found += members(child)
            return list(dict.fromkeys(found))

        groups = {name: tuple(members(name)) for name in listing if name != "_meta"}
        every = dict.fromkeys(h for hosts in groups.values() for h in hosts)
        return cls(hosts={h: hostvars.get(h, {}) for h in every}, groups=groups)
