"""Variants that take turns: in which order, and what of it was measured close to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kedge.trials.figures import Blocks


def order_of(variants: Sequence[str], blocks: int) -> list[tuple[int, str]]:
    """Return (block, variant) in order of time: there and back in each block, the next the other way.

    What gets slowly better or worse meanwhile meets all variants alike.
    """
    there, back = [*variants, *reversed(variants)], [*reversed(variants), *variants]
    return [(block, variant) for block in range(blocks) for variant in (back if block % 2 else there)]


def blocks_of(
    base: str, variant: str, order: Sequence[tuple[int, str]], documents: Mapping[int, Mapping[str, Any]]
) -> Blocks:
    """Return what was measured of two variants, by block; ``documents`` are by their place in the order."""
    sides: dict[int, tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]] = {}
    for place, (block, of) in enumerate(order):
        if place in documents and of in (base, variant):
            sides.setdefault(block, ([], []))[of == variant].append(documents[place])
    return [both for both in sides.values() if all(both)]
