"""Values that a person wrote for a component's own keys: are those numbers that must be numbers?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sizing.complaints import wrong_variable
from sizing.model import Finding

#: Keys that end so take a whole number in every Kafka component, in bytes or milliseconds.
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
_LIKE: Final = 0.85
_NUMBER: Final = re.compile(r"-?\d+")


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number."""
    return _NUMBER.fullmatch(text) is not None


def check_numbers(variable: str, host: str, settings: Mapping[str, Any]) -> list[Finding]:
    """Return a complaint for each key of ``variable`` whose value is no whole number where one is needed."""
    return [
        wrong_variable(
            f"{variable}.{key}",
            host,
            f"is {value!r}, and {key} takes a whole number",
            _fix(key),
        )
        for key, value in settings.items()
        if key.endswith(_WHOLE) and (isinstance(value, bool) or not is_whole(str(value)))
    ]


def check_names(variable: str, host: str, environment: Mapping[str, Any]) -> list[Finding]:
    """Return a warning for each environment variable that is nearly called as one that a start reads."""
    found = []
    for name in environment:
        near = difflib.get_close_matches(name, _READ, n=1, cutoff=_LIKE)
        if name not in _READ and near:
            fix = f"did you mean {near[0]}?"
            finding = wrong_variable(f"{variable}.{name}", host, "is read by nothing of Kafka's", fix)
            found.append(replace(finding, severity="warning"))
    return found


def _fix(key: str) -> str:
    if key.endswith(".ms"):
        return "write it in milliseconds, without a unit"
    if key.endswith((".bytes", ".memory")):
        return "write it in bytes, without a unit"
    return "write a whole number, without a unit"
