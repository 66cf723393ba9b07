"""Whether a table arrived whole: its files held against its writers' lists (kedge.evidence.listing)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError
from kedge.evidence.listing import (
    ENDING,
    INGEST,
    OF_TOPICS,
    ListedFile,
    ReadRange,
    read_list,
    text_of,
    writer_of,
)
from kedge.evidence.run import Run
from spark_checks.engine import files

#: Spark ends what it has written with this file, and names its files so.
_SUCCESS: Final = "_SUCCESS"
_PART: Final = "part-"
#: Files or partitions that are named at most.
_NAMED: Final = 3


class Listed(NamedTuple):
    """What writers of a table listed: rows by file, and of topics the ranges that were read.

    ``never`` says why what was read from topics does not count as read.
    """

    rows: Mapping[str, int]
    ranges: Sequence[ReadRange]
    never: str


def commit(spark: SparkSession, folder: str, rows: Mapping[str, int], ranges: Iterable[ReadRange]) -> None:
    """Say that what was read from topics is whole: the list is the last file of the folder.

    Raises:
        EvidenceError: when the store does not take it.
    """
    listed = (ListedFile(file=name, rows=count) for name, count in rows.items())
    files.write_text(spark, f"{folder}/{INGEST}", text_of([*listed, *ranges]))


def listed(spark: SparkSession, folder: str, name: str, run: Run, rows: Mapping[str, int]) -> Listed | None:
    """Return what a table's writers listed; None where nothing was recorded, as by release 0.1.0.

    Args:
        rows: of each file that is there.

    Raises:
        EvidenceError: for more rows than a writer listed.
    """
    told = dict((run.files or {}).get(name, {}))
    if told == dict(rows) and name not in OF_TOPICS:
        return Listed(told, (), "")
    there = files.all_files(spark, folder)
    found: dict[str, int] = {}
    ranges: list[ReadRange] = []
    for file in (file for file in there if file.name.startswith("_") and file.name.endswith(ENDING)):
        some, read = read_list(files.read_text(spark, file.uri))
        found |= some
        ranges += read
    if name in OF_TOPICS and not found:
        never = _never_committed(name, run, rows, {file.name for file in there})
        return Listed({}, (), never) if never else None
    # A writer's own list is newer than run.json: watchers write for a moment longer than the load.
    writers = {writer_of(file) for file in found}
    found |= {file: count for file, count in told.items() if writer_of(file) not in writers}
    if run.files is not None or name in OF_TOPICS:
        _refuse_others(folder, rows, found)
    return Listed(found, tuple(ranges), "") if found or run.files is not None else None


def _never_committed(name: str, run: Run, rows: Mapping[str, int], there: set[str]) -> str:
    """Return what to say of what was read from topics, where no list says that all of it is there."""
    by_spark = all(file.startswith(_PART) for file in rows)
    if not rows or (run.files is None and (_SUCCESS in there or not by_spark)):
        return ""
    last = INGEST if run.files is not None else _SUCCESS
    return f"{name} has no {last}, which ends what is read from topics: it was cut off, or not copied whole"


def _refuse_others(folder: str, rows: Mapping[str, int], listed: Mapping[str, int]) -> None:
    """Refuse more rows than a writer wrote: a copy, or another run's file, would count its records again."""
    found, wanted = _by_writer(rows), _by_writer(listed)
    beyond = [file for file in rows if found[writer_of(file)] > wanted[writer_of(file)]]
    if not beyond:
        return
    most = max(beyond, key=lambda file: (file not in listed, rows[file] - listed.get(file, 0)))
    raise EvidenceError(
        f"{files.shown(folder)}/{most}: {rows[most]:,} rows, and its writer listed {listed.get(most, 0):,} "
        "rows of that file; is it a copy, or another run's? "
        + ("copy it again" if most in listed else "remove it")
    )


def _by_writer(rows: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for file, count in rows.items():
        found[writer_of(file)] += count
    return found


def lack(name: str, told: Listed, rows: Mapping[str, int], frame: DataFrame | None) -> str:
    """Return what a table lacks of the rows that were written, in words; nothing where it is whole.

    Rows count by writer: one that was killed while it merged files has their rows in others.

    Args:
        told: what its writers listed.
        rows: of each file that is there.
        frame: the table; it is read only where it lacks records of topics, to name their partitions.
    """
    listed, found, wanted = told.rows, _by_writer(rows), _by_writer(told.rows)
    short = {writer for writer, count in wanted.items() if found[writer] < count}
    if not short:
        return ""
    lacking = {file: count - rows.get(file, 0) for file, count in listed.items() if writer_of(file) in short}
    places = _partitions(told.ranges, frame)
    places = places or [f"{file} {count:,}" for file, count in lacking.items() if count > 0]
    total = sum(wanted[writer] - found[writer] for writer in short)
    where = ", ".join(places[:_NAMED]) + (f" and {len(places) - _NAMED:,} more" if places[_NAMED:] else "")
    of = sum(wanted.values())
    return f"{name} lacks {total:,} of the {of:,} rows that were written ({where}): copy the table again"


def _partitions(ranges: Sequence[ReadRange], frame: DataFrame | None) -> list[str]:
    """Return the partitions of topics that lack records, and how many, where a list has ranges of offsets."""
    found = by_place(frame) if ranges and frame is not None else {}
    lacking = ((one, one.rows - found.get((one.cluster, one.topic, one.partition), 0)) for one in ranges)
    return [f"{one.cluster}/{one.topic}-{one.partition} {count:,}" for one, count in lacking if count > 0]


def by_place(records: DataFrame) -> dict[tuple[str, str, int], int]:
    """Return how many records each partition has: by cluster, topic and partition, some thousands."""
    found = records.groupBy("cluster", "topic", "partition").agg(F.count(F.lit(1)).alias("rows")).collect()
    return {(row["cluster"], row["topic"], row["partition"]): row["rows"] for row in found}
