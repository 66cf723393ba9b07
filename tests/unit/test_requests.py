"""The order that REST promises, on rows small enough to compare each with each."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark_checks.delivery.requests import disordered

Row = tuple[int, int, int | None, int, str | None]


def table(rows: list[Row]) -> pa.Table:
    named = [
        {"topic": "t", "partition": 0, "producer": 1, "via": "rest"}
        | dict(zip(("seq", "offset", "sent_us", "acked_us", "instance"), row, strict=True))
        for row in rows
    ]
    numbers = [(name, pa.int64()) for name in ("seq", "offset", "sent_us", "acked_us")]
    keys = [("topic", pa.string()), ("partition", pa.int32()), ("producer", pa.int32()), ("via", pa.string())]
    return pa.Table.from_pylist(named, pa.schema([*keys, *numbers, ("instance", pa.string())]))


def told(rows: list[Row]) -> dict[int, int]:
    """Return the offset of each record that is out of order with that of the one it should precede."""
    return {row["offset"]: row["after_offset"] for row in disordered(table(rows)).to_pylist()}


def by_each(rows: list[Row]) -> set[int]:
    wrong = set()
    for seq, offset, sent, _, instance in rows:
        for other_seq, other_offset, other_sent, acked, other_instance in rows:
            together = (sent, instance) == (other_sent, other_instance)
            before = together and other_offset < offset and other_seq > seq
            between = [
                o for _, o, s, _, i in rows if (s, i) == (sent, instance) and other_offset < o < offset
            ]
            answered = sent is not None and acked < sent and other_offset > offset
            if (before and not between) or answered:
                wrong.add(offset)
    return wrong


def test_requests_in_flight_at_once_may_swap() -> None:
    assert told([(0, 1, 0, 5, "h"), (1, 0, 1, 6, "h")]) == {}


def test_a_request_after_the_answer_to_another_lies_behind_it() -> None:
    assert told([(0, 1, 0, 1, "h"), (1, 0, 2, 3, "h")]) == {0: 1}


def test_what_is_sent_in_the_moment_of_an_answer_is_not_sent_after_it() -> None:
    assert told([(0, 1, 0, 2, "h"), (1, 0, 2, 3, "h")]) == {}


def test_the_records_of_one_request_keep_their_order() -> None:
    assert told([(0, 1, 0, 5, None), (1, 0, 0, 5, None)]) == {1: 0}


@pytest.mark.parametrize("seed", range(50))
def test_exactly_the_records_are_told_that_comparing_each_with_each_finds(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 40)
    offsets = rng.sample(range(100), count)
    rows: list[Row] = []
    for seq in range(count):
        sent = rng.choice([None, *range(8)])
        acked = rng.randrange(8) if sent is None else sent + rng.randrange(1, 4)
        rows.append((seq, offsets[seq], sent, acked, rng.choice([None, "a", "b"])))
    assert set(told(rows)) == by_each(rows)
