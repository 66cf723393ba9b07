"""Arms that take turns: in which order, and what of it was measured close to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comparison.figures import Blocks


def order_of(arms: Sequence[str], blocks: int) -> list[tuple[int, str]]:
    """Return (block, arm) in order of time: there and back in each block, the next block the other way round.

    What gets slowly better or worse meanwhile meets all arms alike.
    """
    there, back = [*arms, *reversed(arms)], [*reversed(arms), *arms]
    return [(block, arm) for block in range(blocks) for arm in (back if block % 2 else there)]


def blocks_of(
    base: str, arm: str, order: Sequence[tuple[int, str]], documents: Mapping[int, Mapping[str, Any]]
) -> Blocks:
    """Return what was measured of two arms, block by block; ``documents`` are by their place in the order."""
    sides: dict[int, tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]] = {}
    for place, (block, of) in enumerate(order):
        if place in documents and of in (base, arm):
            sides.setdefault(block, ([], []))[of == arm].append(documents[place])
    return [both for both in sides.values() if all(both)]
