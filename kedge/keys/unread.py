"""What is said of a key that nothing reads: which other one may be meant, and what becomes of it.

Environment variables of a REST proxy are in kedge/services/rest/environment.py.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kedge.evidence.nearest import nearest
from kedge.keys.catalogue import Component, every_key, known_keys
from kedge.plan.findings import Finding, Severity, Subject

#: Families of keys whose members a plugin or a listener names; nothing can be said about them.
_OPEN: Final = (
    "config.providers",
    "confluent.",
    "listener.name.",
    "metric.reporters.",
    "metrics.context.",
    "prometheus.metrics.reporter.",
    "sandbox.",
)

#: What components are called that nobody knows by the name of their catalogue.
_TITLES: Final[Mapping[Component, str]] = {"mm2": "MirrorMaker 2", "streams": "Kafka Streams"}
#: What most components do with a key that they do not know.
SILENT: Final = " and ignores it"


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys that a component with its version, ``name``, knows, and those of any version of it."""

    name: str
    known: frozenset[str]
    ever: frozenset[str]


def check_keys(
    component: Component,
    version: str,
    keys: Iterable[str],
    where: str,
    rule: str = "keys.unknown",
    severity: Severity = "warning",
    consequence: str = SILENT,
    variable: str = "",
    bare: Callable[[str], str] = str,
) -> list[Finding]:
    """Return a finding for each key that this version of a component does not read.

    ``severity`` and ``consequence`` are those of a key that no version knows. ``variable`` holds the keys, by
    default ``where``; ``bare`` returns one as the component has it.
    """
    known = known_keys(component, version)
    if not known:
        return []
    return unread(
        KnownKeys(f"{_TITLES.get(component, component)} {version}", known, every_key(component)),
        {key: bare(key) for key in keys},
        where,
        rule,
        severity,
        consequence,
        variable=variable or where,
    )


def unread(
    read: KnownKeys,
    keys: Mapping[str, str],
    where: str,
    rule: str,
    severity: Severity,
    consequence: str,
    otherwise: str = "",
    *,
    variable: str,
    there: Container[str] = (),
) -> list[Finding]:
    """Return a finding for each key that is not read; ``keys`` says how the component has each.

    Of keys that are ``there``, another client's of the same name is not meant.

    ``severity`` and ``consequence`` are those of a key that no version knows; ``otherwise`` is what can be
    done beside taking such a key out.
    """
    return [
        _finding(Subject(variable, (key,)), bare, read, where, rule, severity, consequence, otherwise, there)
        for key, bare in keys.items()
        if bare not in read.known and not is_open(bare)
    ]


def is_open(key: str) -> bool:
    """Return whether a key is of a family whose members a plugin names, so that nothing can be said of it."""
    return key.startswith(_OPEN)


#: How like another a key is that has more or fewer parts than that: else it is one of its own.
_ALIKE: Final = 0.9
#: How like another a part of a key is that was meant to be it.
_A_PART: Final = 0.4
#: Clients that a key is of whose name gives it no other meaning.
_CLIENTS: Final[tuple[Component, ...]] = ("consumer", "producer")


#: What the images of brokers call files in a folder of theirs, and what everything else calls them.
_BROKER_SUFFIXES: Final = {".filename": ".location", ".credentials": ".password"}


def _meant(key: str, known: frozenset[str]) -> str | None:
    """Return the key that is probably meant: a slip of the pen, which leaves a key its parts."""
    for theirs, other in _BROKER_SUFFIXES.items():
        if key.endswith(theirs) and (named := key.removesuffix(theirs) + other) in known:
            return named
    parts = key.split(".")
    longer = [one for one in known if one.count(".") == len(parts) and _lacks_one(parts, one.split("."))]
    turned = [one for one in known if sorted(one.split(".")) == sorted(parts)]
    near = next(iter(turned or longer), None) if len(turned or longer) == 1 else None
    near = near or nearest(key, sorted(one for one in known if _of_same_parts(parts, one.split("."))), 0.75)
    near = near or nearest(key, sorted(known), _ALIKE)
    # What newer versions call it is read by this one as well.
    newer = near.replace("blacklist", "exclude").replace("whitelist", "include") if near else None
    return newer if newer in known else near


def _lacks_one(parts: Sequence[str], of: Sequence[str]) -> bool:
    """Return whether a key is another one without one of its parts."""
    return any([*of[:at], *of[at + 1 :]] == parts for at in range(len(of)))


def _of_same_parts(parts: Sequence[str], of: Sequence[str]) -> bool:
    """Return whether a key has the parts of another: each like it, or all but one the same."""
    if len(parts) != len(of):
        return False
    differing = [pair for pair in zip(parts, of, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 or all(nearest(one, (other,), _A_PART) for one, other in differing)


def _finding(
    of: Subject,
    key: str,
    read: KnownKeys,
    where: str,
    rule: str,
    severity: Severity,
    consequence: str,
    otherwise: str,
    there: Container[str],
) -> Finding:
    own = of.keys[0]
    if key in read.ever:
        what = f"{read.name} does not read {own}, which other versions do"
        return Finding("warning", rule, where, what, f"take {own} out", of)
    theirs = next((one for one in _CLIENTS if key in every_key(one)), None)
    near = None if theirs else _meant(key, read.known)
    # Of another client, and set for that already: no slip of the pen.
    near = None if near and near in there and near.split(".")[-2:] == key.split(".")[-2:] else near
    near = f"{own.removesuffix(key)}{near}" if near else None
    what = f"{read.name} does not know {own}{consequence}"
    otherwise = f": it is a key of {theirs}s" if theirs else otherwise
    fix = f"did you mean {near}?" if near else f"take {own} out{otherwise}"
    return Finding(severity, rule, where, what, fix, replace(of, known=False, meant=near or ""))
