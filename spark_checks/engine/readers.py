"""Evidence in: tables as DataFrames whose every file has the columns and types of the contract.

Spark reads all of it, wherever it lies: a folder, HDFS and an object store are one path.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.run import Run, parse_run
from spark_checks.engine import contract, files, wholeness
from spark_checks.engine.spark_types import TABLES, local_rows

_FILE_IN_ERROR: Final = re.compile(r"((?:file:|\w+://|/)[^\s,'\"]+\.parquet)")

#: The tables that the driver holds: a row an action, and one a planned setting. Spark aggregates all others.
SMALL: Final = ("actions", "settings")
#: The tables that are sampled, as far as checks look at them.
_SAMPLES: Final = (
    *("group_states", "assignments", "homes", "processes", "rocksdb"),
    *("end_offsets", "group_offsets", "balancer", "metrics"),
)
#: Parquet of such a table at most: some gigabytes in memory.
_MOST_BYTES: Final = 256 << 20

Made = TypeVar("Made")


class Once:
    """What several checks need, made by the first that asks while the others wait for it, by name."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], Made]) -> Made:
        """Return what ``make`` gave when that name was first asked for; it may ask for other names."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._made:
                self._made[name] = make()
            return cast(Made, self._made[name])


@dataclass(frozen=True)
class Evidence:
    """A run's evidence: run.json and the tables that are there (None: absent).

    ``lacking`` says of each table that is not whole what it lacks. ``shared`` keeps what several checks
    aggregate from the same table.
    """

    uri: str
    run: Run
    tables: Mapping[str, DataFrame | None]
    lacking: Mapping[str, str] = dataclasses.field(default_factory=dict)
    shared: Once = dataclasses.field(default_factory=Once, compare=False, repr=False)

    @property
    def session(self) -> SparkSession:
        """Spark's session, which reads the tables."""
        read = (table.sparkSession for table in self.tables.values() if table is not None)
        # A watch that ended at once left no table.
        return next(read, None) or SparkSession.active()

    def has(self, name: str) -> bool:
        """Return whether the evidence has any of a table."""
        return self.tables[name] is not None

    def lacks(self, *names: str) -> list[str]:
        """Return what those of these tables lack that are not whole."""
        return [self.lacking[name] for name in names if name in self.lacking]

    def samples(self, *names: str) -> dict[str, DataFrame]:
        """Return those of these tables that are there, held against the contract.

        Raises:
            EvidenceError: when they hold nulls where none may be, or rows of another run.
        """
        assert {*names} <= {*SMALL, *_SAMPLES}
        frames = {name: frame for name in names if (frame := self.tables[name]) is not None}
        if frames:
            found = self._strays()
            for name, frame in frames.items():
                contract.check_rows([found[name]] if name in found else [], frame, name, self.run)
        return frames

    def last_us(self, *names: str) -> int:
        """Return the time of the last row of these tables, 0 without any."""
        found = self._strays()
        return max((found[name]["most"] or 0 for name in names if name in found), default=0)

    def _strays(self) -> dict[str, Row]:
        """Look at all that was sampled by one query. Spark keeps it meanwhile: its files are read once."""

        def look() -> dict[str, Row]:
            there = {name: frame for name in (*_SAMPLES, *SMALL) if (frame := self.tables[name]) is not None}
            return contract.strays({
                name: frame if name in SMALL else frame.persist() for name, frame in there.items()
            })  # fmt: skip

        return self.shared.get("strays", look)

    def rows(self, name: str) -> list[dict[str, Any]] | None:
        """Return the rows of a table of :data:`SMALL`, or None when the evidence has none of it.

        Raises:
            EvidenceError: as :meth:`samples`.
        """

        def read() -> list[dict[str, Any]]:
            return [row.asDict() for row in self.samples(name)[name].collect()]

        return self.shared.get(f"{name} read", read) if self.has(name) else None

    def need(self, name: str) -> DataFrame:
        """Return a table without which nothing can be judged.

        Raises:
            EvidenceError: when it is absent.
        """
        frame = self.tables[name]
        if frame is None:
            raise EvidenceError(
                f"{files.shown(self.uri)}/{name}: no such table; expected a folder with Parquet files there"
            )
        return frame


