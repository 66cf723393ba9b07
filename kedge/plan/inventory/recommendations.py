"""What verification recommends to the plan: one mapping, ``recommended``, laid over the inventory.

Writers of recommendations know single values, and a vars file replaces whole variables. So the values stand
below ``recommended`` as they would in the inventory, and are laid over it value by value: mappings deeply,
lists of named things by these names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel

from kedge.evidence.nearest import nearest
from kedge.evidence.secrets import looks_secret
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.service import Service, models
from kedge.plan.variable_messages import entry_name, no_mapping, renamed, wrong_variable

NAME: Final = "recommended"
#: What tells the entries of a list apart; those of a service's list are told apart by their names.
_IDENTITY: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka_topics": ("name", "cluster"),
    "kafka_clients": ("name",),
    "kafka_partition_rates": ("cluster", "record_bytes", "codec", "acks"),
}
#: A mapping from names that the inventory gives, as the mappings of a service's models are.
_CLUSTERS: Final = "kafka_clusters"
#: To the other lists and mappings a recommendation adds nothing: what it names is there, or misspelt.
_GROWING: Final = "kafka_partition_rates"
#: Variables of no role.
_SHARED: Final = (_CLUSTERS, *_IDENTITY)


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One value of the inventory that a recommendation replaces; ``before`` None: there was none."""

    variable: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class RecommendedInventory:
    """An inventory with its recommendations in it.

    Attributes:
        inventory: without ``recommended``.
        changes: what they change, each once however many hosts have the variable.
        findings: what is wrong with them.
        names: full name of a variable -> what it is called below ``recommended``, of those that came from it.
    """

    inventory: Inventory
    changes: tuple[ValueChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def as_written(self, finding: Finding) -> Finding:
        """Return a finding about a variable by the name that its person wrote."""
        of = finding.subject
        name = of.name if of else ""
        steps = (name[:end] for end in range(len(name), 0, -1) if end == len(name) or name[end] in ".[")
        found = next((step for step in steps if step in self.names), None)
        if of is None or found is None:
            return finding
        fix = f"did you mean {NAME}.{of.meant}?" if of.meant and not of.keys else finding.fix
        return replace(renamed(finding, self.names[found] + name[len(found) :]), fix=fix)


def with_recommendations(inventory: Inventory, services: Sequence[Service]) -> RecommendedInventory:
    """Lay ``recommended`` over the variables that it names, on the hosts that have their role."""
    value = inventory.common(NAME)
    if value is None:
        return RecommendedInventory(inventory)
    if not isinstance(value, Mapping):
        fix = "write a mapping, as recommendations.yml has it"
        no = wrong_variable(NAME, "all", no_mapping(value), fix)
        return RecommendedInventory(without(inventory), findings=(no,))
    wrong = list(_unknown(value, services))
    identity = {**_IDENTITY, **dict.fromkeys(_of_models(services, list), ("name",))}
    overlay = _Overlay(identity, (_CLUSTERS, *_of_models(services, dict)))
    unknown = {f.where for f in wrong}
    known = {k: v for k, v in value.items() if f"all: {NAME}.{k}" not in unknown}
    hosts: dict[str, Mapping[str, Any]] = {}
    for host, variables in inventory.hosts.items():
        mine = {k: v for k, v in known.items() if _belongs(inventory, host, k, services)}
        rest = {k: v for k, v in variables.items() if k != NAME}
        hosts[host] = overlay.mapping(rest, mine, "", NAME) if mine else rest
    wrong += overlay.strangers()
    return RecommendedInventory(
        replace(inventory, hosts=hosts), tuple(overlay.changes.values()), tuple(wrong), overlay.names
    )


def without(inventory: Inventory) -> Inventory:
    """Return an inventory as it is without its recommendations."""
    hosts = {host: {k: v for k, v in of.items() if k != NAME} for host, of in inventory.hosts.items()}
    return replace(inventory, hosts=hosts)


def laid_over(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several recommendations as one mapping; the later value of two for one thing wins."""
    overlay, found = _Overlay(_IDENTITY), dict[str, Any]()
    for value in values:
        found = overlay.mapping(found, value, "", NAME)
    return found


def _of_models(services: Iterable[Service], kind: type) -> Iterator[str]:
    """Yield the variables of services that are lists of named models, or mappings from names to models."""
    for service, model in models(services).items():
        for name, about in model.model_fields.items():
            if get_origin(about.annotation) is kind:
                held = get_args(about.annotation)[-1]
                described = isinstance(held, type) and issubclass(held, BaseModel)
                if described and (kind is dict or "name" in held.model_fields):
                    yield f"{service}_{name}"


def _unknown(value: Mapping[str, Any], services: Iterable[Service]) -> Iterator[Finding]:
    known = [*_SHARED, *(name for service in services for name in service.fields())]
    for name in value:
        if name not in known:
            near = nearest(str(name), known)
            fix = f"did you mean {NAME}.{near}?" if near else "take it out"
            yield wrong_variable(f"{NAME}.{name}", "all", "is no variable that the plan reads", fix)


def _belongs(inventory: Inventory, host: str, variable: str, services: Iterable[Service]) -> bool:
    of = next((s for s in services if s.variables and variable.startswith(f"{s.name}_")), None)
    return of is None or host in of.hosts(inventory)


class _Overlay:
    """Lays values over others, and remembers what that changed.

    ``identity`` says what tells the entries of a list apart, ``named`` which mappings are from names that the
    inventory gives; without it, every name may be added.
    """

    def __init__(self, identity: Mapping[str, tuple[str, ...]], named: Sequence[str] | None = None) -> None:
        self.changes: dict[str, ValueChange] = {}
        self.names: dict[str, str] = {}
        self._identity, self._named, self._adding = identity, named or (), named is None
        self._found: set[str] = set()
        self._absent: dict[str, tuple[str, list[str]]] = {}

    def mapping(self, have: Any, want: Mapping[str, Any], here: str, there: str) -> dict[str, Any]:
        """Return ``have`` with every value of ``want``; ``here`` and ``there`` are their full names."""
        found = dict(have) if isinstance(have, Mapping) else {}
        for key, value in want.items():
            name, theirs = f"{here}.{key}" if here else str(key), f"{there}.{key}"
            if here in self._named and not self._is_there(key in found, theirs, str(key), map(str, found)):
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
        if here in self._identity and isinstance(want, list) and isinstance(have, list | None):
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
            mine = self._own(here, entry)
            at = next((n for n, other in enumerate(found) if self._own(here, other) == mine), None)
            known = [_said(self._own(here, other)) for other in found]
            if here != _GROWING and not self._is_there(at is not None, theirs, _said(mine), iter(known)):
                continue
            if at is None:
                at = len(found)
                found.append(entry)
                self._changed(_place(here, found, at), theirs, None, _said(mine))
            else:
                found[at] = self._value(found[at], entry, _place(here, found, at), theirs)
        return found

    def _own(self, variable: str, entry: Any) -> Any:
        """Return what tells an entry from others; of one that is no mapping, itself."""
        return [entry.get(k) for k in self._identity[variable]] if isinstance(entry, Mapping) else entry

    def _changed(self, here: str, there: str, before: Any, after: Any) -> None:
        self.names[here] = there
        if before != after:
            shown = None if before is None else _shown(here, before)
            self.changes.setdefault(here, ValueChange(here, shown, _shown(here, after)))


def _place(variable: str, entries: list[Any], number: int) -> str:
    """Return the full name of an entry, as findings about it have it: those of a service say its place."""
    return f"{variable}[{entry_name(entries, number) if variable in _SHARED else number}]"


def _said(identity: Any) -> str:
    return " ".join(str(part) for part in identity) if isinstance(identity, list) else str(identity)


def _shown(name: str, value: Any) -> str:
    if looks_secret(name):
        return "***"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
