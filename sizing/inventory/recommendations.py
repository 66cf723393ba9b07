"""What verification recommends to the plan: one mapping, ``recommended``, laid over the inventory.

Writers of recommendations know single values, and a vars file replaces whole variables. So the values stand
below ``recommended`` as they would in the inventory, and are laid over it value by value: mappings deeply,
lists of named things by these names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from evidence.nearest import nearest
from evidence.secrets import looks_secret
from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import entry_name, no_mapping, wrong_variable
from sizing.inventory.checks import ROLES

NAME: Final = "recommended"
#: Read with the other variables of its role, which are complained of as a whole.
_STORES: Final = "streams_app_stores"
#: What tells the entries of a list apart.
_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka_topics": ("name", "cluster"),
    "kafka_clients": ("name",),
    "kafka_partition_rates": ("cluster", "record_bytes", "codec", "acks"),
    _STORES: ("name",),
}
#: Mappings from names that the inventory gives.
_NAMED: Final = ("kafka_clusters", "mirror_maker_flows")
#: To the other lists and mappings a recommendation adds nothing: what it names is there, or misspelt.
_GROWING: Final = "kafka_partition_rates"
#: Variables of no role.
_SHARED: Final = tuple(dict.fromkeys(("kafka_clusters", *(n for n in _IDENTITY if n.startswith("kafka_")))))


@dataclass(frozen=True, slots=True)
class Change:
    """One value of the inventory that a recommendation replaces; ``before`` None: there was none."""

    variable: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """An inventory with its recommendations in it.

    Attributes:
        inventory: without ``recommended``.
        changes: what they change, each once however many hosts have the variable.
        wrong: what is wrong with them.
        names: full name of a variable -> what it is called below ``recommended``, of those that came from it.
    """

    inventory: Inventory
    changes: tuple[Change, ...] = ()
    wrong: tuple[Finding, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def named(self, finding: Finding) -> Finding:
        """Return a finding about a variable by the name that its person wrote."""
        where, colon, name = finding.where.rpartition(": ")
        steps = (name[:end] for end in range(len(name), 0, -1) if end == len(name) or name[end] in ".[")
        found = next((step for step in steps if step in self.names), None)
        if not colon or found is None:
            return finding
        theirs = self.names[found] + name[len(found) :]
        message = finding.message.replace(name, theirs, 1)
        fix = finding.fix.replace("did you mean ", f"did you mean {NAME}.")
        return replace(finding, where=f"{where}: {theirs}", message=message, fix=fix)


def with_recommended(inventory: Inventory) -> Accepted:
    """Lay ``recommended`` over the variables that it names, on the hosts that have their role."""
    value = inventory.common(NAME)
    if value is None:
        return Accepted(inventory)
    if not isinstance(value, Mapping):
        fix = "write a mapping, as recommendations.yml has it"
        return Accepted(without(inventory), wrong=(wrong_variable(NAME, "all", no_mapping(value), fix),))
    wrong = list(_unknown(value))
    overlay = _Overlay()
    unknown = {f.where for f in wrong}
    known = {k: v for k, v in value.items() if f"all: {NAME}.{k}" not in unknown}
    hosts: dict[str, Mapping[str, Any]] = {}
    for host, variables in inventory.hosts.items():
        mine = {k: v for k, v in known.items() if _belongs(inventory, host, k)}
        rest = {k: v for k, v in variables.items() if k != NAME}
        hosts[host] = overlay.mapping(rest, mine, "", NAME) if mine else rest
    wrong += overlay.strangers()
    return Accepted(
        replace(inventory, hosts=hosts), tuple(overlay.changes.values()), tuple(wrong), overlay.names
    )


def without(inventory: Inventory) -> Inventory:
    """Return an inventory as it is without its recommendations."""
    hosts = {host: {k: v for k, v in of.items() if k != NAME} for host, of in inventory.hosts.items()}
    return replace(inventory, hosts=hosts)


def laid_over(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several recommendations as one mapping; the later value of two for one thing wins."""
    overlay, found = _Overlay(adding=True), dict[str, Any]()
    for value in values:
        found = overlay.mapping(found, value, "", NAME)
    return found


