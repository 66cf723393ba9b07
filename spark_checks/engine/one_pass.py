"""The one pass over ledger, records and deliveries: all that any check sums up of them, in one job."""

from __future__ import annotations

import operator
import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evidence.run import Run
from evidence.tables import arrow_schema
from spark_checks.engine import workers
from spark_checks.engine.aggregates import Aggregate
from spark_checks.engine.folds import (
    BLOCK_BITS,
    COLUMNS,
    Parts,
    Range,
    Scope,
    Unit,
    fold_files,
    folder_of,
    in_range,
    merged,
    wanted_of,
    work_on,
)
from spark_checks.engine.readers import Evidence

#: A file larger than this is folded in pieces, by several tasks.
_PIECE: Final = 32 << 20
#: Rows of a part of a block, as a power of two; at most so many blocks are looked at by their parts, and
#: rows of at most so many parts collected.
FINE_BITS: Final = 6
_REFINED: Final = 64
FEW: Final = 4_096
#: So many rows are compared where the audit runs rather than by tasks.
SMALL: Final = 1 << 18
#: The tables that are held against each other by blocks of a column.
_SIDES: Final = {"seq": ("ledger", "records"), "offset": ("records", "deliveries")}
#: Records of a range of sequence numbers at most, which a task has in memory; and how finely ranges are cut.
_RANGE: Final = 1 << 21
_MARKS: Final = 16
#: Tasks a core: enough that cores end together, few enough that none spends its time on beginning.
_TASKS_A_CORE: Final = 4

Made = TypeVar("Made")
Task = TypeVar("Task")


@dataclass(frozen=True)
class Sum:
    """How many rows a block holds, and two sums of independent hashes of them, modulo 2^64.

    Two blocks of different rows have equal sums by chance in about one of 2^128.
    """

    rows: int = 0
    one: int = 0
    two: int = 0

    def __add__(self, other: Sum) -> Sum:
        whole = (1 << 64) - 1
        return Sum(self.rows + other.rows, (self.one + other.one) & whole, (self.two + other.two) & whole)


NOTHING: Final = Sum()


@dataclass(frozen=True)
class Folded:
    """What the folds of all files gave, by name: see :data:`spark_checks.engine.folds.MERGED`."""

    parts: Mapping[str, Any]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return one part, a row a block or a stretch."""
        return self.parts[name].to_pylist() if name in self.parts else []


def sum_of(row: Mapping[str, Any]) -> Sum:
    """Return the sum that a row of a part holds."""
    return Sum(row["rows"], row["one"], row["two"])


def folded(evidence: Evidence, sums: Mapping[str, Aggregate]) -> Folded:
    """Return ledger, records and deliveries folded; the first that asks has it done, in one pass over each.

    Nothing is shuffled. What is collected is a row for each block of 65,536 records that a task has seen, and
    a row a key of the sums.

    Args:
        evidence: the evidence.
        sums: what is summed up in the same pass, by name (spark_checks.engine.facts).
    """
    return evidence.shared.get("folded", lambda: _fold(evidence, _scope(evidence.run), COLUMNS, sums))


def summed(evidence: Evidence, how: Aggregate) -> Any:
    """Return the sums of a table as an Arrow table, in a pass of their own."""
    found = _fold(evidence, None, (how.table,), {"sums": how}).parts
    return found.get("sums")


def summed_rows(rows: DataFrame, how: Aggregate) -> list[Any]:
    """Return the sums of a table's rows that Spark hands over, each an Arrow table."""
    return [parts["sums"] for parts in _of_frame(rows, how.table, None, {"sums": how}) if "sums" in parts]


def folded_by(
    evidence: Evidence, name: str, columns: Sequence[str], work: Callable[[Iterable[Any]], list[Any]]
) -> list[Any]:
    """Return what a function of a table's rows, as Arrow tables, gives in each task."""
    schema = pa.schema([field for field in arrow_schema(name) if field.name in columns])
    files = evidence.files(name)
    if not files:

        def of_rows(batches: Iterable[Any]) -> Iterator[Any]:
            made = work(pa.Table.from_batches([batch]) for batch in batches)
            yield pa.RecordBatch.from_pydict({"parts": [pickle.dumps(made)]})

        rows = evidence.need(name).select(schema.names).mapInArrow(of_rows, "parts binary").collect()
        return [one for row in rows for one in pickle.loads(row["parts"])]  # noqa: S301 - made by our own tasks

    units = [unit for file in files for unit in _pieces(name, file)]
    of_files = partial(work_on, columns={name: schema}, work=work)
    return [one for made in _by_tasks(evidence, units, of_files, _TASKS_A_CORE) for one in made]


