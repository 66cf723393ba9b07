"""Evidence in: tables as DataFrames whose every file has the columns and types of the contract."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.dataset as ds
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.errors import EvidenceError, one_line
from evidence.run import Run, parse_run
from evidence.tables import arrow_schema
from spark_checks.engine import contract
from spark_checks.engine.schemas import TABLES
from spark_checks.engine.workers import cores_here

_FILE_IN_ERROR: Final = re.compile(r"((?:file:|\w+://|/)[^\s,'\"]+\.parquet)")


#: The tables that grow with the records: Spark's tasks read them. All others are read where the audit runs.
LARGE: Final = ("ledger", "records", "deliveries")
#: Parquet of such a table at most: samples of days, and some gigabytes in memory.
_MOST_BYTES: Final = 256 << 20

Made = TypeVar("Made")
Opened = DataFrame | Callable[[], DataFrame]


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

    def forget(self) -> None:
        """Drop all, and what Spark keeps of it."""
        for made in self._made.values():
            if isinstance(made, DataFrame):
                made.unpersist()
        self._made.clear()


@dataclass(frozen=True)
class Evidence:
    """A run's evidence: run.json and the tables that are there (None: absent).

    ``shared`` keeps what several checks fold from the same table. A table is opened when it is first asked
    for: most of an audit needs no plan of Spark's. Files are folded by workers on so many ``cores`` of this
    machine, by Spark's tasks where there are none.
    """

    uri: str
    run: Run
    tables: Mapping[str, Opened | None]
    session: Callable[[], SparkSession] = SparkSession.active
    cores: int = 0
    shared: Once = dataclasses.field(default_factory=Once, compare=False, repr=False)

    def has(self, name: str) -> bool:
        """Return whether the evidence has any of a table."""
        return self.tables[name] is not None

    def table(self, name: str) -> DataFrame | None:
        """Return a table, or None when the evidence has none of it."""
        found = self.tables[name]
        return (
            found
            if found is None or isinstance(found, DataFrame)
            else self.shared.get(f"{name} opened", found)
        )

    def rows(self, name: str) -> pa.Table | None:
        """Return a table that does not grow with the records, whole, or None when the evidence has none.

        Raises:
            EvidenceError: when its files are larger than what is read where the audit runs.
        """
        return self.shared.get(f"{name} read", lambda: self._rows(name)) if self.has(name) else None

    def _rows(self, name: str) -> pa.Table:
        files = self.files(name)
        if not files:
            return self.need(name).toArrow()
        size = sum(file.stat().st_size for file in files)
        if size > _MOST_BYTES:
            raise EvidenceError(
                f"{self.uri}/{name}: {size >> 20:,} MiB of samples, of which {_MOST_BYTES >> 20} MiB at most "
                "are read; judge a shorter run, or one with fewer samples"
            )
        schema = arrow_schema(name)
        return pa.concat_tables([_read(file, schema) for file in files])

    def files(self, name: str) -> list[Path]:
        """Return the files of a table that every machine of the audit opens by these paths, if there are."""
        folder = local_path(self.uri)
        return _files(folder, name) if folder is not None else []

    def need(self, name: str) -> DataFrame:
        """Return a table without which nothing can be judged.

        Raises:
            EvidenceError: when it is absent.
        """
        frame = self.table(name)
        if frame is None:
            raise EvidenceError(
                f"{self.uri}/{name}: no such table; expected a folder with Parquet files there"
            )
        return frame


def local_path(uri: str) -> Path | None:
    """Return the folder that a URI means on this machine, or None when it is elsewhere."""
    if "://" not in uri and not uri.startswith("file:"):
        return Path(uri).absolute()
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def open_evidence(
    session: SparkSession | Callable[[], SparkSession], uri: str, cores: int | None = None
) -> Evidence:
    """Open an evidence folder: run.json, and every table that is there, validated.

    Args:
        session: Spark's, or what gives it: for evidence on this machine it is not asked for here.
        uri: the folder, anything that Spark reads.
        cores: of this machine, on which files are folded; 0 for Spark's tasks; None: as the session's master
            says.

    Raises:
        EvidenceError: a missing or unreadable run.json or ledger, a file that is no whole Parquet file, a
            column that is missing, of another type, or null where it must not be, rows of another run.
    """
    spark = session if callable(session) else lambda: session
    if cores is None:
        cores = cores_here(str(spark().sparkContext.master))
    uri = uri.rstrip("/")
    run = parse_run(_read_text(spark, f"{uri}/run.json"), f"{uri}/run.json")
    tables = {name: read_table(spark, uri, name, run) for name in TABLES}
    evidence = Evidence(uri, run, tables, spark, cores)
    for name in ("ledger",) * run.loaded + ("deliveries",) * bool(run.groups):
        if not evidence.has(name):
            evidence.need(name)
    if run.load_until_us is None and run.loaded:
        evidence = replace(evidence, run=run.model_copy(update={"load_until_us": _last_us(evidence)}))
    return evidence


def _last_us(evidence: Evidence) -> int:
    """Return the last time in the ledger: where the load did not end properly, the window ends there."""
    times = F.greatest("intended_us", "sent_us", "acked_us")
    row = evidence.need("ledger").agg(F.max(times)).first()
    if row is None or row[0] is None or row[0] <= evidence.run.measured_from_us:
        raise EvidenceError(
            f"{evidence.uri}/ledger: nothing was sent after the warm-up, so there is nothing to judge"
        )
    return int(row[0])


def read_table(spark: Callable[[], SparkSession], uri: str, name: str, run: Run) -> Opened | None:
    """Return what gives one table with exactly the columns of the contract, None when no file of it is there.

    Columns that may be absent are null then.

    Raises:
        EvidenceError: as :func:`open_evidence`.
    """
    folder = local_path(uri)
    if folder is not None:
        files = _files(folder, name)
        if not files:
            return None
        for file in files:
            contract.check_file(file, name, run)
        return lambda: spark().read.schema(TABLES[name]).parquet(f"{(folder / name).as_uri()}")
    try:
        # Every footer is read, as a job of the cluster: a file with other columns must not pass for nulls.
        found = spark().read.option("mergeSchema", "true").parquet(f"{uri}/{name}")
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error) or "UNABLE_TO_INFER_SCHEMA" in str(error):
            return None
        raise EvidenceError(explain(error, f"{uri}/{name}")) from None
    except (PySparkException, Py4JJavaError) as error:
        raise EvidenceError(explain(error, f"{uri}/{name}")) from None
    types = {field.name: field.dataType for field in found.schema}
    for field in TABLES[name]:
        if field.name in types or not contract.may_lack(field, name, run):
            contract.check_column(f"{uri}/{name}", field.name, types.get(field.name), field.dataType)
    contract.check_rows(found, name, run)
    whole = (F.col(f.name) if f.name in types else F.lit(None).cast(f.dataType) for f in TABLES[name])
    return found.select(*(column.alias(f.name) for column, f in zip(whole, TABLES[name], strict=True)))


def _files(folder: Path, name: str) -> list[Path]:
    """Return the files of a table, those of one writer in the order in which it wrote them."""
    found = (p for p in (folder / name).glob("*.parquet") if not p.name.startswith((".", "_")))
    return sorted(found, key=lambda p: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", p.name)])


def _read(file: Path, schema: pa.Schema) -> pa.Table:
    try:
        return ds.dataset(str(file), schema=schema).to_table()
    except (pa.ArrowException, OSError) as error:
        raise EvidenceError(explain(f"CANNOT_READ_FILE {file}: {error}", str(file))) from None


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
        reason = "its columns differ from those of the contract (evidence/tables.py)"
    elif file is None:
        reason = one_line(text, 200)
    return f"{file.group(1) if file else where}: {reason}"


def _read_text(spark: Callable[[], SparkSession], uri: str) -> str:
    path = local_path(uri)
    try:
        if path is not None:
            return path.read_text(encoding="utf-8")
        return str(spark().read.text(uri, wholetext=True).head(1)[0][0])
    except (OSError, PySparkException, IndexError):
        raise EvidenceError(f"{uri}: no such file; is this the evidence folder of a run?") from None
    except UnicodeDecodeError:
        raise EvidenceError(f"{uri}: is not UTF-8 text") from None
