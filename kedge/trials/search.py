"""The search for the highest load that meets the service levels, for several conditions in one search.

As MLRsearch does (draft-ietf-bmwg-mlrsearch): short trials first, which only say where to look; full ones
last, which alone count; what one condition found is where the next begins. MLRsearch's own bounds say
nothing of how sure they are, and its package takes one measurer and a ratio of loss. So full trials are
added up as those of a psychometric curve (Kontsevich and Tyler 1999): a limit, and a spread, within which a
load now passes, now fails. Each load is tried where most is learnt, trials that contradict each other widen
the spread, and the answer has an interval. The search is a pure function of the trials so far, so an
interrupted one goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

#: Shares of a limit by which a load that passes and one that fails may lie apart, from nearly none to a
#: system that is never twice the same.
_SPREADS: Final = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
#: How likely each is before anything was tried: the wider, the less.
_PRIOR: Final = np.array([1, 1, 1, 1, 0.5, 0.25, 0.125])
#: A trial that says the contrary of what it should for a reason of its own.
_LAPSE: Final = 0.02
#: How likely a condition differs from trial to trial as the mildest does.
_ALIKE: Final = 0.7
#: Weight between the ends of an interval. Searches stop where theirs is narrow, which favours those that
#: are so by luck: with this, nine of ten hold it where the limit differs from trial to trial by up to 5
#: percent.
_SHARE: Final = 0.93
#: Points of the grid of limits, over the range that short trials left.
_POINTS: Final = 150
#: Loads that may be tried next, as quantiles of the limit.
_SHARES: Final = np.linspace(0.05, 0.95, 19)
#: A load carries where this share of trials is expected to pass: somewhat more than the nine of ten that are
#: said, for what a simulation leaves out.
_CARRIES: Final = 0.92

#: Passes at the answer, and fails above it, that a search asks for: one of each may be luck.
_TWICE: Final = 2

Kind = Literal["short", "full"]


@dataclass(frozen=True)
class Tried:
    """A trial that was run: its condition, load (records/s), kind, and whether it met the levels."""

    condition: str
    load: float
    kind: Kind
    passed: bool


@dataclass(frozen=True)
class Next:
    """A trial to run."""

    condition: str
    load: float
    kind: Kind


@dataclass(frozen=True)
class Rules:
    """How a search is led.

    Attributes:
        conditions: those that are asked for, the mildest first. A harsher one may carry more all the same:
            where hosts share a machine, one that is away leaves it to the others.
        apart: those among them after which processes would have to warm up anew: they come last.
        start: the load to begin with, records/s.
        ceiling: the highest load that generators are asked for.
        floor: below this nothing is looked for.
        coarse: how far apart short trials leave the limits, as a factor.
        width: the interval to come to, as a share of the limit.
        most_short: short trials of a condition at most.
        most_full: full ones.
    """

    conditions: tuple[str, ...]
    start: float
    ceiling: float
    floor: float
    width: float
    most_short: int
    most_full: int
    apart: tuple[str, ...] = ()
    coarse: float = 1.3


@dataclass(frozen=True)
class CapacityEstimate:
    """What is known of a condition.

    Attributes:
        carries: the highest load at which nine of ten trials are expected to pass; None where none passed.
        low: the least limit that the trials do not refute; with ``high``, in nine of ten searches.
        passed: the highest load that passed a full trial at or below ``carries``, or as near as ``width``.
        failed: the lowest load above it that failed one.
        at_least: no load failed up to the ceiling.
        closed: the interval is as narrow as was asked for, and both ends were tried.
        because: why not.
    """

    condition: str
    carries: float | None
    low: float | None
    high: float | None
    passed: float | None
    failed: float | None
    at_least: bool = False
    closed: bool = False
    because: str = ""


def next_trial(rules: Rules, tried: Sequence[Tried]) -> Next | None:
    """Return the trial to run next; None when nothing more is to be learnt.

    Conditions come through their short trials before the first full one, so that what is known of each is
    worth something whenever a person stops; those apart after all others.
    """
    for apart in (False, True):
        together = [condition for condition in rules.conditions if (condition in rules.apart) is apart]
        for condition in together:
            if load := _short(rules, condition, tried):
                return Next(condition, load, "short")
        for condition in together:
            if load := _full(rules, condition, tried):
                return Next(condition, load, "full")
    return None


def answers(rules: Rules, tried: Sequence[Tried]) -> list[CapacityEstimate]:
    """Return what the trials so far say of each condition."""
    return [_answer(rules, condition, tried) for condition in rules.conditions]


def most_trials(rules: Rules) -> tuple[int, int]:
    """Return how many short and how many full trials a search takes at most."""
    return rules.most_short * len(rules.conditions), rules.most_full * len(rules.conditions)


def _of(tried: Iterable[Tried], condition: str, kind: Kind | None = None) -> list[Tried]:
    return [one for one in tried if one.condition == condition and kind in (None, one.kind)]


def _bounds(tried: Iterable[Tried]) -> tuple[float | None, float | None]:
    """Return the highest load that passed below the lowest that failed, and that one."""
    mine = list(tried)
    high = min((one.load for one in mine if not one.passed), default=None)
    low = max((one.load for one in mine if one.passed and (high is None or one.load < high)), default=None)
    return low, high


def _milder(rules: Rules, condition: str) -> str | None:
    """Return the condition that carries at least as much, where there is one."""
    return None if condition == rules.conditions[0] else rules.conditions[0]


def _short(rules: Rules, condition: str, tried: Sequence[Tried]) -> float | None:
    """Return the load of the next short trial; None when the limits are near enough."""
    mine = _of(tried, condition, "short")
    low, high = _bounds(mine)
    if len(mine) >= rules.most_short:
        return None
    if not mine:
        milder = _milder(rules, condition)
        known = _bounds(_of(tried, milder, "short"))[0] if milder else None
        return _within(rules, known or rules.start)
    if high is None:
        assert low is not None
        return None if low >= rules.ceiling else _within(rules, 2 * low)
    if low is None:
        return None if high <= rules.floor else _within(rules, high / 2)
    return None if high / low <= rules.coarse else _rounded(math.sqrt(low * high))


def _full(rules: Rules, condition: str, tried: Sequence[Tried]) -> float | None:
    """Return the load of the next full trial; None when there is nothing more to learn, or no trial left."""
    mine = _of(tried, condition, "full")
    if not mine:
        low, high = _bounds(_of(tried, condition, "short"))
        return low or (rules.floor if high else rules.start)
    if len(mine) >= rules.most_full or _answer(rules, condition, tried).closed:
        return None
    curve = _curve(rules, condition, tried)
    # The more often the same was seen, the less short trials told: they met processes that had just begun.
    stride = rules.coarse ** (len(mine) / 2)
    if all(one.passed for one in mine):
        most = max(one.load for one in mine)
        further = max(most * stride, curve.quantile(0.5))
        return None if most >= rules.ceiling else _within(rules, further)
    if not any(one.passed for one in mine):
        least = min(one.load for one in mine)
        nearer = min(least / stride, curve.quantile(0.5))
        return None if least <= rules.floor else _within(rules, nearer)
    low, high, near = curve.quantile(1 - _upper()), curve.quantile(_upper()), 1 + rules.width
    if high / low > near:
        return _within(rules, curve.telling())
    # Narrow enough: what was not seen often enough at the ends.
    carries = curve.carries()
    passes = sum(one.passed and carries / near <= one.load <= curve.quantile(0.5) for one in mine)
    return _within(rules, carries if passes < _TWICE else high)


def _answer(rules: Rules, condition: str, tried: Sequence[Tried]) -> CapacityEstimate:
    full = _of(tried, condition, "full")
    if not full:
        return CapacityEstimate(condition, None, None, None, None, None, because="no full load test was run")
    if not any(one.passed for one in full):
        least = min(one.load for one in full)
        why = f"no load passed, down to {least:,.0f} records/s"
        return CapacityEstimate(condition, None, None, least, None, least, because=why)
    if all(one.passed for one in full):
        most = max(one.load for one in full)
        why = f"no load failed, up to {most:,.0f} records/s"
        return CapacityEstimate(condition, most, most, None, most, None, True, most >= rules.ceiling, why)
    curve = _curve(rules, condition, tried)
    low, high = curve.quantile(1 - _upper()), curve.quantile(_upper())
    carries, middle, near = curve.carries(), curve.quantile(0.5), 1 + rules.width
    passed = [one.load for one in full if one.passed and carries / near <= one.load <= middle]
    least = max(passed, default=carries)
    failed = [one.load for one in full if not one.passed and least < one.load <= high * near]
    because = ""
    if high / low > near:
        because = f"after {len(full)} full load tests the limit still lies between {low:,.0f} and {high:,.0f}"
    elif (most := max(one.load for one in full if one.passed)) > near * (
        under := min(one.load for one in full if not one.passed)
    ):
        because = f"load tests contradict each other: {most:,.0f} records/s passed, {under:,.0f} failed"
    elif len(passed) < _TWICE:
        because = f"{len(passed)} full load tests passed near {carries:,.0f} records/s, not {_TWICE}"
    elif len(failed) < _TWICE:
        because = f"{len(failed)} full load tests failed near {high:,.0f} records/s, not {_TWICE}"
    # Only what was seen is said to be carried.
    carries = min(carries, least)
    return CapacityEstimate(
        condition,
        carries,
        low,
        high,
        max(passed, default=None),
        min(failed, default=None),
        closed=not because,
        because=because,
    )


def _upper() -> float:
    return (1 + _SHARE) / 2


class _Curve:
    """What full trials say of limit and spread: a weight for each pair of them on a grid."""

    def __init__(self, low: float, high: float, full: Sequence[Tried], milder: _Curve | None) -> None:
        self._limits = np.linspace(math.log(low), math.log(high), _POINTS)
        prior = _PRIOR / _PRIOR.sum()
        if milder is not None:
            # The same machines: what one condition told of their noise holds for the next, most likely.
            prior = _ALIKE * milder.spreads + (1 - _ALIKE) * prior
        weights = np.log(np.broadcast_to(prior, (_POINTS, len(_SPREADS)))).copy()
        for one in full:
            weights += np.log(self._chance(one.load) if one.passed else 1 - self._chance(one.load))
        weights = np.exp(weights - weights.max())
        self._weights = weights / weights.sum()
        self._cumulated = np.cumsum(self._weights.sum(axis=1))
        #: The weight of each spread.
        self.spreads: _Floats = self._weights.sum(axis=0)

    def _chance(self, load: float) -> _Floats:
        """Return the chance to pass, for each limit and spread."""
        away = (self._limits[:, None] - math.log(load)) / _SPREADS[None, :]
        # The logistic curve: no library beside numpy has the normal one.
        steep = 1 / (1 + np.exp(-np.clip(1.702 * away, -60, 60)))
        return np.asarray(_LAPSE / 2 + (1 - _LAPSE) * steep)

    def quantile(self, share: float) -> float:
        """Return the limit below which this share of all weight lies."""
        at = int(np.searchsorted(self._cumulated, share))
        return math.exp(float(self._limits[min(at, _POINTS - 1)]))

    def telling(self) -> float:
        """Return the load of the trial that is expected to leave least unknown of the limit."""
        best, least = self.quantile(0.5), math.inf
        for share in _SHARES:
            load = self.quantile(share)
            passing = self._weights * self._chance(load)
            left = _entropy(passing.sum(axis=1)) + _entropy((self._weights - passing).sum(axis=1))
            if left < least:
                best, least = load, left
        return best

    def carries(self) -> float:
        """Return the highest load at which so many trials are expected to pass."""
        low, high = float(self._limits[0]) - 0.5, float(self._limits[-1])
        for _ in range(30):
            middle = (low + high) / 2
            if float((self._weights * self._chance(math.exp(middle))).sum()) >= _CARRIES:
                low = middle
            else:
                high = middle
        return math.exp(low)


def _entropy(weights: _Floats) -> float:
    """Return the entropy of a case, times how likely it is."""
    likely = float(weights.sum())
    shares = weights[weights > 0] / likely
    return -likely * float((shares * np.log(shares)).sum())


def _curve(rules: Rules, condition: str, tried: Sequence[Tried]) -> _Curve:
    """Return the curve of a condition: its limits lie in twice the range that all its trials left."""
    mine = _of(tried, condition)
    full = _of(tried, condition, "full")
    low, high = _bounds(_of(tried, condition, "short"))
    # Short trials are kinder or harder than full ones: they bound nothing by themselves.
    least = min([one.load for one in full] + ([low] if low else [])) / rules.coarse
    most = max([one.load for one in full] + ([high] if high else [])) * rules.coarse
    assert mine
    milder = _milder(rules, condition)
    before = _curve(rules, milder, tried) if milder and _of(tried, milder, "full") else None
    return _Curve(least, most, full, before)


def _within(rules: Rules, load: float) -> float:
    return _rounded(max(rules.floor, min(rules.ceiling, load)))


def _rounded(load: float) -> float:
    """Return three digits of a load: more tells nobody anything."""
    digits = 2 - math.floor(math.log10(load))
    return float(round(load, digits)) if digits > 0 else float(round(load / 10**-digits) * 10**-digits)
