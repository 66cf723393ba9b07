"""Whether a component accepts the values that a person wrote for its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

from kedge.evidence.nearest import nearest
from kedge.plan.findings import Finding
from kedge.plan.variable_messages import wrong_variable

#: Keys that end so take a whole number in every component, also those that the catalogue does not have.
_WHOLE: Final = (
    ".ms",
    ".bytes",
    ".threads",
    ".size",
    ".memory",
    ".records",
    ".pool.min",
    ".pool.max",
    ".capacity",
)
#: What the commands of mirrors and Streams applications read.
_READ: Final = (
    "JMX_PORT",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_OPTS",
    "LD_PRELOAD",
    "LOG_DIR",
    "MIRROR_ABORT_ON_SEND_FAILURE",
    "MIRROR_INCLUDE",
    "MIRROR_NUM_STREAMS",
    "MIRROR_OFFSET_COMMIT_INTERVAL_MS",
)
#: Of a form that stands for many values, one of them.
_ONE_OF: Final = {"by_duration:[Pp]*": "by_duration:PT1H", "*:[0-9]*": "HOST:PORT"}
_LIKE: Final = 0.85
#: What a component gets from elsewhere when it starts, by its config.providers.
_INDIRECT: Final = re.compile(r"\$\{[^{}:]+:[^{}]*\}")
_NUMBER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number."""
    return _NUMBER.fullmatch(text) is not None


def check_values(
    variable: str, host: str, settings: Mapping[str, Any], takes: Mapping[str, str]
) -> list[Finding]:
    """Return a finding for each key of ``variable`` with whose value the component would refuse to start.

    ``takes`` says what keys take, as the catalogue of ``kedge.keys.catalogue`` writes it.
    """
    found = []
    for key, value in settings.items():
        form = takes.get(key) or ("# -inf inf" if key.endswith(_WHOLE) else "")
        wrong = _wrong(key, "true" if value is True else "false" if value is False else str(value), form)
        if wrong:
            what, fix = wrong
            found.append(wrong_variable(variable, host, f"is {value!r}, and {key} {what}", fix, key))
    return found


def _wrong(key: str, value: str, form: str) -> tuple[str, str] | None:
    """Return what a key takes and how to mend the value; None where the component takes it."""
    value = value.strip()  # as every component does
    if _INDIRECT.search(value):
        return None
    sign, _, rest = form.partition(" ")
    if sign in ("#", "%"):
        return _wrong_number(key, value, sign, *rest.split())
    if sign not in ("=", "~", "+"):
        return None
    known = rest.split()
    alike = {one.lower(): one for one in known}
    parts = [part.strip() for part in value.split(",") if part.strip()] if sign == "+" else [value]
    wrong = [
        part
        for part in parts
        if not (part.lower() in alike if sign == "~" else any(fnmatchcase(part, one) for one in known))
    ]
    if not wrong:
        return None
    near = nearest(wrong[0].lower(), [one for one in alike if "*" not in one])
    names = ", ".join(_ONE_OF.get(one, one) for one in known)
    return (
        f"takes {'some' if sign == '+' else 'one'} of {names}",
        f"did you mean {alike[near]}?" if near else f"write one of {names}",
    )


def _wrong_number(key: str, value: str, sign: str, low: str, high: str) -> tuple[str, str] | None:
    if not (is_whole(value) if sign == "#" else _DECIMAL.fullmatch(value)):
        return ("takes a whole number", _fix(key)) if sign == "#" else ("takes a number", "write a number")
    # Text to float would round the largest whole numbers.
    number = int(value) if sign == "#" else float(value)
    if number < _bound(low):
        return f"takes {low} or more", f"write {low} or more"
    return (f"takes {high} or less", f"write {high} or less") if number > _bound(high) else None


def _bound(text: str) -> float | int:
    return int(text) if is_whole(text) else float(text)


def check_names(variable: str, host: str, environment: Mapping[str, Any]) -> list[Finding]:
    """Return a warning for each environment variable that is nearly called as one that a start reads."""
    found = []
    for name in environment:
        near = nearest(name, _READ, _LIKE)
        if name not in _READ and near:
            fix = f"did you mean {near}?"
            finding = wrong_variable(variable, host, "is read by nothing of Kafka's", fix, name)
            found.append(replace(finding, severity="warning"))
    return found


def _fix(key: str) -> str:
    if key.endswith(".ms"):
        return "write it in milliseconds, without a unit"
    if key.endswith((".bytes", ".memory")):
        return "write it in bytes, without a unit"
    return "write a whole number, without a unit"
