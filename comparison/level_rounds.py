"""When processes that warm up are warm: their rounds of a load cost hardly less than the best before."""

from __future__ import annotations

import math


class LevelRounds:
    """Is told what each round cost, such as processor time a record; says whether that one is the last.

    One level round says little: on busy cores the compilers' threads wait for their turn.
    """

    def __init__(self, share: float = 0.95, in_a_row: int = 2) -> None:
        """Take a round for level that costs ``share`` of the best before or more; ``in_a_row`` are enough."""
        self._share, self._in_a_row = share, in_a_row
        self._best: float | None = None
        self._level = 0

    def last(self, cost: float | None) -> bool:
        """Count a round in. None is one of which nothing is known: level, unless it is the first."""
        cost = math.inf if cost is None else cost
        level = self._best is not None and cost >= self._share * self._best
        self._level = self._level + 1 if level else 0
        self._best = cost if self._best is None else min(self._best, cost)
        return self._level >= self._in_a_row
