"""The audit reports exactly the faults that were put into good evidence: alone, mixed, and after real decoding.

``python -m tests.faults`` does the same with a thousand mixtures.
"""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from spark_checks.results import Anomaly, Result
from tests.faults.audited import Mixture, Outcome, audited, judged, made
from tests.faults.inject import FAULTS, expected

pytestmark = [pytest.mark.slow, pytest.mark.long]


def some_mixtures(count: int) -> list[Mixture]:
    rng = random.Random(7)
    names = sorted(FAULTS)
    return [
        Mixture(
            tuple(rng.choices(names, k=rng.randint(2, 8))), rng.getrandbits(32), rng.choice(["kafka", "rest"])
        )
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def outcome(spark: SparkSession) -> Outcome:
    alone = [Mixture((name,), 1, via) for name in FAULTS for via in ("kafka", "rest")]
    return audited(spark, [Mixture((), 1), *alone, *some_mixtures(40)])


@pytest.mark.spark
def test_no_more_and_no_less_than_was_put_in_is_reported(outcome: Outcome) -> None:
    assert outcome.differences == ()


@pytest.mark.spark
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_was_put_in(outcome: Outcome, fault: str) -> None:
    assert outcome.injected[fault] >= 5


def test_a_check_that_misses_one_and_invents_one_is_caught() -> None:
    mixtures = [Mixture(("record_dropped",), 3)]
    cases = made(mixtures)
    ((_, where),) = expected(cases[0])
    wrong = Anomaly(1, (dict(where) | {"offset": 1},))
    missed, invented = judged(
        cases, mixtures, [Result("delivery", "fail", "", anomalies={"lost": wrong})]
    ).differences
    assert missed.startswith("not reported: lost {'producer': 0, 'seq': ")
    assert invented.startswith("reported: lost {")
    assert "'offset': 1}" in invented


def test_the_same_mixture_is_the_same_case_again() -> None:
    mixture = some_mixtures(1)
    assert [expected(case) for case in made(mixture)] == [expected(case) for case in made(mixture)]
