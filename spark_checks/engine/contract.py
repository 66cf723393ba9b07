"""Files of evidence held against the contract: whole, with its columns and types, and of this run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from evidence.errors import EvidenceError, one_line
from evidence.run import Run
from evidence.tables import TIMES, arrow_schema
from spark_checks.engine.schemas import TABLES, may_be_absent

#: Rows of a run lie between its begin and its end, as its generators' clock tells; samples and actions, some
#: by clocks of other hosts, also shortly before and after.
_MARGIN_US: Final = {"ledger": 1_000_000}
_OTHER_MARGIN_US: Final = 600_000_000


def may_lack(field: StructField, table: str, run: Run) -> bool:
    """Return whether a table is read without this column.

    Mirrors are compared by what the records table says of content: there none may be missing.
    """
    return may_be_absent(field) and not (table == "records" and run.mirrors)


def check_file(file: Path, name: str, run: Run) -> None:
    """Look at a local file's footer, which tells its columns, their nulls and the range of its times.

    Raises:
        EvidenceError: naming the file and what is wrong with it.
    """
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as error:
        size = file.stat().st_size if file.exists() else 0
        raise EvidenceError(
            f"{file}: cannot be read as Parquet ({size} bytes, {one_line(error, 80)}); it is damaged or cut "
            "off: copy it again, or remove it"
        ) from None
    found = metadata.schema.to_arrow_schema()
    types = {field.name: field.type for field in found}
    wanted = arrow_schema(name)
    for field in TABLES[name]:
        kind = types.get(field.name)
        if kind is None and may_lack(field, name, run):
            continue
        if kind is not None and pa.types.is_dictionary(kind):
            kind = kind.value_type
        check_column(str(file), field.name, kind, wanted.field(field.name).type)
        if not field.nullable:
            _refuse_nulls(str(file), field.name, _nulls(metadata, found.names.index(field.name)))
    if name in TIMES:
        _check_times(str(file), name, *_range(metadata, found.names.index(TIMES[name])), run)


def check_rows(found: DataFrame, name: str, run: Run) -> None:
    """Look at a table elsewhere as footers are looked at here; one pass over some columns.

    Raises:
        EvidenceError: as :func:`check_file`.
    """
    never = [field.name for field in TABLES[name] if not field.nullable]
    at = F.col(TIMES[name]) if name in TIMES else F.lit(None).cast("long")
    # A row a file: which one is wrong must be told. A column of the table may be called "file" itself.
    rows = (
        found.groupBy(F.input_file_name().alias("_file"))
        .agg(
            F.min(at).alias("_least"),
            F.max(at).alias("_most"),
            *(F.count_if(F.col(column).isNull()).alias(column) for column in never),
        )
        .collect()
    )
    for row in rows:
        for column in never:
            _refuse_nulls(row["_file"], column, row[column])
        _check_times(row["_file"], name, row["_least"], row["_most"], run)


def _refuse_nulls(file: str, column: str, nulls: int) -> None:
    if nulls:
        raise EvidenceError(f"{file}: column {column} holds nulls, which the contract does not allow")


def _check_times(file: str, name: str, least: int | None, most: int | None, run: Run) -> None:
    """Refuse rows that came about long before the run began or after it ended: they are another run's."""
    if least is None or most is None:
        return
    margin = _MARGIN_US.get(name, _OTHER_MARGIN_US)
    if least < run.started_us - margin or (run.ended_us is not None and most > run.ended_us + margin):
        raise EvidenceError(
            f"{file}: {TIMES[name]} {_moment(least)} to {_moment(most)} lies outside of run {run.run_id}, "
            f"which began at {_moment(run.started_us)}; it is another run's file: move it there"
        )


def _moment(at_us: int) -> str:
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_us} us"


def check_column(where: str, column: str, found: Any, wanted: Any) -> None:
    """Refuse a column that is missing (``found`` None) or of another type than the contract's."""
    if found is None:
        raise EvidenceError(f"{where}: column {column} is missing; the contract wants it as {_say(wanted)}")
    if _say(found) != _say(wanted):
        raise EvidenceError(f"{where}: column {column} is {_say(found)}; the contract wants {_say(wanted)}")


def _say(kind: Any) -> str:
    text = kind.simpleString() if hasattr(kind, "simpleString") else str(kind)
    return {"large_string": "string"}.get(text, text)


def _statistics(metadata: Any, column: int) -> list[Any]:
    found = (metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups))
    return [one for one in found if one is not None]


def _nulls(metadata: Any, column: int) -> int:
    """Return how many nulls of a column its footer tells of."""
    return sum(one.null_count for one in _statistics(metadata, column) if one.has_null_count)


def _range(metadata: Any, column: int) -> tuple[int | None, int | None]:
    """Return the least and the greatest value of a column, None where its footer does not say."""
    known = [(one.min, one.max) for one in _statistics(metadata, column) if one.has_min_max]
    return min((low for low, _ in known), default=None), max((high for _, high in known), default=None)