def _unknown(value: Mapping[str, Any]) -> Iterator[Finding]:
    known = [*_SHARED, *(f"{role}_{name}" for role, model in ROLES.items() for name in model.model_fields)]
    for name in value:
        if name not in known:
            near = nearest(str(name), known)
            fix = f"did you mean {NAME}.{near}?" if near else "take it out"
            yield wrong_variable(f"{NAME}.{name}", "all", "is no variable that the plan reads", fix)


def _belongs(inventory: Inventory, host: str, variable: str) -> bool:
    role = next((r for r in ROLES if variable.startswith(f"{r}_")), None)
    return role is None or role == "host_tuning" or host in inventory.group(role)


class _Overlay:
    """Lays values over others, and remembers what that changed."""

    def __init__(self, *, adding: bool = False) -> None:
        self.changes: dict[str, Change] = {}
        self.names: dict[str, str] = {}
        self._adding = adding
        self._found: set[str] = set()
        self._absent: dict[str, tuple[str, list[str]]] = {}

    def mapping(self, have: Any, want: Mapping[str, Any], here: str, there: str) -> dict[str, Any]:
        """Return ``have`` with every value of ``want``; ``here`` and ``there`` are their full names."""
        found = dict(have) if isinstance(have, Mapping) else {}
        for key, value in want.items():
            name, theirs = f"{here}.{key}" if here else str(key), f"{there}.{key}"
            if here in _NAMED and not self._is_there(key in found, theirs, str(key), map(str, found)):
                continue
            found[key] = self._value(found.get(key), value, name, theirs)
        return found

    def strangers(self) -> Iterator[Finding]:
        """Complain of what no host has."""
        for theirs, (name, known) in self._absent.items():
            if theirs in self._found:
                continue
            near = nearest(name, known)
            fix = f"did you mean {near}?" if near else "add it to the inventory first, or take it out"
            yield wrong_variable(theirs, "all", f"is {name}, which the inventory does not have", fix)

    def _is_there(self, there: bool, theirs: str, name: str, known: Iterator[str]) -> bool:
        if there:
            self._found.add(theirs)
        elif not self._adding:
            self._absent.setdefault(theirs, (name, list(known)))
        return there or self._adding

    def _value(self, have: Any, want: Any, here: str, there: str) -> Any:
        if here in _IDENTITY and isinstance(want, list) and isinstance(have, list | None):
            return self._entries(have or [], want, here, there)
        if isinstance(want, Mapping) and isinstance(have, Mapping | None):
            self.names.setdefault(here, there)
            return self.mapping(have, want, here, there)
        self._changed(here, there, have, want)
        return want

    def _entries(self, have: list[Any], want: list[Any], here: str, there: str) -> list[Any]:
        """Lay entries over those of the same identity."""
        found = list(have)
        for number, entry in enumerate(want):
            theirs = f"{there}[{number}]"
            mine = _identity(here, entry)
            at = next((n for n, other in enumerate(found) if _identity(here, other) == mine), None)
            known = [_said(_identity(here, other)) for other in found]
            if here != _GROWING and not self._is_there(at is not None, theirs, _said(mine), iter(known)):
                continue
            if at is None:
                at = len(found)
                found.append(entry)
                self._changed(_place(here, found, at), theirs, None, _said(mine))
            else:
                found[at] = self._value(found[at], entry, _place(here, found, at), theirs)
        return found

    def _changed(self, here: str, there: str, before: Any, after: Any) -> None:
        self.names[here] = there
        if before != after:
            shown = None if before is None else _shown(here, before)
            self.changes.setdefault(here, Change(here, shown, _shown(here, after)))


def _place(variable: str, entries: list[Any], number: int) -> str:
    """Return the full name of an entry, as complaints about it have it."""
    return f"{variable}[{number if variable == _STORES else entry_name(entries, number)}]"


def _identity(variable: str, entry: Any) -> Any:
    """Return what tells an entry from others; of one that is no mapping, itself."""
    return [entry.get(k) for k in _IDENTITY[variable]] if isinstance(entry, Mapping) else entry


def _said(identity: Any) -> str:
    return " ".join(str(part) for part in identity) if isinstance(identity, list) else str(identity)


def _shown(name: str, value: Any) -> str:
    if looks_secret(name):
        return "***"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
