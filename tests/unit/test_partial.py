"""What tasks aggregate by Arrow adds up to what the rows say, from files and from rows, nulls included."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from spark_checks.checks import latency
from spark_checks.engine.partial import Aggregate, mixed, of_files, of_rows, second

SCHEMA = pa.schema(
    [("who", pa.string()), ("at_us", pa.int64()), ("place", pa.int32()), ("late", pa.string())]
)
ROWS = [
    {"who": who, "at_us": at, "place": place}
    for who, at, place in (("a", 1_000_000, 1), ("a", 1_999_999, 2), ("b", 2_000_000, 3), ("a", 999_999, 4))
]
HOW = Aggregate(
    SCHEMA,
    ("who", "late"),
    pc.field("place") > 1,
    {"who": pc.field("who"), "late": pc.field("late"), "second": second("at_us", 1_000_000)},
    {"records": (pc.scalar(pa.scalar(1, pa.int64())), "sum"), "last": (pc.field("place"), "max")},
)


def added_up(parts: Iterable[Any]) -> dict[tuple[Any, ...], tuple[int, int]]:
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    for part in parts:
        for row in part.to_pylist():
            found[row["who"], row["late"], row["second"]].append((row["records"], row["last"]))
    return {key: (sum(n for n, _ in some), max(last for _, last in some)) for key, some in found.items()}


def test_files_and_rows_add_up_to_the_same(tmp_path: Path) -> None:
    """A column that a file lacks is null, and a second before the begin is a negative one."""
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    for number, name in enumerate(("one", "two")):
        part = table.slice(2 * number, 2).drop_columns(["late"])
        pq.write_table(part, tmp_path / f"{name}.parquet")
    expected = {("a", None, 0): (1, 2), ("b", None, 1): (1, 3), ("a", None, -1): (1, 4)}
    how = pickle.loads(pickle.dumps(HOW))
    assert added_up(of_files([str(tmp_path / f"{name}.parquet") for name in ("one", "two")], how)) == expected
    assert added_up(of_rows(table.to_batches(max_chunksize=1), how)) == expected


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"CANNOT_READ_FILE .*cut\.parquet"):
        list(of_files([str(tmp_path / "cut.parquet")], HOW))


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
    rounded = [-5, 0, 999, 1000, 1010, 10000, 10100, 124000, 12400000, 123500000]
    assert computed(latency._rounded(pc.field("took")), took=took) == rounded
