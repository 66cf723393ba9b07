"""Rows folded where they lie say the same as rows looked at one by one, however they are cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence.tables import arrow_schema
from spark_checks.delivery import order
from spark_checks.delivery.order import WHOLE, stretches
from spark_checks.engine.folds import BATCH, BLOCK_BITS, Scope, fold, read
from spark_checks.engine.one_pass import Folded

Row = dict[str, Any]
SCOPE = Scope(frozenset({("leaf", "t")}), frozenset({"g"}), {("t", 1): 3})


def batch(table: str, rows: list[Row]) -> tuple[str, Any]:
    columns = {f.name: [row.get(f.name) for row in rows] for f in arrow_schema(table)}
    schema = pa.schema([pa.field(f.name, f.type) for f in arrow_schema(table)])
    return table, pa.Table.from_pydict(columns, schema)


def acked(seq: int, **changes: Any) -> Row:
    row = {"producer": 1, "seq": seq, "topic": "t", "partition": seq % 2, "offset": seq, "crc": 7 + seq}
    return row | {"outcome": "acked", "via": "kafka"} | changes


def held(seq: int, **changes: Any) -> Row:
    row = {key: value for key, value in acked(seq).items() if key not in ("outcome", "via")}
    return row | {"cluster": "leaf", "crc_ok": True, "key_ok": True} | changes


def got(seq: int, **changes: Any) -> Row:
    row = {"group": "g", "consumer": "c", "topic": "t", "partition": seq % 2, "offset": seq, "seq": seq}
    return row | {"producer": 1, "received_us": seq} | changes


def folded(table: str, rows: list[Row]) -> Folded:
    return Folded(fold([batch(table, rows)], SCOPE, {}))


SEQS = range(5, 15)
CHANGES: dict[str, Row] = {
    "sequence number": {"seq": 900},
    "offset": {"offset": 900},
    "partition": {"partition": 3},
    "checksum": {"crc": 1},
    "another producer": {"producer": 2},
}


def test_both_sides_of_a_hop_have_the_same_sums_in_any_order_and_any_batches() -> None:
    (ledger,) = folded("ledger", [acked(n) for n in SEQS]).rows("sent")
    backwards = [batch("records", [held(n)]) for n in reversed(SEQS)]
    parts = Folded(fold(backwards, SCOPE, {}))
    (records,) = parts.rows("held")
    assert [ledger[key] for key in ("rows", "one", "two")] == [10, records["one"], records["two"]]
    assert (ledger["first_seq"], ledger["last_seq"]) == (5, 14)
    wanted = {row["partition"]: (row["rows"], row["one"], row["two"]) for row in parts.rows("places")}
    given = folded("deliveries", [got(n) for n in SEQS]).rows("given")
    assert {row["partition"]: (row["rows"], row["one"], row["two"]) for row in given} == wanted


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_record_that_is_another_changes_both_sums(change: Row) -> None:
    def whole(rows: list[Row]) -> tuple[int, int]:
        found = folded("records", rows).rows("held")
        return sum(row["one"] for row in found) % (1 << 64), sum(row["two"] for row in found) % (1 << 64)

    rows = [held(n) for n in SEQS]
    one, two = whole(rows)
    other = whole([held(7) | change if row["seq"] == 7 else row for row in rows])
    assert other[0] != one
    assert other[1] != two


def test_two_records_that_changed_places_change_both_sums() -> None:
    (right,) = folded("records", [held(6), held(8)]).rows("held")
    (wrong,) = folded("records", [held(6, offset=8), held(8, offset=6)]).rows("held")
    assert right["one"] != wrong["one"]
    assert right["two"] != wrong["two"]


def test_what_does_not_count_is_told_apart() -> None:
    unsure = acked(2, outcome="unknown", partition=None, offset=None)
    rows = {row["outcome"]: row for row in folded("ledger", [acked(1), acked(3), unsure]).rows("sent")}
    assert rows["acked"]["rows"] == 2
    assert rows["acked"]["expired"] == 1
    assert rows["unknown"]["rows"] == 1
    (alone,) = folded("ledger", [acked(3)]).rows("sent")
    assert rows["acked"]["one"] == alone["one"]
    foreign = {"producer": None, "seq": None, "crc": None, "crc_ok": None}
    some = [held(1), held(2, key_ok=False), held(3, crc_ok=False), held(4, topic="copy"), held(5) | foreign]
    parts = folded("records", some)
    found = {(row["producer"], row["crc_ok"], row["key_ok"]): row["rows"] for row in parts.rows("held")}
    assert found == {(1, True, True): 1, (1, True, False): 1, (1, False, True): 1, (None, None, True): 1}
    assert sum(row["rows"] for row in parts.rows("places")) == 3
    others = [got(1), got(1, group="h"), got(1) | {"producer": None, "seq": None}]
    assert [row["rows"] for row in folded("deliveries", others).rows("given")] == [1]


def test_files_are_folded_as_rows_are_whether_or_not_optional_columns_are_there(tmp_path: Path) -> None:
    rows = [held(n, key_ok=None) for n in range(3 * BATCH // 2)]
    _, whole = batch("records", rows)
    pq.write_table(whole.drop_columns(["key_ok"]), tmp_path / "one.parquet", row_group_size=5_000)
    columns = {"records": arrow_schema("records").remove_metadata()}
    found = fold(read([("records", str(tmp_path / "one.parquet"), None)], columns), SCOPE, {})
    assert Folded(found).rows("held") == Folded(fold([("records", whole)], SCOPE, {})).rows("held")
    some = fold(read([("records", str(tmp_path / "one.parquet"), [0])], columns), SCOPE, {})
    assert sum(Folded(some).parts["held"]["rows"].to_pylist()) == 5_000
    assert {row["block"] for row in Folded(found).rows("held")} == {0, (3 * BATCH // 2 - 1) >> BLOCK_BITS}


def test_a_consumer_that_went_back_is_told_with_both_places() -> None:
    rows = [got(0), got(2), got(4), got(2, received_us=7), got(4, received_us=8)]
    parts = folded("deliveries", rows)
    assert [(row["from_offset"], row["offset"], row["at_us"]) for row in parts.rows("rewinds")] == [(4, 2, 7)]
    (poll,) = parts.rows("polls")
    assert (poll["from_us"], poll["to_us"], poll["first_offset"], poll["last_offset"]) == (0, 8, 0, 4)


def log(rng: random.Random, records: int) -> list[int]:
    """Sequence numbers by offset: in order but for some that changed places, near or far."""
    seqs = list(range(records))
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        one, two = rng.randrange(records), rng.randrange(records)
        seqs[one], seqs[two] = seqs[two], seqs[one]
    return seqs


def cut(rng: random.Random, rows: list[Row]) -> Iterator[tuple[str, Any]]:
    at = 0
    while at < len(rows):
        size = rng.randrange(1, 40)
        yield batch("records", rows[at : at + size])
        at += size


@pytest.mark.parametrize("seed", range(60))
def test_every_pair_out_of_order_lies_in_a_stretch_whatever_is_left_out(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    around = rng.choice([2, 5, 20])
    monkeypatch.setattr("spark_checks.engine.folds.AROUND", around)
    monkeypatch.setattr(order, "AROUND", around)
    seqs = log(rng, rng.randrange(2, 200))
    left_out = set(
        rng.sample(range(len(seqs)), min(len(seqs) - 1, rng.choice([0, 0, 1, around, 3 * around])))
    )
    rows = [held(seq, partition=0, offset=offset) for offset, seq in enumerate(seqs)]
    parts = Folded(fold(cut(rng, rows), SCOPE, {}))
    found = stretches(parts, len(left_out), set()).get(("t", 0, 1), [])

    def inversions(offsets: list[int]) -> set[tuple[int, int]]:
        kept = [offset for offset in offsets if offset not in left_out]
        return {(one, two) for one, two in pairwise(kept) if seqs[one] > seqs[two]}

    looked_at = [n for n in range(len(seqs)) if any(begin <= n <= end for begin, end in found)]
    assert inversions(looked_at) == inversions(list(range(len(seqs))))
    if seqs == sorted(seqs):
        assert found == []


def test_where_much_falls_or_rows_lie_unsorted_the_whole_is_looked_at() -> None:
    key = ("t", 0, 1)
    unsorted = folded("records", [held(n, partition=0, offset=9 - n) for n in range(9)])
    assert stretches(unsorted, 0, set()) == {key: [WHOLE]}
    swapped = folded("records", [held(seq, partition=0, offset=n) for n, seq in enumerate((1, 0, 2, 3))])
    assert stretches(swapped, 0, set()) == {key: [(0, 3)]}
    assert stretches(swapped, 0, {1}) == {key: [WHOLE]}
    assert stretches(swapped, 5_000, set()) == {key: [WHOLE]}
