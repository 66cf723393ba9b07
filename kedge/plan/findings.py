"""What a person should know before a host is touched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from kedge.plan.compact_names import compact, natural

Severity = Literal["error", "warning", "note"]


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names for keys, each of which stands in it by itself."""
    if not names:
        return text
    keys = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w./>-])({keys})(?![\w/-]|\.\w)", lambda key: names[key[1]], text)


class Reader:
    """Whoever reads a plan, and what he calls things; this one has the inventory."""

    def reach(self, port: str) -> str:
        """Return who connects to a port that the process opens at all its addresses."""
        return "everybody who reaches the host"

    def name(self, variable: str) -> str:
        """Return what a variable of the inventory is called."""
        return variable

    def either(self, inventory: str, files: str) -> str:
        """Return the words for who has the inventory, or those for who has the component's own files."""
        return inventory

    def known(self, variable: str) -> bool:
        """Return whether a variable has a value that somebody gave; without one nothing is blamed on it."""
        return True

    def unset(self, key: str) -> str | None:
        """Return what holds of a key that nobody sets; None where the plan sets it."""
        return None


#: Who reads a plan, unless somebody else is said to.
WITH_INVENTORY: Final = Reader()


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about: a variable of the inventory, or keys of a component's file.

    Attributes:
        variable: its full name; with ``keys``, the one that holds them, or would.
        keys: the component's own, the one to change first.
        file: the file of these keys on a node; empty where none was planned.
        host: the host, or group, whose variable it is; empty where ``where`` alone says it.
        known: whether any version of the component has the key, here or elsewhere; of a variable, whether
            anything reads it.
        meant: of a key or variable that is not known, the one that is probably meant.
        value: of the first of ``keys``, one with which there were no finding; empty where none is known.
        named: other keys that the texts name.
    """

    variable: str = ""
    keys: tuple[str, ...] = ()
    file: str = ""
    host: str = ""
    known: bool = True
    meant: str = ""
    value: str = ""
    named: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The full name of the variable, with the key in it where it is one."""
        return ".".join([self.variable, *self.keys][:2]) if self.variable else self.keys[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know before a host is touched; an error stops every playbook."""

    severity: Severity
    rule: str
    where: str
    message: str
    fix: str
    """What to do about it, as an instruction; empty where a note only informs."""
    subject: Subject | None = None
    """None where it is about several things, or about none that a person writes."""
    what: str = ""
    """Of a variable, what is wrong with it, to be read after its name; empty for any other subject."""
    consequence: bool = False
    """Whether other variables may be why: it is missing, or at odds with another."""

    @property
    def unread(self) -> bool:
        """Whether it is about a variable that nothing reads."""
        return self.subject is not None and not (self.subject.keys or self.subject.known)

    def rewritten(self, change: Callable[[str], str]) -> Finding:
        """Return the finding with each of its texts changed, such as to one without secrets."""
        of = self.subject
        subject = of and replace(
            of,
            variable=change(of.variable),
            keys=tuple(map(change, of.keys)),
            file=change(of.file),
            host=change(of.host),
            meant=change(of.meant),
            named=tuple(map(change, of.named)),
        )
        where, message, fix, what = map(change, (self.where, self.message, self.fix, self.what))
        return replace(self, where=where, message=message, fix=fix, subject=subject, what=what)

    def line(self) -> str:
        """Return the finding as one line: where, what, and the fix where there is one."""
        stop = "" if self.fix.endswith("?") else "."
        fix = f" Fix: {self.fix}{stop}" if self.fix else ""
        return f"{self.where}: {self.message}.{fix}"


#: Rules of what a producer loses or reorders.
_AT_WORK: Final = frozenset(
    {"clients.acks", "mirror.producer.acks", "mirror.producer.order", "mirror.producer.retries",
     "rest.clients.acks", "streams.acks"}
)  # fmt: skip


def of_what_starts(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without those of records that a producer loses which refuses to start."""
    found = list(findings)
    refusing = [f.subject for f in found if (f.severity, f.rule) == ("error", "clients.idempotence")]
    refused = {of.name for of in refusing if of and of.keys}
    return [f for f in found if not (f.rule in _AT_WORK and f.subject and f.subject.name in refused)]


def together(findings: Iterable[Finding]) -> list[Finding]:
    """Say once what holds in many places, and name the places."""
    alike: dict[tuple[Severity, str, str, str], list[Finding]] = {}
    for f in findings:
        alike.setdefault((f.severity, f.rule, f.message, f.fix), []).append(f)
    return [
        replace(found[0], where=_all(f.where for f in found), subject=_joint(found))
        for found in alike.values()
    ]


def _joint(alike: list[Finding]) -> Subject | None:
    subjects = [f.subject for f in alike if f.subject]
    return replace(subjects[0], host=_all(s.host for s in subjects)) if subjects else None


def _all(places: Iterable[str]) -> str:
    once = set(places)
    return compact(sorted(once, key=natural)) if len(once) > 1 else once.pop()
