"""Missing parts of evidence as faults of their own: any file, any half of it, any table.

What lacks is unknown. It is never a loss, and nothing that is judged by it passes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.engine.readers import open_evidence
from spark_checks.job import Audit, audit
from spark_checks.registry import needs

#: Of these a check tells itself what lacks: delivery of its two hops.
_OF_DELIVERY: Final = ("ledger", "records", "deliveries")


def _cut(file: Path, first: bool) -> None:
    rows = pq.read_table(file)
    half = rows.num_rows // 2
    pq.write_table(rows.slice(0, half) if first else rows.slice(half), file)


def _empty(file: Path) -> None:
    pq.write_table(pq.read_table(file).slice(0, 0), file)


_SECOND: Final = "has its second half alone"
WAYS: Final[Mapping[str, Callable[[Path], None]]] = {
    "is gone": Path.unlink,
    "has its first half alone": lambda file: _cut(file, first=True),
    _SECOND: lambda file: _cut(file, first=False),
    "is empty": _empty,
}
GONE: Final = "is gone"


class Part(NamedTuple):
    """What is missing: of a file what the way says, or with no file the whole table, its list too."""

    table: str
    file: str
    way: str

    def __str__(self) -> str:
        """Say what is missing."""
        return f"{self.table}{f'/{self.file}' if self.file else ''} {self.way}"


def parts(folder: Path) -> list[Part]:
    """Return all parts of evidence that may be missing."""
    found = []
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(file.name for file in table.glob("*.parquet"))
        # Of one row the second half is all of it.
        short = {file for file in files if pq.read_metadata(table / file).num_rows == 1}
        ways = ((file, way) for file in files for way in WAYS if way != _SECOND or file not in short)
        found += [Part(table.name, file, way) for file, way in ways]
        found.append(Part(table.name, "", GONE))
    return found


def without(folder: Path, part: Part, copy: Path) -> Path:
    """Copy evidence without a part of it."""
    shutil.copytree(folder, copy)
    if part.file:
        WAYS[part.way](copy / part.table / part.file)
    else:
        shutil.rmtree(copy / part.table)
    return copy


def unnoticed(spark: SparkSession, copy: Path, part: Part) -> list[str]:
    """Return a line where the audit does not notice what is missing, and takes nothing else for it."""
    evidence = open_evidence(spark, str(copy))
    # Topics of which nothing is there were not read.
    wanted = set() if part.table == "records" and not evidence.has("records") else {part.table}
    if wanted == evidence.lacking.keys():
        return []
    return [f"{part}: what lacks is {dict(evidence.lacking) or 'nothing'}"]


def misjudged(spark: SparkSession, copy: Path, part: Part, whole: Audit, levels: Levels) -> list[str]:
    """Return a line for each check that is not unknown for what is missing, or not as it was without."""
    done = audit(spark, str(copy), levels)
    lines = [] if done.verdict == "unknown" else [f"{part}: the run's verdict is {done.verdict}"]
    for before, now in zip(whole.results, done.results, strict=True):
        of_delivery = now.name == "delivery" and part.table in _OF_DELIVERY
        if of_delivery or part.table in needs(now.name, done.evidence.run):
            anomalies = now.anomalies.keys() - {"unledgered"}
            # Where no records are there at all, the topics were not read: what needs none of them is judged.
            read = part.table != "records" or done.evidence.has("records")
            right = not anomalies and (
                now.verdict == "unknown" or (not read and now.verdict == before.verdict)
            )
        else:
            right = (now.verdict, now.anomalies) == (before.verdict, before.anomalies)
        if not right:
            lines.append(f"{part}: {now.name} is {now.verdict}: {now.because}")
    return lines
