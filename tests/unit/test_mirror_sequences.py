"""A partition's sequence of records is one number, however it is cut, and any other sequence has another one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from evidence.tables import arrow_schema
from spark_checks.mirror.sequences import Topic, put_together, stretches

Row = dict[str, Any]
SOURCE, TARGET = ("leaf", "t"), ("agg", "leaf.t")


def record(number: int, place: tuple[str, str] = SOURCE, **changes: Any) -> Row:
    content = {"key_hash": None, "value_hash": number, "headers_hash": 7, "timestamp_us": number, "bytes": 1}
    where = {"cluster": place[0], "topic": place[1], "partition": number % 3, "offset": number}
    return {**where, **content, "timestamp_type": "create", "producer": 0, "crc_ok": True} | changes


def seen(rows: list[Row], cuts: int = 0) -> Topic:
    rng = random.Random(cuts)
    marks = sorted(rng.sample(range(1, len(rows)), cuts))
    parts = [rows[begin:end] for begin, end in zip([0, *marks], [*marks, len(rows)], strict=True)]
    rng.shuffle(parts)
    tables = [pa.Table.from_pylist(part, arrow_schema("records")) for part in parts]
    (found,) = put_together(stretches(tables, frozenset({SOURCE, TARGET}))).values()
    return found


COPIES = [record(n, TARGET, offset=n + 50) for n in range(30)]


@pytest.mark.parametrize("cuts", [0, 1, 5, 20])
def test_a_true_copy_has_the_same_sequences_however_both_are_cut(cuts: int) -> None:
    source, target = seen([record(n) for n in range(30)], cuts), seen(COPIES, cuts // 2)
    assert source.same_as(target, stamped=True)
    assert (source.rows, sum(one.by_content for one in source.partitions)) == (30, 0)


def test_partitions_may_have_other_numbers() -> None:
    moved = [row | {"partition": (row["partition"] + 1) % 3} for row in COPIES]
    assert seen([record(n) for n in range(30)]).same_as(seen(moved), stamped=True)


CHANGES: dict[str, Callable[[list[Row]], list[Row]]] = {
    "dropped": lambda rows: rows[:7] + rows[8:],
    "twice": lambda rows: [*rows, rows[7] | {"offset": 99}],
    "swapped": lambda rows: [
        row | {"offset": {60: 63, 63: 60}.get(row["offset"], row["offset"])} for row in rows
    ],
    "in another partition": lambda rows: [
        row | {"partition": 0} if row["offset"] == 61 else row for row in rows
    ],
    "another key": lambda rows: [row | {"key_hash": 1} if row["offset"] == 62 else row for row in rows],
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_other_sequence_is_the_same(change: str) -> None:
    rows = sorted(CHANGES[change](COPIES), key=lambda row: row["offset"])
    assert not seen([record(n) for n in range(30)]).same_as(seen(rows), stamped=True)


def test_timestamps_count_unless_the_target_gives_its_own() -> None:
    target = seen([row | {"timestamp_us": 5, "timestamp_type": "append"} for row in COPIES])
    source = seen([record(n) for n in range(30)])
    assert not source.same_as(target, stamped=True)
    assert source.same_as(target, stamped=False)
    assert sum(one.append for one in target.partitions) == 30


def test_stretches_that_overlap_show_nothing() -> None:
    twice = seen([record(n) for n in (0, 6, 3, 9)])
    assert not twice.in_order
    assert not twice.same_as(twice, stamped=True)
