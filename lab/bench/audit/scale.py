"""How time and memory of the audit grow with the records, beside DuckDB and joins written directly in Spark.

    python -m lab.bench.audit.scale 1 10 100     millions of records; what was measured of other sizes is kept

For each size a ledger and a topic dump of as many records are made, three records are taken out of the topic
and two are put in twice. All ways (see lab.bench.audit.one) read the same files in one run, taking turns, on
two cores; all must find those five. Peak memory is that of the process with its children (proportional set
size, four looks a second). Written to scale.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lab.bench.audit.measured import WAYS, keep
from tests.faults.synthetic import write_evidence, write_file

ROOT = Path(__file__).resolve().parents[3]
LOST = (1_234, 500_001, 777_777)
TWICE = (42, 700_000)
ROUNDS = {1: 3, 10: 3, 100: 1}


def make(folder: Path, millions: int) -> None:
    """Write evidence of that many records with the five faults in it."""
    write_evidence(folder, millions * 1_000_000, partitions=12, restarts=0, consumed=False)
    file = folder / "records" / "kafka-0.parquet"
    table = pq.read_table(file)
    write_file(file, table.filter(pc.invert(pc.is_in(table["seq"], pa.array(LOST)))))
    twice = table.filter(pc.is_in(table["seq"], pa.array(TWICE)))
    later = pc.add(twice["offset"], 1_000_000_000)
    at = table.schema.get_field_index("offset")
    write_file(
        file.with_name("kafka-more.parquet"), twice.set_column(at, table.schema.field("offset"), later)
    )


def measure(way: str, folder: Path) -> dict[str, Any]:
    """Return what one process gave, with its peak memory in GB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.bench.audit.one", way, str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    peak = [0]
    watch = threading.Thread(target=_watch, args=(process, peak), daemon=True)
    watch.start()
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{way} ended with {process.returncode}")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result | {"peak_gb": peak[0] / 1e9}


def _watch(process: subprocess.Popen[str], peak: list[int]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(_pss(pid) for pid in _tree(process.pid)))
        time.sleep(0.25)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in task.read_text().split() for one in _tree(int(child))]
        except OSError:
            continue
    return found


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main(sizes: list[int], ways: list[str], *, keep_evidence: bool) -> int:
    """Measure each size in each way, print and keep the results."""
    for millions in sizes:
        folder = ROOT / "build" / f"audit-{millions}m"
        if not (folder / "run.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder, millions)
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(ROUNDS.get(millions, 1)):
            for way in ways:
                run = measure(way, folder)
                assert sorted(run["found"]["lost"]) == sorted(LOST), (way, run)
                assert sorted(run["found"]["duplicated"]) == sorted(TWICE), (way, run)
                runs[way].append(run)
                print(
                    f"{millions} million, {way}: {run['seconds']:.1f} s, {run['peak_gb']:.2f} GB", flush=True
                )
        found = {
            way: {
                "seconds": round(statistics.median(run["seconds"] for run in some), 2),
                "all_seconds": [round(run["seconds"], 2) for run in some],
                "start_s": round(statistics.median(run["start_s"] for run in some), 2),
                "peak_gb": round(max(run["peak_gb"] for run in some), 2),
                **{name: some[0][name] for name in ("read_bytes", "shuffled_bytes") if name in some[0]},
            }
            for way, some in runs.items()
        }
        keep({"sizes": {str(millions): found}})
        if not keep_evidence:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lab.bench.audit.scale", description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[1, 10], help="millions of records")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="default: all")
    parser.add_argument("--keep", action="store_true", help="leave the evidence under build/ for another run")
    options = parser.parse_args()
    sys.exit(main(options.sizes, options.ways, keep_evidence=options.keep))
