"""A rate that is exactly at its level meets it."""

from __future__ import annotations

import pytest

from spark_checks.checks import throughput


@pytest.mark.parametrize(
    ("mean", "offered", "problem", "doubt"),
    [(100, 100, False, False), (99, 100, True, False), (99, 99, False, True), (97, 99, True, False)],
)
def test_a_rate_below_its_level_fails_unless_no_more_was_offered(
    mean: int, offered: int, problem: bool, doubt: bool
) -> None:
    figures = {"mean_records_per_s": mean, "offered_records_per_s": offered, "records": 1}
    assert tuple(map(bool, throughput._against("kafka", 100.0, figures, 0))) == (problem, doubt)
