"""``python -m kedge.evidence.border.table FOLDER``: are these files what a load's process writes?

Reads on standard input, as JSON, each file's table and what its columns may hold. Exit 0 when all are, 1 with
one line when one is not. A process of its own, with bounds on memory and time: a file may be made to use up
or crash whoever reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kedge.evidence.border.untrusted import UntrustedError, shown
from kedge.evidence.bounds import limit
from kedge.evidence.tables import arrow_schema

#: Beyond what the process has when it begins.
_MEMORY_BYTES: Final = 3 << 29
_CPU_S: Final = 600
#: A writer ends a file after a million rows, and one batch more (kedge.evidence.writing).
ROWS: Final = 2_000_000
_BATCH: Final = 1 << 16
_TEXT: Final = 2_000
_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"
#: Numbers that others count by, which start at 0.
_COUNTS: Final = ("producer", "seq", "partition", "bytes")


def look_into(path: Path, table: str, values: Mapping[str, Sequence[str | int]]) -> None:
    """Raise UntrustedError unless a file is Parquet of that table, with nothing else in those columns."""
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.remove_metadata().equals(arrow_schema(table)):
                raise UntrustedError(f"it has other columns than the table {table}")
            if file.metadata.num_rows > ROWS:
                raise UntrustedError(f"it has more than {ROWS:,} rows")
            rows = 0
            for batch in file.iter_batches(_BATCH, use_threads=False):
                rows += len(batch)
                if rows > ROWS:
                    raise UntrustedError(f"it has more than {ROWS:,} rows")
                batch.validate(full=True)
                _look_at(batch, values)
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise UntrustedError(f"it cannot be read: {shown(error)}") from None


def _look_at(batch: pa.RecordBatch, values: Mapping[str, Sequence[str | int]]) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise UntrustedError(f"{field.name} has nulls")
        known = values.get(field.name)
        if known is not None and not _all(pc.is_in(column, pa.array(known, field.type))):
            raise UntrustedError(f"{field.name} has what is not this process's")
        if field.name in _COUNTS and not _all(pc.greater_equal(column, 0)):
            raise UntrustedError(f"{field.name} is under 0")
        if pa.types.is_string(field.type) and known is None:
            texts = column.unique()
            if not _all(pc.less_equal(pc.utf8_length(texts), _TEXT)):
                raise UntrustedError(f"{field.name} has a text of more than {_TEXT:,} letters")
            if not _all(pc.invert(pc.match_substring_regex(texts, _CONTROL))):
                raise UntrustedError(f"{field.name} has a text with control characters")


def _all(truths: pa.BooleanArray) -> bool:
    """Tell whether none is false; nulls are passed over."""
    return pc.all(truths).as_py() is not False


def main(folder: Path) -> int:
    """Look into all; print the first that is something else."""
    # Arrow's own pools reserve addresses that they do not use, and these are what is bounded.
    pa.set_memory_pool(pa.system_memory_pool())
    limit(_MEMORY_BYTES, _CPU_S)
    for name, wanted in json.load(sys.stdin).items():
        try:
            look_into(folder / name, wanted["table"], wanted["values"])
        except UntrustedError as error:
            print(f"{name}: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
