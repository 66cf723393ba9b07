"""The audit on a standalone cluster of two workers of one core each, beside ``local[2]``, in one run.

    python -m lab.bench.audit.cluster [--millions 10] [--rounds 3]

Both read the same files and take turns, each in a process of its own. Seconds are those of ``timings_s``, the
session's start apart. Written to scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from lab.bench.audit.measured import keep
from lab.bench.audit.scale import ROOT, make
from tests.spark_cluster import cluster

#: A worker's memory; the driver of ``local[2]`` has as much as both.
_WORKER: Final = "2g"


def main() -> int:
    """Measure both and keep what was measured."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.audit.cluster", description=__doc__)
    parser.add_argument("--millions", type=int, default=10, help="records (default: 10)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both (default: 3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "evidence", options.millions)
        (folder / "slo.yml").write_text("{}\n")
        took: dict[str, list[float]] = {"local[2]": [], "cluster": []}
        with cluster(folder, _WORKER) as address:
            for number in range(options.rounds):
                for where, master in (("local[2]", "local[2]"), ("cluster", address)):
                    took[where].append(_audit(folder, master))
                    print(f"round {number + 1}: {where} {took[where][-1]:.1f} s", flush=True)
    seconds = {where: round(statistics.median(each), 1) for where, each in took.items()}
    ratios = [c / one for one, c in zip(took["local[2]"], took["cluster"], strict=True)]
    found = {
        "millions": options.millions,
        "rounds": options.rounds,
        "local_s": seconds["local[2]"],
        "cluster_s": seconds["cluster"],
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(min(ratios), 2), round(max(ratios), 2)],
    }
    keep({"cluster": found})
    print(f"cluster/local[2]: {found['ratio']} ({found['ratios'][0]} to {found['ratios'][1]})")
    return 0


def _audit(folder: Path, master: str) -> float:
    """Return the seconds of one audit without its session's start."""
    out = folder / "report"
    command = [sys.executable, "-m", "spark_checks", "--evidence", str(folder / "evidence"), "--slo"]
    done = subprocess.run(
        [*command, str(folder / "slo.yml"), "--out", str(out), "--master", master],
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 2:
        raise SystemExit(f"{master}: {done.stderr.strip()[-500:]}")
    timings = json.loads((out / "verdicts.json").read_text())["timings_s"]
    return float(timings["all"]) - float(timings["start"])


if __name__ == "__main__":
    sys.exit(main())
