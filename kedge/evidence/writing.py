"""Writers of evidence: Parquet files of any evidence table that a reader never sees half written.

A writer gathers batches of columns and, every two seconds, lets a thread of its own write them to
``evidence/<table>/<writer>-<n>.parquet`` under a hidden name and rename it. The caller's loop is never held
up by a file. After a crash the finished files are whole, and what was gathered since is missing: unknown, not
wrong. A writer that ends in order merges its small files, of which every query of an audit would open each.
Each file is listed as it is closed (:mod:`kedge.evidence.listing`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kedge.evidence.listing import note, writer_of
from kedge.evidence.tables import arrow_schema

ROTATE_S: Final = 2.0
#: Rows gathered before a file is written ahead of its time, so that memory stays bounded.
ROTATE_ROWS: Final = 1_000_000
#: A writer spends no longer on merging its files, so that a long load ends in time; what is left stays small.
_MERGE_S: Final = 5.0

Columns = Mapping[str, Any]


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a JSON file at once, so that a reader finds the old document or the new one."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    hidden.replace(path)


def to_table(schema: pa.Schema, columns: Columns) -> pa.Table:
    """Build a table of the schema from columns.

    A column is a numpy array (a masked one for nulls), a pyarrow array, a sequence, or one value (None
    included) that holds for every row. At least one column must be an array or a sequence. A nullable column
    may be left out.

    Raises:
        ValueError: an unknown or missing column, no column that tells the number of rows, different lengths,
            or a null where the schema allows none.
    """
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise ValueError(f"no such column: {', '.join(sorted(unknown))}; there are {', '.join(schema.names)}")
    rows = next((len(value) for value in columns.values() if _is_array(value)), None)
    if rows is None:
        raise ValueError("no column is an array, so the number of rows is not known")
    arrays = []
    for field in schema:
        if field.name not in columns and not field.nullable:
            raise ValueError(f"column {field.name} is missing")
        array = _to_array(columns.get(field.name), field.type, rows)
        if not field.nullable and array.null_count:
            raise ValueError(f"column {field.name} has {array.null_count} nulls and may have none")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | pa.Array | Sequence) and not isinstance(value, str | bytes)


def _to_array(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, pa.Array):
        return value if value.type == kind else value.cast(kind)
    if isinstance(value, np.ma.MaskedArray):
        return pa.array(value.data, type=kind, mask=np.ma.getmaskarray(value))
    if _is_array(value):
        return pa.array(value, type=kind)
    return pa.repeat(pa.scalar(value, type=kind), rows)


class EvidenceWriter:
    """Writes one table under ``evidence/`` for one writer; not for several threads at once.

    ``name`` must be the only one of its kind in the table. Files that an earlier writer of the same name left
    are kept: numbering goes on after them. ``generation`` is the number of the file being gathered. Rows
    appended so far are safe on disk once :meth:`durable` is true for what :meth:`newest` returns now. Written
    files survive the death of the process, not that of the machine: nothing is synced, because that would
    hold up the load.
    """

    def __init__(self, evidence: Path, table: str, name: str, rotate_s: float = ROTATE_S) -> None:
        self._schema = arrow_schema(table)
        self._folder = evidence / table
        self._folder.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._rotate_s = rotate_s
        self.generation = self._first = _next_number(self._folder, name)
        self._gathered: list[Columns] = []
        self._rows = 0
        self._due = time.monotonic() + rotate_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"evidence-{table}")
        self._writes: dict[int, Future[None]] = {}

    def append(self, columns: Columns) -> None:
        """Gather rows, given as by :func:`to_table`; the arrays must not change afterwards.

        Raises:
            OSError: an earlier file could not be written.
        """
        self._gathered.append(columns)
        self._rows += next((len(value) for value in columns.values() if _is_array(value)), 0)
        self.tick()

    def tick(self) -> None:
        """Start a file when one is due; for a loop that has had nothing to append."""
        if time.monotonic() >= self._due or self._rows >= ROTATE_ROWS:
            self.rotate()

    def rotate(self) -> None:
        """Start writing what has been gathered."""
        self._due = time.monotonic() + self._rotate_s
        self._reap()
        if not self._gathered:
            return
        batches, self._gathered, self._rows = self._gathered, [], 0
        path = self._path(self.generation)
        self._writes[self.generation] = self._thread.submit(_write, path, self._schema, batches)
        self.generation += 1

    def newest(self) -> int:
        """Return the number of the file that has, or will have, the row appended last."""
        return self.generation if self._gathered else self.generation - 1

    def durable(self, generation: int) -> bool:
        """Tell whether the rows gathered for that file, and all before them, have been written."""
        self._reap()
        return generation < self.generation and all(number > generation for number in self._writes)

    def flush(self) -> None:
        """Write what has been gathered and wait until it is on disk; raises OSError when it cannot be."""
        self.rotate()
        for write in self._writes.values():
            write.result()
        self._writes.clear()

    def close(self) -> None:
        """Flush, end the writer's thread, and merge the files that it wrote."""
        try:
            self.flush()
        finally:
            self._thread.shutdown()
        with suppress(OSError):
            # All of it is on disk already.
            _merge([self._path(number) for number in range(self._first, self.generation)])

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number}.parquet"

    def _reap(self) -> None:
        for number in [number for number, write in self._writes.items() if write.done()]:
            self._writes.pop(number).result()


