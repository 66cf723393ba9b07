"""What is said of a key that nothing reads: which other one may be meant, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kedge.evidence.nearest import nearest
from kedge.keys.catalogue import Component, every_key, known_keys
from kedge.plan.findings import Finding, Severity

#: Families of keys whose members a plugin or a listener names; nothing can be said about them.
_OPEN: Final = ("confluent.", "listener.name.", "metric.reporters.", "metrics.context.", "sandbox.")

#: What most components do with a key that they do not know.
SILENT: Final = " and would pass over it in silence"


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys that ``subject``, a component with its version, knows, and those of any version of it."""

    subject: str
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
) -> list[Finding]:
    """Return a finding for each key that this version of a component does not read.

    ``severity`` and ``consequence`` are those of a key that no version knows.
    """
    known = known_keys(component, version)
    if not known:
        return []
    return unread(
        KnownKeys(f"{component} {version}", known, every_key(component)),
        keys,
        where,
        rule,
        severity,
        consequence,
    )


def unread(
    read: KnownKeys,
    keys: Iterable[str],
    where: str,
    rule: str,
    severity: Severity,
    consequence: str,
    otherwise: str = "",
) -> list[Finding]:
    """Return a finding for each key that is not read.

    ``severity`` and ``consequence`` are those of a key that no version knows; ``otherwise`` is what can be
    done beside taking such a key out.
    """
    return [
        _finding(key, read, where, rule, severity, consequence, otherwise)
        for key in keys
        if key not in read.known and not is_open(key)
    ]


def is_open(key: str) -> bool:
    """Return whether a key is of a family whose members a plugin names, so that nothing can be said of it."""
    return key.startswith(_OPEN)


def _finding(
    key: str, read: KnownKeys, where: str, rule: str, severity: Severity, consequence: str, otherwise: str
) -> Finding:
    if key in read.ever:
        return Finding(
            "warning",
            rule,
            where,
            f"{read.subject} does not read {key}, which other versions do",
            f"take {key} out",
        )
    near = nearest(key, sorted(read.known), 0.75)
    return Finding(
        severity,
        rule,
        where,
        f"{read.subject} does not know {key}{consequence}",
        f"did you mean {near}?" if near else f"take {key} out{otherwise}",
    )
