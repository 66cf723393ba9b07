"""Variants that take turns at what a bench plays, in blocks there and back, as in compare.yml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kedge.trials.figures import collapsed, compare
from kedge.trials.table import as_json
from kedge.trials.variant_order import blocks_of, order_of
from verify.trials.warming import LevelRounds

#: Rounds of a warm-up at most.
_ROUNDS: Final = 10

#: What a turn of a variant measured: by check its figures, in the names that verdicts.json has.
Measured = Mapping[str, Mapping[str, Any]]


class TurnError(Exception):
    """A variant did not do the work; the text is one line."""


def steady(played: Callable[[], float]) -> None:
    """Play rounds, each with its rate, until they are level."""
    rounds = LevelRounds()
    for _ in range(_ROUNDS):
        rate = played()
        if rounds.last(1 / rate if rate else None):
            return


def take_turns(
    variants: Sequence[str], blocks: int, turn: Callable[[str], Measured], say: Callable[[str], None]
) -> dict[str, Any]:
    """Have variants take turns; return how each compares with the first, as comparison.json has it.

    A turn that raises TurnError collapsed.
    """
    order = order_of(variants, blocks)
    documents: dict[int, dict[str, Any]] = {}
    fell = dict.fromkeys(variants, 0)
    for place, (block, variant) in enumerate(order):
        say(f"turn {place + 1} of {len(order)}: {variant}, block {block + 1}")
        name = f"{place + 1:03d}-{variant}"
        try:
            checks = [
                {"name": check, "verdict": "measured", "measured": figures, "anomalies": {}}
                for check, figures in turn(variant).items()
            ]
            documents[place] = {"run_id": name, "verdict": "measured", "checks": checks}
        except TurnError as error:
            say(f"  collapsed: {error}")
            documents[place] = collapsed(name)
            fell[variant] += 1
    # Of variants that all collapsed always, none is worse.
    blocks_by_variant = {
        variant: blocks_of(variants[0], variant, order, documents) for variant in variants[1:]
    }
    found = compare(blocks_by_variant) if sum(fell.values()) < len(order) else {}
    return {
        "arms": list(variants),
        "blocks": blocks,
        "against": variants[0],
        "collapsed": fell,
        "figures": {variant: [as_json(one) for one in many] for variant, many in found.items()},
    }
