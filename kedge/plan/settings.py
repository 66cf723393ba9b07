"""Settings with their reasons, and how a value is chosen: a person's own, the measured or the documented."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kedge.evidence.secrets import looks_secret
from kedge.plan.findings import WITH_INVENTORY, Finding, Reader, Severity, Subject

#: ``stock`` leaves out what only tunes a component: it runs with what it cannot start without, and its
#: defaults.
Advice = Literal["measured", "documented", "stock"]

#: What a value rests on. Of several parts the weakest one that decides the value names it: a sum of
#: measured parts with a margin that somebody chose is an estimate. Where a floor or a default decides, its
#: basis counts.
#:
#: documented: the source states the value, or the formula with every factor.
#: measured: a measurement settled it: a page of lab/measurements, or a run on the person's own cluster.
#: derived: it follows from the inventory, from other settings or from how Kedge lays out a host, by what the
#:     reason says; nobody had to choose a number.
#: estimate: the value, a factor or a margin is a judgement that no source states and no measurement settled.
#: yours: the inventory sets this key itself.
Basis = Literal["documented", "measured", "derived", "estimate", "yours"]

KIB = 1024

MIB = 1024 * KIB

#: Bytes in a Mbit, the unit of links.
MBIT = 1_000_000 / 8


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of one file, with the sum that led to its value.

    Attributes:
        file: absolute path on the node.
        key: the component's own key (a property, an environment variable, a sysctl, a unit directive).
        value: as it is rendered.
        rule: stable name of the rule, such as ``rest.heap.consumers``.
        because: the reason with its numbers filled in.
        source: document and section, or the measurement: what ``kedge.plan.sources`` leads to an address.
        basis: what the value rests on, see :data:`Basis`.
        secret: the value is a secret, or a reference to one.
        copied: the value is a file of the control machine; ``file`` holds what such files hold, in order.
    """

    file: str
    key: str
    value: str
    rule: str
    because: str
    source: str
    basis: Basis
    secret: bool = False
    copied: bool = False

    @property
    def by(self) -> Literal["plan", "person"]:
        """Who chose the value: the plan, or the person whose inventory names it."""
        return "person" if self.basis == "yours" else "plan"

    @property
    def hidden(self) -> bool:
        """Whether the value is never printed: a secret, or set under a key that is made for one."""
        return self.secret or looks_secret(self.key)


@dataclass(frozen=True, slots=True)
class Choice:
    """One form of an advice: the value it comes to here, why, where that is written, and what it rests on.

    ``value`` None means that this form leaves the key out.
    """

    value: str | int | float | None
    because: str
    source: str
    basis: Basis


