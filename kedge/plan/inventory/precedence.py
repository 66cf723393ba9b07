"""What Ansible does in silence with variables: it takes one of two groups' values, and passes over files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kedge.evidence.nearest import nearest
from kedge.plan.findings import Finding
from kedge.plan.inventory.yaml_files import inventories, variables_files

_SECTION: Final = re.compile(r"^\[", re.MULTILINE)
#: A playbook is a list; an inventory is a mapping.
_MAPPING: Final = re.compile(r"^[\w.-]+:", re.MULTILINE)
#: What inventories in files with these suffixes have.
_LOOKS: Final = {".yml": _MAPPING, ".yaml": _MAPPING, ".ini": _SECTION, "": _SECTION}

#: Suffixes of certificates, keys and their stores.
_KEYS: Final = (".pem", ".key", ".crt", ".cer", ".csr", ".srl", ".p12", ".jks", ".keytab")


def check_precedence(
    hostvars: Any, sources: Sequence[str], groups: Sequence[str], prefixes: tuple[str, ...]
) -> tuple[Finding, ...]:
    """Return what Ansible does with the variables of the inventory at ``sources`` and does not say.

    ``hostvars`` are Ansible's; of their variables those that begin with one of ``prefixes`` are looked at.
    ``groups`` are those of the services, which the inventory may have.
    """
    manager = hostvars._inventory
    return (
        *_strays(manager),
        *_strangers(manager, sources, groups),
        *_ambiguous(hostvars, sources, prefixes),
    )


def _strays(manager: Any) -> Iterator[Finding]:
    """Find hosts that are lines of a certificate or of another file that lies in an inventory's folder."""
    for host in manager.hosts.values():
        file = Path(str(host.vars.get("inventory_file", "")))
        if file.suffix in _KEYS:
            yield Finding(
                "warning",
                "inventory.files",
                host.name,
                f"{host.name} is a line of {file}, which is no inventory: plays of all hosts go to it",
                "move the file out of the inventory's folder, or have inventory.ignore_patterns of "
                "ansible.cfg name it, as that of Kedge does",
            )


def _strangers(manager: Any, sources: Sequence[str], groups: Sequence[str]) -> Iterator[Finding]:
    """Find files of variables of groups and hosts that the inventory does not have."""
    there = {"group_vars": ("group", manager.groups), "host_vars": ("host", manager.hosts)}
    files: dict[str, tuple[str, str]] = {}
    texts: set[str] = set()  # they may be no variables, such as a README
    for source in inventories(sources):
        folder = source if source.is_dir() else source.parent
        for file in () if _shared(source) else variables_files(source):
            kind, name, *inner = file.relative_to(folder).parts
            name = name if inner else name.removesuffix(file.suffix)
            if name not in there[kind][1]:
                files[f"{kind}/{name}"] = (kind, name)
                if not inner and not file.suffix:
                    texts.add(f"{kind}/{name}")
    for place, (kind, name) in files.items():
        what, known = there[kind]
        letters = re.sub(r"\d", "", name)
        # rest3 is no misspelt rest2, but a host that was taken out.
        names = {n for n in (*known, *groups) if re.sub(r"\d", "", n) != letters}
        near = nearest(name, names, 0.8)
        mend = f"did you mean {near}?"
        if kind == "group" and name in groups:
            mend = f"call the group {near} {name}, as its service is called"
        if not near and place in texts:
            continue
        yield Finding(
            "warning" if near else "note",
            "inventory.files",
            place,
            f"no {what} of the inventory is called {name}: nothing reads {place}",
            mend if near else f"add the {what}, or take the file out",
        )


def _shared(source: Path) -> bool:
    """Return whether other inventories may read the variables beside one: files beside it look like some."""
    beside = source.parent.iterdir() if source.is_file() else ()
    return any(
        _LOOKS[file.suffix].search(_beginning(file)) is not None
        for file in beside
        if file.suffix in _LOOKS and file.is_file() and not file.samefile(source)
    )


def _beginning(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(100_000)
    except OSError:  # what cannot be read is no inventory to whom it is so
        return ""


def _ambiguous(hostvars: Any, sources: Sequence[str], prefixes: tuple[str, ...]) -> tuple[Finding, ...]:
    """Return a warning for each variable of a host whose value follows from the names of its groups alone.

    Groups of one depth and one ``ansible_group_priority`` come in the order of their names, and the last one
    counts.
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
        beside = get_vars_from_inventory_sources(loader, list(sources), [host], "task")
        levels = [(f"group {g.name}", layers[g.name][layer]) for layer in (0, 1) for g in groups]
        hiding = list(_hiding([*levels, ("host", host.vars), ("host", beside)], prefixes))
        # It costs milliseconds a host, and few hosts need it.
        taken: Mapping[str, Any] = hostvars.raw_get(host.name) if doubtful or hiding else {}
        for name, first, last, value in doubtful:
            # else something that goes before groups says it
            if name in taken and _alike(taken[name], value) is True:
                found[host.name, name] = Finding(
                    "warning",
                    "inventory.groups",
                    f"{host.name}: {name}",
                    f"the groups {first} and {last} give {name} different values, and Ansible takes that of "
                    f"{last}, whose name comes last",
                    f"set it for the host (host_vars/{host.name}), in one of the groups alone, or give the "
                    "group that counts a higher ansible_group_priority beside its hosts",
                )
        for name, by, of, value, keys in hiding:
            if (host.name, name) not in found and _alike(taken[name], value) is True:
                found[host.name, name] = Finding(
                    "note",
                    "inventory.hidden",
                    f"{host.name}: {name}",
                    f"{name} of the {by} replaces that of the {of} as a whole: {', '.join(keys)} of it "
                    f"{'do' if len(keys) > 1 else 'does'} not count",
                    f"write {'them' if len(keys) > 1 else 'it'} there as well, if meant for this host too",
                )
    return tuple(found.values())


def _hiding(
    levels: Sequence[tuple[str, Mapping[str, Any]]], prefixes: tuple[str, ...]
) -> Iterator[tuple[str, str, str, Any, list[str]]]:
    """Yield each mapping that hides keys of another: its name, whose it is, the other's, its value, the keys.

    ``levels`` are variables with whose they are, in the order in which they count.
    """
    seen: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for whose, given in levels:
        for name, value in given.items():
            if name.startswith(prefixes):
                # A template may well hold the other's keys.
                seen.setdefault(name, []).append((whose, value if isinstance(value, Mapping) else {}))
    for name, (*hidden, (by, value)) in seen.items():
        for of, other in reversed(hidden):
            if of != by and value and (keys := [str(key) for key in other if key not in value]):
                yield name, by, of, value, keys
                break


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
            elif _alike(before[3], value) is False:
                other[name] = before[2]
            last[name] = (depth, priority, group, value)
    for name, group in other.items():
        yield name, group, *last[name][2:]


def _alike(one: Any, other: Any) -> bool | None:
    """Return whether two values are the same; None where a vault's password would have to say it."""
    from ansible.errors import AnsibleError

    try:
        return bool(one == other)
    except AnsibleError:
        return None
