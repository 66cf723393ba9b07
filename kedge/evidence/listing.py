"""What each evidence table is to hold: its writers list every file, with its rows, as they close it.

A list stands beside the files as ``<table>/_<writer>.files``, a line of JSON a file. run.json has all lists
of a run (``files``) from its end on. Of topics that were read, a list also says which offsets of each
partition, and how many records that gave. Readers pass lists over, as all names that begin with ``_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from kedge.evidence.tables import TABLES

#: How the names of lists end, and the list of what is read from topics.
ENDING: Final = ".files"
INGEST: Final = f"_ingest{ENDING}"
#: Tables that the audit writes itself: their lists are all that is known of them.
OF_TOPICS: Final = ("records", "batches")

Count = Annotated[int, Field(ge=0)]


class ListedFile(BaseModel):
    """A file and its rows: none any more where it was merged into another."""

    file: str
    rows: Count


class ReadRange(BaseModel):
    """Offsets [start, end) of a partition as they were read, and the records that were there."""

    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    rows: Count


_LINE: Final[TypeAdapter[ListedFile | ReadRange]] = TypeAdapter(ListedFile | ReadRange)


def text_of(entries: Iterable[ListedFile | ReadRange]) -> str:
    """Return entries as lines of a list, each behind a line break: the line before may have been cut off."""
    return "".join(f"\n{entry.model_dump_json()}" for entry in entries)


def read_list(text: str) -> tuple[dict[str, int], list[ReadRange]]:
    """Return the rows of each file and the ranges of a list; of two lines about a file the later one counts.

    What is no line of a list is passed over: what it was to say counts as not listed.
    """
    files: dict[str, int] = {}
    ranges: list[ReadRange] = []
    for line in text.splitlines():
        try:
            entry = _LINE.validate_json(line)
        except ValidationError:
            continue
        if isinstance(entry, ListedFile):
            files[entry.file] = entry.rows
        else:
            ranges.append(entry)
    return files, ranges


def writer_of(file: str) -> str:
    """Return the writer of a file ``<writer>-<number>.parquet``."""
    return file.rpartition("-")[0]


def note(folder: Path, writer: str, rows: Mapping[str, int]) -> None:
    """Add files of a writer to its list in the folder of a table; raises OSError."""
    with (folder / f"_{writer}{ENDING}").open("a", encoding="utf-8") as file:
        file.write(text_of(ListedFile(file=name, rows=count) for name, count in rows.items()))


def files_of(evidence: Path) -> dict[str, dict[str, int]]:
    """Return what run.json says of files: rows by table and file, as the writers listed them.

    A file that no list has counts as it is: its writer was killed before it could list the file, or it came
    whole from a host that makes load. Only whoever ran the writers, and knows that they ended, may ask.
    """
    found: dict[str, dict[str, int]] = {}
    for table in TABLES.keys() - {*OF_TOPICS}:
        rows: dict[str, int] = {}
        for path in sorted((evidence / table).glob(f"_*{ENDING}")):
            rows |= read_list(path.read_text(encoding="utf-8"))[0]
        for path in (evidence / table).glob("[!._]*.parquet"):
            if not rows.get(path.name):
                rows[path.name] = _rows(path)
        if rows := {
            name: count for name, count in sorted(rows.items()) if count or (evidence / table / name).exists()
        }:
            found[table] = rows
    return dict(sorted(found.items()))


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        # The audit names a file that cannot be read.
        return 0
