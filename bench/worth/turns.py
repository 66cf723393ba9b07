"""Variants that take turns at what a bench plays, in blocks there and back, as in compare.yml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from comparison.arms import blocks_of, order_of
from comparison.figures import collapsed, compare
from comparison.table import as_json

#: A round that brings no more than this beyond the one before it is steady; of so many at most.
_STEADY: Final = 1.05
_ROUNDS: Final = 8

#: What a turn of a variant measured: by check its figures, in the names that verdicts.json has.
Measured = Mapping[str, Mapping[str, Any]]


class TurnError(Exception):
    """A variant did not do the work; the text is one line."""


def steady(played: Callable[[], float]) -> None:
    """Play rounds, each with its rate, until one is hardly quicker than the one before, or a bound is met."""
    before = 0.0
    for _ in range(_ROUNDS):
        rate = played()
        if rate <= before * _STEADY:
            return
        before = rate


def take_turns(
    arms: Sequence[str], blocks: int, turn: Callable[[str], Measured], say: Callable[[str], None]
) -> dict[str, Any]:
    """Have variants take turns; return how each compares with the first, as comparison.json has it.

    A turn that raises TurnError collapsed.
    """
    order = order_of(arms, blocks)
    documents: dict[int, dict[str, Any]] = {}
    fell = dict.fromkeys(arms, 0)
    for place, (block, arm) in enumerate(order):
        say(f"turn {place + 1} of {len(order)}: {arm}, block {block + 1}")
        name = f"{place + 1:03d}-{arm}"
        try:
            checks = [
                {"name": check, "verdict": "measured", "measured": figures, "anomalies": {}}
                for check, figures in turn(arm).items()
            ]
            documents[place] = {"run_id": name, "verdict": "measured", "checks": checks}
        except TurnError as error:
            say(f"  collapsed: {error}")
            documents[place] = collapsed(name)
            fell[arm] += 1
    # Of variants that all collapsed always, none is worse.
    blocks_by_arm = {arm: blocks_of(arms[0], arm, order, documents) for arm in arms[1:]}
    found = compare(blocks_by_arm) if sum(fell.values()) < len(order) else {}
    return {
        "arms": list(arms),
        "blocks": blocks,
        "against": arms[0],
        "collapsed": fell,
        "figures": {arm: [as_json(one) for one in many] for arm, many in found.items()},
    }
