"""`python -m verify.audit --run-dir runs/ID --inventory INV [--wait-s S]`: collect from hosts, then audit.

With ``--wait-s`` it begins while the load still runs, and waits for its end. Meanwhile Spark's session starts
and, where the load goes on, audits a little of what is there already, at the lowest priority. An audit of
that which has begun is waited for. Exit status as that of `kedge audit`: 2 also when the load
failed, or the run's folder or the inventory cannot be read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import read_levels
from kedge.evidence.load_options import LoadError
from kedge.evidence.load_state import await_phase, parts_of, reached
from kedge.evidence.writing import write_json
from spark_checks.command import conclude, settled
from spark_checks.job import Auditor
from verify.collect.__main__ import collect
from verify.collect.hosts import CollectError
from verify.process import now_us

#: Records of each partition, and rows of each writer, that are audited before it counts: few enough that it
#: takes hardly longer than the code, which Java and Spark see for the first time.
_RECORDS: Final = 200
_ROWS: Final = 1_000
#: The load and whatever else runs goes first.
_LOWEST: Final = 19


def main(arguments: list[str] | None = None) -> int:
    """Wait for the load, collect and audit; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.audit", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's folder, with plan.json")
    parser.add_argument("--inventory", required=True, help="how the hosts are reached")
    parser.add_argument(
        "--wait-s", type=float, help="how long to wait for the load's end (default: not at all)"
    )
    parser.add_argument("--history", default="", help="the table of figures of earlier runs, a URI")
    options = parser.parse_args(arguments)
    log = options.run_dir / "report" / "spark.log"
    return settled(
        lambda: _audit(options.run_dir, options.inventory, options.wait_s, options.history, log), log
    )


def _audit(run_dir: Path, inventory: str, wait_s: float | None, history: str, log: Path) -> int:
    report = log.parent
    report.mkdir(parents=True, exist_ok=True)
    waits = wait_s is not None
    if waits:
        os.nice(_LOWEST)
    with Auditor(log) as auditor:
        starting = threading.Thread(target=warm_up if waits else _start, args=(auditor, run_dir))
        starting.start()
        try:
            for what in parts_of(run_dir) if wait_s is not None else ():
                await_phase(run_dir, "done", wait_s or 0, print, what)
            collect(run_dir, inventory)
        except (LoadError, CollectError) as error:
            again = f"python -m verify.audit --run-dir {run_dir} --inventory {inventory}"
            print(
                f"{error}. Nothing was judged, and the evidence so far is kept. Fix that, then run {again}",
                file=sys.stderr,
            )
            return 2
        finally:
            starting.join()
        places = (str(run_dir / "evidence"), str(run_dir / "slo.yml"), str(report))
        return conclude(auditor, *places, history=history)


def _start(auditor: Auditor, _run_dir: Path) -> None:
    # The audit asks again, and says why there is no session.
    with suppress(EvidenceError):
        auditor.start()


def warm_up(auditor: Auditor, run_dir: Path) -> None:
    """Start Spark, and audit a little of the evidence so far for its code alone: what it says is dropped.

    Where the load no longer runs, only Spark starts: then the audit would wait for longer than it gains.
    """
    _start(auditor, run_dir)
    # What the load does meanwhile may pull any file away.
    with tempfile.TemporaryDirectory() as folder, suppress(EvidenceError, OSError, ValueError, LookupError):
        if reached(run_dir, "draining"):
            return
        copy = Path(folder)
        sample(run_dir / "evidence", copy)
        auditor.audit(str(copy), read_levels(run_dir / "slo.yml"))


def sample(evidence: Path, copy: Path) -> None:
    """Copy the first rows of each writer, and a run.json that asks for the first records of each partition.

    Raises:
        OSError, ValueError, LookupError: when the load is not so far yet.
    """
    for table in (folder for folder in evidence.iterdir() if folder.is_dir()):
        oldest: dict[str, Path] = {}
        for file in sorted(table.glob("[!.]*.parquet"), key=lambda path: path.stat().st_mtime):
            oldest.setdefault(file.name.rpartition("-")[0], file)
        for file in oldest.values():
            (copy / table.name).mkdir(exist_ok=True)
            with pq.ParquetFile(file) as rows:
                first = next(rows.iter_batches(batch_size=_ROWS), None)
                some = pa.Table.from_batches([] if first is None else [first], rows.schema_arrow)
            pq.write_table(some, copy / table.name / file.name)
    run = json.loads((evidence / "run.json").read_text(encoding="utf-8"))
    for topic in run["topics"]:
        topic["end_offsets"] = {key: start + _RECORDS for key, start in topic["start_offsets"].items()}
    # Of what is listed a little is there.
    write_json(copy / "run.json", {**run, "files": None, "measured_until_us": now_us(), "ended_us": now_us()})


if __name__ == "__main__":
    sys.exit(main())
