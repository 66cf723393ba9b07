"""Finds what a misspelt name is probably meant to be, so that a complaint can end in a proposal."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the known name that is most like ``name``, at least ``alike`` (0 to 1) of it; else None."""
    return _nearest(name, tuple(known), alike)


# A plan is made several times of the same keys.
@lru_cache(maxsize=4_096)
def _nearest(name: str, known: tuple[str, ...], alike: float) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=alike)), None)


def one_slip(name: str, other: str) -> bool:
    """Return whether one letter more, less or another, or two that changed places, make the other name."""
    same = next((at for at, pair in enumerate(zip(name, other, strict=False)) if pair[0] != pair[1]),
                min(len(name), len(other)))  # fmt: skip
    here, there = name[same:], other[same:]
    swapped = here[:2] == there[1::-1] and here[2:] == there[2:]
    return swapped or here[1:] == there[1:] or here[1:] == there or here == there[1:]
