"""Latencies without what came again: told from counts alone, or not told."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_checks.checks.latency import less

#: Microseconds are counted in steps of this.
STEP = 10


def counted(rows: list[tuple[int, int]]) -> pa.Table:
    """(producer, us) as the fold counts them."""
    found: dict[tuple[int, int], list[int]] = {}
    for producer, us in rows:
        one = found.setdefault((producer, -(-us // STEP) * STEP), [0, 0])
        one[0], one[1] = one[0] + 1, max(one[1], us)
    columns: dict[str, Any] = {"producer": [key[0] for key in found], "us": [key[1] for key in found]}
    columns |= {"records": [one[0] for one in found.values()], "most": [one[1] for one in found.values()]}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def told(table: pa.Table) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    rows = table.to_pylist()
    producers = {row["producer"] for row in rows}
    return (
        {(row["producer"], row["us"]): row["records"] for row in rows},
        {who: max(row["most"] for row in rows if row["producer"] == who) for who in producers},
    )


def test_counts_and_the_longest_are_those_of_a_count_without_what_came_again() -> None:
    known = 0
    for seed in range(300):
        rng = random.Random(seed)
        rows = [(rng.randrange(2), rng.randrange(60)) for _ in range(rng.randrange(1, 30))]
        near = [one for one in rows if rng.random() < 0.5]
        again = [one for one in near if rng.random() < 0.4]
        once, stay = list(near), list(rows)
        for one in again:
            once.remove(one)
            stay.remove(one)
        found = less(counted(rows), counted(near), counted(once))
        if found is not None:
            known += 1
            assert told(found) == told(counted(stay)), seed
    assert known > 200


@pytest.mark.parametrize("other", [57, 58])
def test_a_longest_that_may_have_come_again_is_not_told(other: int) -> None:
    rows = counted([(0, 5), (0, other), (0, 59)])
    assert less(rows, counted([(0, 59)]), counted([])) is None
    kept = less(rows, counted([(0, other)]), counted([]))
    assert kept is not None
    assert np.max(kept["most"].to_numpy()) == 59