def open_evidence(spark: SparkSession, uri: str) -> Evidence:
    """Open an evidence folder: run.json, and every table that is there, its files held against the contract.

    Args:
        uri: the folder: a path of this machine, or anything that Spark reads.

    Raises:
        EvidenceError: a missing or unreadable run.json or ledger, a file that is no whole Parquet file, a
            column that is missing or of another type, more actions or settings than a driver can hold.
    """
    uri = files.located(uri)
    where = f"{uri}/run.json"
    run = parse_run(
        files.read_text(spark, where, "; is this the evidence folder of a run?"), files.shown(where)
    )
    evidence = with_tables(spark, Evidence(uri, run, {}), TABLES)
    for name in ("ledger",) * run.loaded + ("deliveries",) * bool(run.groups):
        evidence.need(name)
    if run.load_until_us is None and run.loaded:
        evidence = replace(evidence, run=run.model_copy(update={"load_until_us": _last_us(evidence)}))
    return evidence


def with_tables(spark: SparkSession, evidence: Evidence, names: Iterable[str]) -> Evidence:
    """Return evidence with these tables as they are now, and what each of them lacks.

    Raises:
        EvidenceError: as :func:`open_evidence`.
    """
    tables, lacking = dict(evidence.tables), dict(evidence.lacking)
    for name in names:
        tables[name], lack = read_table(spark, evidence.uri, name, evidence.run)
        lacking.pop(name, None)
        if lack:
            lacking[name] = lack
    return replace(evidence, tables=tables, lacking=lacking)


def _last_us(evidence: Evidence) -> int:
    """Return the last time in the ledger: where the load did not end properly, the window ends there."""
    times = F.greatest("intended_us", "sent_us", "acked_us")
    row = evidence.need("ledger").agg(F.max(times)).first()
    if row is None or row[0] is None or row[0] <= evidence.run.measured_from_us:
        why = evidence.lacking.get("ledger", "nothing was sent after the warm-up")
        raise EvidenceError(f"{files.shown(evidence.uri)}/ledger: {why}, so there is nothing to judge")
    return int(row[0])


def read_table(spark: SparkSession, uri: str, name: str, run: Run) -> tuple[DataFrame | None, str]:
    """Return a table with exactly the columns of the contract, and what it lacks, empty of a whole one.

    None when no file of it is there, and for what was read from topics and is not known to be all. Ledger and
    deliveries of which all files are gone have no rows. Columns that may be absent are null then.

    Raises:
        EvidenceError: as :func:`open_evidence`.
    """
    folder = f"{uri}/{name}"
    found = files.parquet_files(spark, folder)
    rows = contract.check_files(spark, found, name, run)
    size = sum(file.size for file in found)
    if name in SMALL and size > _MOST_BYTES:
        raise EvidenceError(
            f"{files.shown(folder)}: {size >> 20:,} MiB, of which {_MOST_BYTES >> 20} MiB at most are read"
        )
    told = wholeness.listed(spark, folder, name, run, rows)
    if told is not None and told.never:
        return None, told.never
    # What else lies there, a README or what a copy left behind, is none of the table's files.
    reader = spark.read.schema(TABLES[name]).option("pathGlobFilter", "*.parquet")
    # Spark takes reads that look equal for one, and would answer from what it keeps of an earlier one, though
    # files were written again. An option that it does not know tells them apart.
    reader = reader.option("kedge.read", uuid4().hex)
    frame = reader.parquet(folder) if found else None
    lack = wholeness.lack(name, told, rows, frame) if told is not None else ""
    if frame is None and lack and name in ("ledger", "deliveries"):
        frame = local_rows(spark, [], TABLES[name])
    return frame, lack


def damaged(error: object) -> bool:
    """Return whether an error of Spark's comes from a file of the evidence, and not from the audit."""
    text = str(error)
    return any(
        mark in text
        for mark in ("FAILED_READ_FILE", "CANNOT_READ_FILE", "CANNOT_MERGE_SCHEMA", "read footer")
    )


def explain(error: object, where: str) -> str:
    """Return one line for an error of Spark's while it read evidence, with the file that it names."""
    text = str(error)
    file = _FILE_IN_ERROR.search(text)
    reason = "cannot be read as Parquet; it is damaged or cut off: copy it again, or remove it"
    if "MERGE" in text or "MISMATCH" in text:
        reason = "its columns differ from those of the contract (kedge/evidence/tables.py)"
    elif file is None:
        reason = one_line(text, 200)
    return f"{files.shown(file.group(1) if file else where)}: {reason}"
