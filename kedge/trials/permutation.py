"""The statistics of every comparison: whether one side differs from the other, by how much, how sure that is.

The test is a permutation test within blocks: what a block measured could as well have come in any other
order, were both sides alike. It assumes no shape, and its chance of a false alarm is exact (Fisher 1935;
Pitman 1937). The interval holds all differences that the same test does not refute. The statistic is the
difference of the sides' means within a block, summed over the blocks. Where every value is above zero it is
taken of logarithms, so that a difference is a share and one bad second does not rule. Holm's correction
(1979) keeps the chance that any of several figures is a false alarm at the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from kedge.trials.thresholds import FALSE_ALARM

#: A block: what both sides measured close to each other in time.
PairedSamples = tuple[Sequence[float], Sequence[float]]

#: So many orders are looked at one by one; of more, as many are drawn.
_ORDERS: Final = 20_000
#: Sums of the same values in another order differ by rounding.
_TIE: Final = 1e-9

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How far the second side is from the first.

    Attributes:
        by: the difference; a share of the first side where ``relative``, else in the figure's own unit.
        low: the least difference that the values do not refute, at 1 - ``level``; minus infinity where the
            repetitions are too few to say.
        high: the same, the largest.
        chance: of a difference as large as this or larger were both sides alike.
    """

    by: float
    low: float
    high: float
    chance: float
    relative: bool


def difference(blocks: Sequence[PairedSamples], level: float = FALSE_ALARM) -> Difference:
    """Return how the second side of blocks differs from the first.

    Args:
        blocks: of each, the values of both sides; at least one of either.
        level: one less the share of intervals that hold the true difference.

    Raises:
        ValueError: when a block lacks a side.
    """
    if not blocks or any(len(one) == 0 or len(two) == 0 for one, two in blocks):
        raise ValueError("every block needs values of both sides")
    values = [value for one, two in blocks for value in (*one, *two)]
    relative = bool(min(values) > 0)
    taken = [_pooled(one, two, relative=relative) for one, two in blocks]
    sums, shares = _orders(taken)
    # The order that was seen comes first.
    seen, whole = sums[0], shares[0]
    tie = _TIE * (1 + float(np.abs(sums).max()))
    above = float(np.count_nonzero(sums >= seen - tie)) / len(sums)
    below = float(np.count_nonzero(sums <= seen + tie)) / len(sums)
    low, high = _interval(sums, shares, level)
    by = seen / whole
    if relative:
        by, low, high = (math.expm1(each) if math.isfinite(each) else each for each in (by, low, high))
    return Difference(by, low, high, min(1.0, 2 * min(above, below)), relative)


def corrected(chances: Sequence[float]) -> list[float]:
    """Return Holm's corrected chances, in the same order: each is held against the level of all together."""
    order = sorted(range(len(chances)), key=lambda number: chances[number])
    found, worst = [0.0] * len(chances), 0.0
    for rank, number in enumerate(order):
        worst = max(worst, min(1.0, (len(chances) - rank) * chances[number]))
        found[number] = worst
    return found


def enough(sides: Sequence[tuple[int, int]], figures: int, level: float = FALSE_ALARM) -> bool:
    """Tell whether so many values of both sides in each block can show a difference of one of the figures."""
    orders = math.prod(math.comb(one + two, two) for one, two in sides)
    return 2 / orders <= level / max(figures, 1)


def _pooled(one: Sequence[float], two: Sequence[float], *, relative: bool) -> tuple[_Floats, int]:
    values = np.array([*one, *two], dtype=np.float64)
    return (np.log(values) if relative else values), len(two)


def _orders(blocks: Sequence[tuple[_Floats, int]]) -> tuple[_Floats, _Floats]:
    """Return of each order the statistic, and what a shift of the second side by one adds to it.

    The first is the order that was seen.
    """
    choices = []
    for values, of_second in blocks:
        size = len(values)
        # The second side as it was seen is the last of all choices; it goes first.
        picked = [set(chosen) for chosen in combinations(range(size), of_second)][::-1]
        weights = np.array(
            [[1 / of_second if n in p else -1 / (size - of_second) for n in range(size)] for p in picked]
        )
        second = np.array([n >= size - of_second for n in range(size)], dtype=np.float64)
        choices.append((weights @ values, weights @ second))
    if math.prod(len(sums) for sums, _ in choices) <= _ORDERS:
        sums, shares = np.zeros(1), np.zeros(1)
        for more, share in choices:
            sums = (sums[:, None] + more[None, :]).ravel()
            shares = (shares[:, None] + share[None, :]).ravel()
        return sums, shares
    # The same seed each time: a comparison that is computed again says the same.
    drawn = np.random.default_rng(1)
    sums, shares = np.zeros(_ORDERS), np.zeros(_ORDERS)
    for more, share in choices:
        at = drawn.integers(0, len(more), _ORDERS)
        at[0] = 0
        sums += more[at]
        shares += share[at]
    return sums, shares


def _interval(sums: _Floats, shares: _Floats, level: float) -> tuple[float, float]:
    """Return the shifts of the second side that neither one-sided test refutes.

    Shifted by d, an order reaches the one that was seen where d is at least (seen - sum) / (whole - share).
    """
    room = shares[0] - shares
    other = room > _TIE
    ends = np.sort((sums[0] - sums[other]) / room[other])
    # Orders that are the one that was seen reach it always.
    always = len(sums) - len(ends)
    out = math.floor(level / 2 * len(sums)) - always
    if out < 0:
        return -math.inf, math.inf
    if out >= len(ends):
        return float(ends[-1]), float(ends[0])
    return float(ends[out]), float(ends[len(ends) - 1 - out])