class Sheet:
    """Collects the settings of one instance, and the findings that choosing them raises.

    A person's own value wins over both forms of the advice and is marked; ``measured`` wins over
    ``documented`` unless the inventory asks for the documents to the letter, and the deviation is a note.
    ``variable`` holds the person's own values.
    """

    def __init__(
        self,
        where: str,
        advice: Advice,
        own: Mapping[str, Any],
        variable: str = "",
        reader: Reader = WITH_INVENTORY,
    ) -> None:
        self.where = where
        self.advice = advice
        self.reader, self.either, self.name = reader, reader.either, reader.name
        self.variable = variable
        #: Keys whose values stand in another variable.
        self.held: dict[str, str] = {}
        self._own = {k: _text(v) for k, v in own.items()}
        self.settings: list[Setting] = []
        self.findings: list[Finding] = []

    def put(
        self, file: str, key: str, rule: str, documented: Choice | None, measured: Choice | None = None
    ) -> str | None:
        """Choose the value of a key, record it and return it; None when the key is left out."""
        chosen = (
            measured
            if measured is not None and (self.advice == "measured" or documented is None)
            else documented
        )
        if key in self._own:
            own = self._own.pop(key)
            planned = (
                f"; the plan would have said {_text(chosen.value)}: {chosen.because}"
                if chosen and chosen.value is not None
                else ""
            )
            self.settings.append(
                Setting(file, key, own, rule, f"set in the inventory{planned}", "the inventory", "yours")
            )
            return own
        if (default := self.reader.unset(key)) is not None:
            return default
        if chosen is None:
            return None
        if chosen is measured and documented is not None and documented.value != measured.value:
            here, there = apart(_shown(measured), _shown(documented))
            self.deviation(
                rule,
                f"{key} {here} {_since(measured)} ({measured.because}; {measured.source}), where "
                f"{documented.source} {there}",
                f"set advice: documented to follow the document, or {key} to a value of your own",
                key,
                file=file,
            )
        if chosen.value is None:
            return None
        text = _text(chosen.value)
        self.settings.append(Setting(file, key, text, rule, chosen.because, chosen.source, chosen.basis))
        return text

    def rest_of_own(self, file: str, rule: str, *, variables: bool = False) -> list[str]:
        """Take over the person's values that no rule has named; return their keys, for the key check.

        With ``variables`` only names of environment variables (JAVA_HOME) are taken; the others wait.
        """
        keys = [key for key in self._own if key.isupper() or not variables]
        for key in keys:
            self.settings.append(
                Setting(file, key, self._own.pop(key), rule, "set in the inventory", "the inventory", "yours")
            )
        return keys

    def by_file(self) -> tuple[Setting, ...]:
        """Return the settings, those of one file together, files in the order in which they were begun."""
        files: dict[str, list[Setting]] = {}
        for setting in self.settings:
            files.setdefault(setting.file, []).append(setting)
        return tuple(setting for of_file in files.values() for setting in of_file)

    def own(self, key: str) -> str | None:
        """Return the person's value of a key that no rule has named yet; None where there is none."""
        return self._own.get(key)

    def give(self, key: str, value: str) -> None:
        """Take a person's value of a key from another variable than the settings."""
        self._own[key] = value

    @property
    def inside(self) -> str:
        """Where a key of this sheet is to stand, to be read after it."""
        return self.either(f" in {self.variable}", "")

    @property
    def out(self) -> str:
        """Where a key of this sheet is to go from, to be read after it."""
        return self.either(f" out of {self.variable}", " out")

    def of(self, thing: str) -> str:
        """Return of what a key is, to be read after it: of his own files nobody has to be told."""
        return self.either(f" of {thing}", "")

    def error(self, rule: str, message: str, fix: str, *keys: str, **of: Any) -> None:
        """Add a finding that stops every playbook.

        It is about ``keys``, as :meth:`about` takes them.
        """
        self._add("error", rule, message, fix, self.about(*keys, **of))

    def warning(self, rule: str, message: str, fix: str, *keys: str, **of: Any) -> None:
        """Add a finding that a person should look at before deploying; about what, as of an error."""
        self._add("warning", rule, message, fix, self.about(*keys, **of))

    def note(self, rule: str, message: str, fix: str, *keys: str, **of: Any) -> None:
        """Add a finding that is good to know; about what, as of an error."""
        self._add("note", rule, message, fix, self.about(*keys, **of))

    def deviation(self, rule: str, message: str, fix: str, *keys: str, **of: Any) -> None:
        """Add a note that the plan leaves a document; who has files has no advice to set, and no plan."""
        if self.reader is WITH_INVENTORY:
            self.note(rule, message, fix, *keys, **of)

    def about(
        self, *keys: str, file: str = "", variable: str = "", value: str = "", named: Iterable[str] = ()
    ) -> Subject | None:
        """Return keys of this sheet, or a variable that holds none of them, as the subject of a finding.

        With ``value`` of the first of the keys there were no finding; ``named`` are others that it names.
        """
        if not keys:
            return Subject(variable) if variable else None
        file = file or next((s.file for key in keys for s in self.settings if s.key == key), "")
        return Subject(
            variable or self.held.get(keys[0], self.variable), keys, file, value=value, named=tuple(named)
        )

    def _add(self, severity: Severity, rule: str, message: str, fix: str, subject: Subject | None) -> None:
        self.findings.append(Finding(severity, rule, self.where, message, fix, subject))


def weakest(*bases: Basis) -> Basis:
    """Return the basis of a value that is put together of several parts."""
    order: tuple[Basis, ...] = ("estimate", "measured", "derived", "documented", "yours")
    return min(bases, key=order.index)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _shown(choice: Choice) -> str | None:
    return None if choice.value is None else _text(choice.value)


def _since(choice: Choice) -> str:
    return {"measured": "by measurement", "estimate": "by an estimate"}.get(
        choice.basis, "by what is known since"
    )


def apart(measured: str | None, documented: str | None) -> tuple[str, str]:
    """Say in what two forms of a value differ; of lists of flags, only the flags that are not in both."""
    if measured is None or documented is None:
        return (
            "is left out" if measured is None else f"is {measured}",
            "leaves it out" if documented is None else f"says {documented}",
        )
    here, there = measured.split(), documented.split()
    if len(here) < 3:
        return f"is {measured}", f"says {documented}"
    more = " ".join(word for word in here if word not in there)
    less = " ".join(word for word in there if word not in here)
    return (f"has {more}" if more else f"is without {less}", f"has {less}" if less else f"is without {more}")
