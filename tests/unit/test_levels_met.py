"""A figure that is exactly at its level meets it; a window has its first second, and not the one after its last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kedge.evidence.levels import Levels
from spark_checks.checks import throughput, zombies


@pytest.mark.parametrize(
    ("held_s", "level", "verdict"),
    [(7.0, 7.0, "pass"), (7.0, 6.9, "fail"), (None, 0.0, "pass"), (7.0, None, "measured")],
)
def test_a_member_may_hold_partitions_as_long_as_the_level_says(
    held_s: float | None, level: float | None, verdict: str
) -> None:
    row: Any = {"group": "g", "consumer": "c", "partitions": ["t-0"], "from_us": 0, "records": 1}
    rows = [] if held_s is None else [row | {"held_us": held_s * 1e6}]
    about: Any = SimpleNamespace(groups={"g": SimpleNamespace(via="kafka")}, started_us=0)
    levels = Levels.model_validate({"zombies": {"held_s": level}})
    assert zombies._result(rows, len(rows), ["g"], about, levels).verdict == verdict


@pytest.mark.parametrize(
    ("mean", "offered", "problems", "doubts"),
    [(100, 100, 0, 0), (99, 100, 1, 0), (99, 99, 0, 1), (97, 99, 1, 0)],
)
def test_a_rate_below_its_level_fails_unless_no_more_was_offered(
    mean: int, offered: int, problems: int, doubts: int
) -> None:
    figures = {"mean_records_per_s": mean, "offered_records_per_s": offered, "records": 1}
    found = throughput._against("kafka", 100.0, figures, 0)
    assert tuple(map(len, found)) == (problems, doubts)