def by_identity(
    evidence: Evidence, columns: Sequence[str], where: Any, work: Callable[[Any], Made]
) -> list[Made]:
    """Return what a function makes of records of the run, all those of one identity in one call.

    A task takes a range of sequence numbers, and of the files those parts that may hold them by their
    statistics: topics hold them nearly in their order, so that little is read twice, and nothing is shuffled.
    Of evidence that tasks cannot open, Spark shuffles the wanted records once, by their blocks.

    Args:
        evidence: the evidence; its records must be there.
        columns: those of the records that the function is given, ``producer`` and ``seq`` among them.
        where: which records count, as a pyarrow expression over these columns; only records of the run.
        work: is given an Arrow table of at least one row, and returns what every Python can unpickle.
    """
    schema = pa.schema([field for field in arrow_schema("records") if field.name in columns])
    files = evidence.files("records")
    if files:
        work_in = partial(in_range, columns={"records": schema}, where=where, work=work)
        found = _in_tasks(evidence, _ranges(files, _tasks_at_once(evidence)), work_in)
    else:

        def of_block(rows: Any) -> Any:
            wanted = rows.filter(where)
            return pa.table({"made": [pickle.dumps(work(wanted) if wanted.num_rows else None)]})

        rows = evidence.need("records").select(schema.names).where("producer is not null")
        blocks = rows.groupBy("producer", F.shiftright("seq", BLOCK_BITS)).applyInArrow(
            of_block, "made binary"
        )
        found = [pickle.loads(row["made"]) for row in blocks.collect()]  # noqa: S301 - made by our own tasks
    return [one for one in found if one is not None]


