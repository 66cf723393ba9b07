"""The permutation test on values whose true difference is known: hundreds of seeds each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from kedge.trials.permutation import PairedSamples, corrected, difference, enough

SEEDS = 200
#: Of a share p in SEEDS trials, no more than this is chance: 3.3 standard errors.
SLACK = 3.3 * math.sqrt(0.05 * 0.95 / SEEDS)

Draw = Callable[[np.random.Generator, int], np.ndarray]
SHAPES: dict[str, Draw] = {
    "even": lambda random, size: random.normal(0, 1, size),
    "skewed": lambda random, size: random.lognormal(3, 0.3, size),
    "heavy": lambda random, size: random.standard_t(2, size),
    "few values": lambda random, size: random.integers(0, 3, size).astype(float),
}


def blocks(
    random: np.random.Generator, draw: Draw, count: int = 4, times: float = 1, plus: float = 0
) -> list[PairedSamples]:
    """ABBA: two values of both sides in a block, and a level of its own for each block."""
    return [(draw(random, 2), draw(random, 2) * times + plus) for _ in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_alike_sides_are_called_different_no_more_often_than_stated(shape: str) -> None:
    random = np.random.default_rng(7)
    alarms = sum(difference(blocks(random, SHAPES[shape])).chance <= 0.05 for _ in range(SEEDS))
    assert alarms / SEEDS <= 0.05 + SLACK


def test_blocks_that_lie_apart_are_no_alarm() -> None:
    """A machine that gets slower from block to block says nothing about the sides."""
    random = np.random.default_rng(11)
    alarms = 0
    for _ in range(SEEDS):
        found = [(random.normal(level, 1, 2), random.normal(level, 1, 2)) for level in (100, 130, 170, 90)]
        alarms += difference(found).chance <= 0.05
    assert alarms / SEEDS <= 0.05 + SLACK


@pytest.mark.parametrize(
    ("shape", "times", "plus"), [("even", 1, 0.7), ("heavy", 1, 2.0), ("skewed", 1.3, 0)]
)
def test_the_interval_holds_the_truth_as_often_as_it_claims(shape: str, times: float, plus: float) -> None:
    random = np.random.default_rng(3)
    held = 0
    for _ in range(SEEDS):
        one = difference(blocks(random, SHAPES[shape], times=times, plus=plus))
        held += one.low <= (times - 1 if one.relative else plus) <= one.high
    assert held / SEEDS >= 0.95 - SLACK


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "count", "power"), [(0.03, 4, 0.9), (0.05, 6, 0.9)])
def test_a_tenth_more_of_p99_is_seen_among_eight_figures_that_are_alike(
    noise: float, count: int, power: float
) -> None:
    # With so many, the standard error of a power is 0.015.
    random, trials = np.random.default_rng(5), 2 * SEEDS
    seen = 0
    for _ in range(trials):
        p99 = difference(blocks(random, lambda r, size: r.lognormal(3, noise, size), count, times=1.1))
        others = [difference(blocks(random, SHAPES["even"], count)).chance for _ in range(7)]
        seen += corrected([p99.chance, *others])[0] <= 0.05
    assert seen / trials >= power


def test_the_chance_that_any_of_eight_figures_is_a_false_alarm_is_the_stated_one() -> None:
    random = np.random.default_rng(9)
    alarms = 0
    for _ in range(SEEDS):
        chances = [difference(blocks(random, SHAPES["skewed"])).chance for _ in range(8)]
        alarms += min(corrected(chances)) <= 0.05
    assert alarms / SEEDS <= 0.05 + SLACK


def test_many_orders_are_drawn_and_say_the_same_each_time() -> None:
    random = np.random.default_rng(2)
    many = [(random.normal(10, 1, 6), random.normal(13, 1, 6)) for _ in range(3)]
    one = difference(many)
    assert one.chance < 0.001
    assert one == difference(many)


def test_a_difference_is_a_share_where_all_values_are_above_zero() -> None:
    one = difference([([10.0, 10.0], [12.0, 12.0])] * 4)
    assert one.relative
    assert one.by == pytest.approx(0.2)
    assert not difference([([0.0, 1.0], [2.0, 3.0])]).relative


def test_too_few_repetitions_say_nothing() -> None:
    one = difference([([1.0], [5.0])])
    assert (one.low, one.high, one.chance) == (-math.inf, math.inf, 1.0)
    assert not enough([(2, 2)], 1)
    assert enough([(2, 2)] * 4, 8)
    assert not enough([(2, 2)] * 3, 8)


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    assert corrected([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
