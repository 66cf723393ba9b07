"""Values that a person wrote for a component's own keys: are those numbers that must be numbers?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sizing.complaints import wrong_variable
from sizing.model import Finding

#: Keys that end so take a whole number in every Kafka component, in bytes or milliseconds.
_WHOLE: Final = (".ms", ".bytes", ".threads", ".batch.size", ".pool.min", ".pool.max", ".capacity")
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
            f"write it in {'bytes' if key.endswith('.bytes') else 'milliseconds'}, without a unit"
            if key.endswith((".ms", ".bytes"))
            else "write a whole number",
        )
        for key, value in settings.items()
        if key.endswith(_WHOLE) and (isinstance(value, bool) or not is_whole(str(value)))
    ]