def _ranges(files: Iterable[Path], least: int) -> list[Range]:
    """Return ranges of sequence numbers of about as many records, with what of the files may hold them.

    There are ``least`` of them, or as many as keep each below :data:`_RANGE`.
    """
    parts = [part for file in files for part in _parts_along(file)]
    # As if the records of a part lay evenly between the least of its numbers and the greatest.
    # A damaged record may have any number.
    marks = [np.linspace(first, min(last, 1 << 62), _MARKS).astype(np.int64) for _, first, last, _ in parts]
    weights = [np.full(_MARKS, rows / _MARKS) for *_, rows in parts]
    if not parts:
        return []
    order = np.argsort(np.concatenate(marks), kind="stable")
    upto = np.cumsum(np.concatenate(weights)[order])
    count = max(least, -(-int(upto[-1]) // _RANGE))
    at = np.searchsorted(upto, upto[-1] * np.arange(1, count) / count)
    cuts = sorted({int(mark) for mark in np.concatenate(marks)[order][at]})
    bounds = pairwise((0, *(cut for cut in cuts if cut > 0), 1 << 63))
    return [
        (first, end - 1, [unit for unit, least, most, _ in parts if least < end and most >= first])
        for first, end in bounds
    ]


def _parts_along(file: Path) -> Iterator[tuple[Unit, int, int, int]]:
    """Give the row groups of a file of records with the least and the greatest sequence number, and rows."""
    metadata = pq.read_metadata(file)
    column = metadata.schema.names.index("seq")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        told = group.column(column).statistics
        known = told is not None and told.has_min_max
        # What has no number at all is no record of the run.
        if known or told is None or told.null_count != group.num_rows:
            first, last = (told.min, told.max) if known else (0, (1 << 63) - 1)
            yield ("records", str(file), [number]), first, last, group.num_rows


def finer(evidence: Evidence, column: str, blocks: Iterable[int]) -> Folded | None:
    """Return the blocks of these numbers folded by :data:`FINE_BITS`, the others left out.

    None where they are too many, or where tasks cannot open the files and leave out what lies elsewhere.

    Args:
        evidence: the evidence.
        column: seq or offset, of which the blocks are.
        blocks: their numbers.
    """
    numbers = frozenset(blocks)
    if len(numbers) > _REFINED or not evidence.files("records"):
        return None
    scope = replace(_scope(evidence.run), within=(column, numbers), bits=FINE_BITS)
    return _fold(evidence, scope, _SIDES[column], {})


def few(
    evidence: Evidence, wanted: Mapping[str, Any], columns: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the rows of some tables that fit pyarrow expressions, collected in one job: they must be few.

    The tables must have files that tasks open (:meth:`Evidence.files`).

    Args:
        evidence: the evidence.
        wanted: table -> expression.
        columns: table -> those of its columns that are returned.

    Returns:
        Arrow tables by name, with columns as in the contract.
    """
    schemas = {name: arrow_schema(name) for name in wanted}
    units: list[Unit] = [(name, str(file), None) for name in wanted for file in evidence.files(name)]

    rows = partial(wanted_of, schemas=schemas, wanted=wanted, columns=columns)
    found = [one for part in _by_tasks(evidence, units, rows, 1) for one in part]
    empty = {name: schema.empty_table().select(list(columns[name])) for name, schema in schemas.items()}
    return {
        name: pa.concat_tables([none, *(rows for table, rows in found if table == name)])
        for name, none in empty.items()
    }


def in_parts(column: str, parts: Collection[int]) -> Any:
    """Return as a pyarrow expression whether a number lies in one of these blocks of :data:`FINE_BITS`."""
    at = pc.field(column)
    # The bounds of the blocks are what a file's statistics are held against.
    blocks = {part >> (BLOCK_BITS - FINE_BITS) for part in parts}
    near = ((at >= number << BLOCK_BITS) & (at < (number + 1) << BLOCK_BITS) for number in sorted(blocks))
    return reduce(operator.or_, near) & pc.shift_right(at, FINE_BITS).isin(sorted(parts))


def _fold(
    evidence: Evidence, scope: Scope | None, tables: Iterable[str], sums: Mapping[str, Aggregate]
) -> Folded:
    units: list[Unit] = []
    found: list[Parts] = []
    columns: dict[str, Any] = {}
    for name in tables:
        if not evidence.has(name) or (scope is not None and name == "deliveries" and not evidence.run.groups):
            continue
        mine = {one: how for one, how in sums.items() if how.table == name}
        columns[name] = _columns(name, scope, mine)
        files = evidence.files(name)
        units += [unit for file in files for unit in _pieces(name, file)]
        if not files:
            found += _of_frame(evidence.need(name).select(columns[name].names), name, scope, mine)

    fold_units = partial(fold_files, columns=columns, scope=scope, sums=sums)
    found += _by_tasks(evidence, units, fold_units, _TASKS_A_CORE)
    names = {name for parts in found for name in parts}
    return Folded(
        {name: merged(name, [parts[name] for parts in found if name in parts], sums) for name in names}
    )


def _columns(table: str, scope: Scope | None, sums: Mapping[str, Aggregate]) -> Any:
    """Return the columns that are read of a table."""
    wanted = {
        *(COLUMNS[table] if scope is not None else ()),
        *(c for how in sums.values() for c in how.columns),
    }
    return pa.schema([field for field in arrow_schema(table) if field.name in wanted])


def _scope(run: Run) -> Scope:
    topics = run.source_topics()
    return Scope(
        frozenset((topic.cluster, topic.topic) for topic in topics),
        frozenset(run.groups),
        {(t.topic, partition): start for t in topics for partition, start in t.expired_below().items()},
    )


def _pieces(table: str, file: Path) -> Iterator[Unit]:
    if file.stat().st_size <= _PIECE:
        yield table, str(file), None
    else:
        yield from ((table, str(file), [group]) for group in range(pq.read_metadata(file).num_row_groups))


def _by_tasks(
    evidence: Evidence, units: Sequence[Unit], work: Callable[[Sequence[Unit]], Made], tasks_a_core: int
) -> list[Made]:
    """Let tasks read the files themselves, by Arrow: a row does not have to go through the JVM."""
    if not units:
        return []
    return _in_tasks(evidence, shared_out(units, tasks_a_core * _tasks_at_once(evidence)), work)


def _in_tasks(evidence: Evidence, tasks: Sequence[Task], work: Callable[[Task], Made]) -> list[Made]:
    if evidence.cores:
        return workers.run(evidence.cores, work, tasks)
    return evidence.session().sparkContext.parallelize(tasks, max(len(tasks), 1)).map(work).collect()


def _tasks_at_once(evidence: Evidence) -> int:
    return evidence.cores or evidence.session().sparkContext.defaultParallelism


def shared_out(units: Sequence[Unit], count: int) -> list[list[Unit]]:
    """Return files as that many tasks at most, of about the same size.

    What one writer wrote stays together and in its order, so that what tasks fold seldom overlaps in time.
    """
    pieces = Counter(path for _, path, _ in units)
    sizes = [Path(path).stat().st_size / pieces[path] for _, path, _ in units]
    share = sum(sizes) / count
    tasks: list[list[Unit]] = [[] for _ in range(count)]
    upto = 0.0
    for unit, size in zip(units, sizes, strict=True):
        tasks[min(int((upto + size / 2) / share), count - 1) if share else 0].append(unit)
        upto += size
    return [task for task in tasks if task]


def _of_frame(
    frame: DataFrame, table: str, scope: Scope | None, sums: Mapping[str, Aggregate]
) -> list[Parts]:
    """Fold rows that Spark hands over, of a store that it reads and its workers' Python does not."""
    rows = frame.mapInArrow(folder_of(table, scope, sums), "parts binary").collect()
    return [pickle.loads(row["parts"]) for row in rows]  # noqa: S301 - made by our own tasks
