"""Reads planned values back, for rules that follow from others and for checks of a person's own."""

from __future__ import annotations

from typing import Final

from kedge.plan.settings import Sheet

#: The largest number that Java has, and that this kit computes with: a larger one is none that is meant.
LONG: Final = 2**63 - 1


def value_of(sheet: Sheet, key: str) -> str:
    """Return the value of a key that holds, empty when there is none."""
    unset = sheet.reader.unset(key) or ""
    return next((s.value for s in sheet.settings if s.key == key), unset)


def int_or_zero(value: object) -> int:
    """Return a value as a number, 0 when it is none."""
    return int_or_none(value) or 0


def int_or_none(value: object) -> int | None:
    """Return a whole number that a person wrote for a key; None where it is none, or beyond all bounds."""
    try:
        number = int(str(value)) if value is not None else None
    except ValueError:
        return None
    return number if number is None or abs(number) <= LONG else None