def write_table(evidence: Path, table: str, name: str, columns: Columns) -> None:
    """Write all rows of one writer as one file; raises ValueError (see :func:`to_table`) and OSError."""
    folder = evidence / table
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{name}-{_next_number(folder, name)}.parquet", arrow_schema(table), [columns])


def rows_to_columns(table: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows, one mapping each, into the columns of a table; a key that a row lacks becomes null."""
    return {name: [row.get(name) for row in rows] for name in arrow_schema(table).names}


def _next_number(folder: Path, name: str) -> int:
    numbers = [path.stem.removeprefix(f"{name}-") for path in folder.glob(f"{name}-*.parquet")]
    return max((int(number) for number in numbers if number.isdigit()), default=-1) + 1


def _merge(paths: Sequence[Path]) -> None:
    """Merge files of one table, in their order, into files of :data:`ROTATE_ROWS` rows at most."""
    deadline = time.monotonic() + _MERGE_S
    rows = [pq.read_metadata(path).num_rows for path in paths]
    first = 0
    while first < len(paths) and time.monotonic() < deadline:
        end, total = first + 1, rows[first]
        while end < len(paths) and total + rows[end] <= ROTATE_ROWS:
            total, end = total + rows[end], end + 1
        if end > first + 1:
            some = paths[first:end]
            merged = pa.concat_tables([pq.read_table(path, partitioning=None) for path in some])
            # Between the two a row is in no file, and never in two: missing is unknown, twice would be wrong.
            # The list is that of both: before and after, the rows of its files are as many.
            hidden = _hidden(some[0], merged)
            note(
                some[0].parent,
                writer_of(some[0].name),
                dict.fromkeys((p.name for p in some), 0) | {some[0].name: total},
            )
            for path in some:
                path.unlink()
            hidden.replace(some[0])
        first = end


def _write(path: Path, schema: pa.Schema, batches: Sequence[Columns]) -> None:
    table = pa.concat_tables([to_table(schema, batch) for batch in batches])
    _hidden(path, table).replace(path)
    note(path.parent, writer_of(path.name), {path.name: table.num_rows})


def _hidden(path: Path, table: pa.Table) -> Path:
    """Write a table beside a path, under a name that no reader looks at; return it."""
    text = [field.name for field in table.schema if pa.types.is_string(field.type)]
    hidden = path.with_name(f".{path.name}.tmp")
    # Only text repeats; a dictionary of distinct numbers would cost more than it saves.
    pq.write_table(table, hidden, compression="zstd", compression_level=1, use_dictionary=text)
    return hidden
