"""The tables of the delivery check, folded in one job: what its hops start from, often all that they need."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from evidence.run import Run
from evidence.tables import arrow_schema
from spark_checks.engine.folds import COLUMNS, Parts, Scope, fold_files, folder_of, merged, rows_of
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
#: Tasks a core: enough that cores end together, few enough that none spends its time on beginning.
_TASKS_A_CORE: Final = 4

Unit = tuple[str, str, "Sequence[int] | None"]
Item = TypeVar("Item")


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


def folded(evidence: Evidence) -> Folded:
    """Return ledger, records and deliveries folded; the first that asks has it done, in one pass over each.

    Nothing is shuffled, and what is collected is a row for each block of 65,536 records that a task has seen.
    """
    return evidence.shared.get("folded", lambda: _fold(evidence, _scope(evidence.run), COLUMNS))


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
    return _fold(evidence, scope, _SIDES[column])


def few(evidence: Evidence, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of some tables that fit pyarrow expressions, collected in one job: they must be few.

    The tables must have files that tasks open (:meth:`Evidence.files`).

    Args:
        evidence: the evidence.
        wanted: table -> expression.

    Returns:
        Arrow tables by name, with exactly the contract's columns.
    """
    context = evidence.need("ledger").sparkSession.sparkContext
    schemas = {name: arrow_schema(name) for name in wanted}
    files = [(file.stat().st_size, (name, str(file))) for name in wanted for file in evidence.files(name)]
    tasks = _weighed(files, context.defaultParallelism)

    def rows(task: Sequence[tuple[str, str]]) -> list[tuple[str, Any]]:
        return [(name, rows_of([file], schemas[name], wanted[name])) for name, file in task]

    found = [one for part in context.parallelize(tasks, len(tasks)).map(rows).collect() for one in part]
    return {
        name: pa.concat_tables([schema.empty_table(), *(rows for table, rows in found if table == name)])
        for name, schema in schemas.items()
    }


def in_parts(column: str, parts: Collection[int]) -> Any:
    """Return as a pyarrow expression whether a number lies in one of these blocks of :data:`FINE_BITS`."""
    at = pc.field(column)
    # The bounds are what a file's statistics are held against.
    near = (at >= min(parts) << FINE_BITS) & (at < (max(parts) + 1) << FINE_BITS)
    return near & pc.shift_right(at, FINE_BITS).isin(sorted(parts))


def _fold(evidence: Evidence, scope: Scope, tables: Iterable[str]) -> Folded:
    spark = evidence.need("ledger").sparkSession
    units: list[Unit] = []
    found: list[Parts] = []
    for name in tables:
        frame = evidence.table(name)
        if frame is None or (name == "deliveries" and not evidence.run.groups):
            continue
        files = evidence.files(name)
        units += [unit for file in files for unit in _pieces(name, file)]
        if not files:
            found += _of_frame(frame, name, scope)
    found += _of_files(spark, units, scope)
    names = {name for parts in found for name in parts}
    return Folded({name: merged(name, [parts[name] for parts in found if name in parts]) for name in names})


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


def _of_files(spark: SparkSession, units: Sequence[Unit], scope: Scope) -> list[Parts]:
    """Let tasks read the files themselves, by Arrow: a row does not have to go through the JVM."""
    if not units:
        return []
    context = spark.sparkContext
    tasks = _weighed(
        [(Path(unit[1]).stat().st_size, unit) for unit in units], _TASKS_A_CORE * context.defaultParallelism
    )
    work = context.parallelize(tasks, len(tasks))
    return work.map(lambda task: fold_files(task, scope)).collect()


def shared_out(files: Sequence[Path], count: int) -> list[list[Path]]:
    """Return the files as that many tasks at most, of about the same size."""
    return _weighed([(file.stat().st_size, file) for file in files], count)


def _weighed(some: Sequence[tuple[int, Item]], count: int) -> list[list[Item]]:
    tasks: list[tuple[int, list[Item]]] = [(0, []) for _ in range(min(count, len(some)))]
    for size, one in sorted(some, key=lambda pair: -pair[0]):
        least = min(range(len(tasks)), key=lambda number: tasks[number][0])
        tasks[least] = (tasks[least][0] + size, [*tasks[least][1], one])
    return [task for _, task in tasks]


def _of_frame(frame: DataFrame, table: str, scope: Scope) -> list[Parts]:
    """Fold rows that Spark hands over, of a store that it reads and its workers' Python does not."""

    rows = frame.select(*COLUMNS[table]).mapInArrow(folder_of(table, scope), "parts binary").collect()
    return [pickle.loads(row["parts"]) for row in rows]  # noqa: S301 - made by our own tasks
