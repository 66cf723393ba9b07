"""Finds what a misspelt name is probably meant to be, so that a complaint can end in a proposal."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the known name that is most like ``name``, at least ``alike`` (0 to 1) of it; else None."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=alike)), None)
