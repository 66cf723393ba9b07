"""What tasks sum up by Arrow adds up to what the rows say, from files and from rows, nulls included."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from spark_checks.engine import aggregates
from spark_checks.engine.aggregates import ONE, Aggregate, added_up, mixed, rounded, second
from spark_checks.engine.folds import fold, read

SCHEMA = pa.schema(
    [("who", pa.string()), ("at_us", pa.int64()), ("place", pa.int32()), ("late", pa.string())]
)
ROWS = [
    {"who": who, "at_us": at, "place": place}
    for who, at, place in (("a", 1_000_000, 1), ("a", 1_999_999, 2), ("b", 2_000_000, 3), ("a", 999_999, 4))
]
HOW = Aggregate(
    "made",
    ("who", "at_us", "place", "late"),
    pc.field("place") > 1,
    {"who": pc.field("who"), "late": pc.field("late"), "second": second("at_us", 1_000_000)},
    {"records": (ONE, "sum"), "last": (pc.field("place"), "max")},
)
COLUMNS = {"made": SCHEMA}


def summed(tables: Any) -> dict[tuple[Any, ...], tuple[int, int]]:
    (found,) = fold(tables, None, {"one": pickle.loads(pickle.dumps(HOW))}).values()
    return {
        (row["who"], row["late"], row["second"]): (row["records"], row["last"]) for row in found.to_pylist()
    }


def test_files_and_rows_add_up_to_the_same(tmp_path: Path) -> None:
    """A column that a file lacks is null, and a second before the begin is a negative one."""
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    for number, name in enumerate(("one", "two")):
        part = table.slice(2 * number, 2).drop_columns(["late"])
        pq.write_table(part, tmp_path / f"{name}.parquet")
    expected = {("a", None, 0): (1, 2), ("b", None, 1): (1, 3), ("a", None, -1): (1, 4)}
    units = [("made", str(tmp_path / f"{name}.parquet"), None) for name in ("one", "two")]
    assert [rows.num_rows for _, rows in read(units, COLUMNS)] == [4], "small files are looked at together"
    assert summed(read(units, COLUMNS)) == expected
    assert summed(("made", table.slice(n, 1)) for n in range(4)) == expected


def test_sums_of_many_keys_are_sent_by_what_they_hold() -> None:
    """Workers send what they sum up: chunks that share buffers would each be pickled with all of them."""
    rows = 300_000
    nothing = pa.nulls(rows, pa.string())
    table = pa.table(
        [nothing, pa.array(range(0, rows * 1_000_000, 1_000_000)), nothing, nothing], SCHEMA.names
    )
    every = Aggregate("made", HOW.columns, None, {"second": second("at_us", 0)}, {"records": (ONE, "sum")})
    (found,) = fold([("made", table)], None, {"one": every}).values()
    assert found.num_rows == rows
    assert len(pickle.dumps(found)) < 1.1 * found.nbytes


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"CANNOT_READ_FILE .*cut\.parquet"):
        list(read([("made", str(tmp_path / "cut.parquet"), None)], COLUMNS))


def computed(expression: Any, **columns: list[int]) -> list[int]:
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    found: list[int] = ds.dataset(table).scanner(columns={"x": expression}).to_table()["x"].to_pylist()
    return found


def test_hashes_tell_pairs_apart_and_can_be_added_up() -> None:
    pairs = [(one, two) for one in range(40) for two in range(40)]
    hashes = computed(mixed("one", "two"), one=[one for one, _ in pairs], two=[two for _, two in pairs])
    assert len(set(hashes)) == len(pairs)
    assert 0 <= min(hashes) <= max(hashes) < 1 << 40


def test_latencies_are_rounded_up_to_three_digits() -> None:
    took = [-5, 0, 999, 1000, 1001, 9999, 10001, 123456, 12345678, 123456789]
    rounded_up = [-5, 0, 999, 1000, 1010, 10000, 10100, 124000, 12400000, 123500000]
    assert rounded(np.array(took)).tolist() == rounded_up
    assert rounded(np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize(("most", "regrouped"), [(1 << 24, 2), (1, 8)])
def test_what_one_part_alone_holds_is_added_up_as_if_all_were_grouped(
    most: int, regrouped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nulls and values that several parts hold are put together; of the rest no row is lost."""
    how = Aggregate("made", (), None, HOW.keys, HOW.values, along=("who", "second"))
    parts = [
        pa.table({"who": ["a", "b"], "late": [None, None], "second": pa.array(some, pa.int32()),
                  "records": [1, 1], "last": [number, number]})
        for number, some in enumerate(([-3, 0], [0, 1], [None, 7], [None, None]))
    ]  # fmt: skip
    monkeypatch.setattr(aggregates, "_MOST_VALUES", most)
    rows = ("who", "late", "second")
    apart, grouped = (
        sorted(added_up(parts, one).to_pylist(), key=str)
        for one in (how, Aggregate("made", (), None, HOW.keys, HOW.values))
    )
    assert apart == grouped
    assert len({tuple(row[key] for key in rows) for row in apart}) == len(apart) == 7
    # Those of a without a second are in two parts, and all where too many values were to be told apart.
    monkeypatch.setattr(aggregates, "_grouped", lambda rows, _: rows.slice(0, 0))
    assert len(added_up(parts, how)) == 8 - regrouped
