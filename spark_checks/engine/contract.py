"""Evidence held against the contract: whole files with its columns and types, no stray nulls, of this run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from kedge.evidence import tables
from kedge.evidence.errors import EvidenceError
from kedge.evidence.run import Run
from spark_checks.engine import files
from spark_checks.engine.spark_types import TABLES

#: Rows of a run lie between its begin and its end, as its generators' clock tells; samples and actions, some
#: by clocks of other hosts, also shortly before and after.
_MARGIN_US: Final = {"ledger": 1_000_000}
_OTHER_MARGIN_US: Final = 600_000_000
#: Numbers that begin with 0, in whatever table.
_COUNTS: Final = ("producer", "seq", "partition", "offset", "bytes")
#: Types of Parquet by the names that the contract has for them.
_KINDS: Final = {"boolean": "bool", "binary (STRING)": "string", "binary (UTF8)": "string"}


def may_lack(field: StructField, table: str, run: Run) -> bool:
    """Return whether a table is read without this column.

    Mirrors are compared by what the records table says of content: there none may be missing.
    """
    optional = tables.TABLES[table].field(field.name).metadata
    return bool(optional) and not (table == "records" and run.mirrors)


def check_files(spark: SparkSession, found: Iterable[files.File], name: str, run: Run) -> dict[str, int]:
    """Look at the footers of a table's files, which tell their columns and types; return each file's rows.

    Raises:
        EvidenceError: naming the file and what is wrong with it.
    """
    wanted = {field.name: str(field.type) for field in tables.arrow_schema(name)}
    rows = {}
    for file, count, types in files.footers(spark, found):
        rows[file.name] = count
        for field in TABLES[name]:
            kind = types.get(field.name)
            if kind is None and may_lack(field, name, run):
                continue
            where, of_contract = f"{files.shown(file.uri)}: column {field.name}", wanted[field.name]
            if kind is None:
                raise EvidenceError(f"{where} is missing; the contract wants it as {of_contract}")
            if _KINDS.get(kind, kind) != of_contract:
                raise EvidenceError(f"{where} is {_KINDS.get(kind, kind)}; the contract wants {of_contract}")
    return rows


def stray(name: str) -> list[Column]:
    """Return aggregates that tell what :func:`check_rows` needs of a table: ``nulls``, ``least``, ``most``.

    They go along with a table's own aggregation, so that a large one is not read once more for them.
    """
    return _added_up(_is_stray(name), _time(name))


def strays(frames: Mapping[str, DataFrame]) -> dict[str, Row]:
    """Return the same of several tables by name, of those that have rows, by one query of them all."""
    # What each row says is brought together, and not what each table does: rows are shuffled once.
    parts = [
        frame.select(F.lit(name).alias("name"), _is_stray(name).alias("stray"), _time(name).alias("at"))
        for name, frame in frames.items()
    ]
    if not parts:
        return {}
    every = reduce(DataFrame.unionByName, parts)
    found = every.groupBy("name").agg(*_added_up(F.col("stray"), F.col("at")))
    return {row["name"]: row for row in found.collect()}


def _added_up(bad: Column, at: Column) -> list[Column]:
    return [F.count_if(bad).alias("nulls"), F.min(at).alias("least"), F.max(at).alias("most")]


def _is_stray(name: str) -> Column:
    """Return whether a row has a null where none may be, or a number below 0."""
    nulls = (F.col(column).isNull() for column in _never_null(name))
    negative = (F.coalesce(F.col(column) < 0, F.lit(False)) for column in _counts(name))
    return reduce(Column.__or__, (*nulls, *negative), F.lit(False))


def _time(name: str) -> Column:
    return F.col(tables.TIMES[name]) if name in tables.TIMES else F.lit(None).cast("long")


def check_rows(found: Sequence[Row], table: DataFrame, name: str, run: Run) -> None:
    """Refuse nulls where none may be, and rows that came about long before the run or after it.

    Args:
        found: rows with the columns of :func:`stray`, added up.
        table: what they are aggregates of; it is read once more where something is wrong, to name the file.

    Raises:
        EvidenceError: naming the file and what is wrong with it.
    """
    least = min((row["least"] for row in found if row["least"] is not None), default=None)
    most = max((row["most"] for row in found if row["most"] is not None), default=None)
    if not any(row["nulls"] for row in found) and not _elsewhen(name, least, most, run):
        return
    never = _never_null(name)
    # What Spark keeps of a table says of no row which file it is from.
    table.unpersist()
    by_file = table.groupBy(F.input_file_name().alias("_file")).agg(
        *stray(name),
        *(F.count_if(F.col(column).isNull()).alias(f"_{column}") for column in never),
        *(F.min(column).alias(f"least_{column}") for column in _counts(name)),
    )
    # Rows that come from no file are nobody's to move.
    for row in by_file.where("_file != ''").orderBy("_file").collect():
        file = files.shown(row["_file"])
        column = next((column for column in never if row[f"_{column}"]), None)
        if column is not None:
            raise EvidenceError(f"{file}: column {column} holds nulls, which the contract does not allow")
        column = next((column for column in _counts(name) if (row[f"least_{column}"] or 0) < 0), None)
        if column is not None:
            raise EvidenceError(f"{file}: column {column} holds {row[f'least_{column}']:,}; none is below 0")
        if _elsewhen(name, row["least"], row["most"], run):
            span = f"{_moment(row['least'])} to {_moment(row['most'])}"
            raise EvidenceError(
                f"{file}: {tables.TIMES[name]} {span} lies outside of run {run.run_id}, which began at "
                f"{_moment(run.started_us)}; it is another run's file: move it there"
            )


def _elsewhen(name: str, least: int | None, most: int | None, run: Run) -> bool:
    """Return whether rows came about long before the run began or after it ended: they are another run's."""
    if least is None or most is None:
        return False
    margin = _MARGIN_US.get(name, _OTHER_MARGIN_US)
    begin, end = run.started_us, run.ended_us
    # Others' traffic may be watched for long before a load, and after it.
    if run.watch and name not in ("ledger", "deliveries"):
        begin = min(begin, run.watch.started_us)
        end = max(end, run.watch.ended_us) if end is not None and run.watch.ended_us is not None else end
    return least < begin - margin or (end is not None and most > end + margin)


def _never_null(name: str) -> list[str]:
    return [field.name for field in TABLES[name] if not field.nullable]


def _counts(name: str) -> list[str]:
    return [field.name for field in TABLES[name] if field.name in _COUNTS]


def _moment(at_us: int) -> str:
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_us} us"
