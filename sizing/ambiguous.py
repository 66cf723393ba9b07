"""Variables that two groups of a host give differently, of which Ansible takes one in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sizing.model import Finding


def ambiguous(hostvars: Any, sources: Sequence[str], prefixes: tuple[str, ...]) -> tuple[Finding, ...]:
    """Return a warning for each variable of a host whose value follows from the names of its groups alone.

    Groups of one depth and one ``ansible_group_priority`` come in the order of their names, and the last one
    counts. ``hostvars`` are Ansible's, over the inventory at ``sources``; of their variables those that begin
    with one of ``prefixes`` are looked at.
    """
    from ansible.inventory.helpers import sort_groups
    from ansible.vars.plugins import get_vars_from_inventory_sources

    manager, loader = hostvars._inventory, hostvars._loader  # Ansible has no other way to a host's groups
    layers: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for name, group in manager.groups.items():
        beside = get_vars_from_inventory_sources(loader, list(sources), [group], "task")
        layers[name] = tuple(
            {key: value for key, value in given.items() if key.startswith(prefixes)}
            for given in (group.vars, beside)
        )
    found: dict[tuple[str, str], Finding] = {}
    for host in manager.hosts.values():  # get_hosts would give those of the play
        groups = sort_groups(host.get_groups())
        # What stands in the inventory itself, then what stands in group_vars beside it.
        doubtful = [
            doubt
            for layer in (0, 1)
            for doubt in _differing([(g.depth, g.priority, g.name, layers[g.name][layer]) for g in groups])
        ]
        # It costs milliseconds a host, and few hosts need it.
        taken: Mapping[str, Any] = hostvars.raw_get(host.name) if doubtful else {}
        for name, first, last, value in doubtful:
            if name in taken and taken[name] == value:  # else something that goes before groups says it
                found[host.name, name] = Finding(
                    "warning",
                    "inventory.groups",
                    f"{host.name}: {name}",
                    f"the groups {first} and {last} give {name} different values, and Ansible takes that of "
                    f"{last}, whose name comes last",
                    f"set it for the host (host_vars/{host.name}), in one of the groups alone, or give the "
                    "group that counts a higher ansible_group_priority beside its hosts",
                )
    return tuple(found.values())


def _differing(levels: list[tuple[int, int, str, Mapping[str, Any]]]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield each variable that counts by its group's name, a group that is passed over, that one, its value.

    ``levels`` are depth, priority, name and variables of groups, in the order in which they count.
    """
    last: dict[str, tuple[int, int, str, Any]] = {}
    other: dict[str, str] = {}
    for depth, priority, group, given in levels:
        for name, value in given.items():
            before = last.get(name)
            if before is None or before[:2] != (depth, priority):
                other.pop(name, None)
            elif before[3] != value:
                other[name] = before[2]
            last[name] = (depth, priority, group, value)
    for name, group in other.items():
        yield name, group, *last[name][2:]
