"""``python -m lab.bench.trials.hosts runs/ID [--hold RATE]``: the usual search on the hosts of capacity.yml.

With the load and the levels of that run, no instance restarting and no host away: a plain bisection by full
trials, what it took, and what it says. With ``--hold`` one run of ``--seconds`` at that rate: does what a
search said hold in a run that it did not see?
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.bench.trials.simulated import bisect
from spark_checks.job import Auditor
from verify.process import Ending
from verify.trials.capacity import rules_of
from verify.trials.progress import RunLog, result
from verify.trials.settings import of_load, read_file, way_of
from verify.trials.trial import TrialResult, TrialSpec, outcomes, run
from verify.trials.warming import warm, warm_up


class Hosts:
    """Runs trials as capacity.yml does, in a folder beside its own, for a bisection to ask."""

    def __init__(self, run_dir: Path, seconds: float | None) -> None:
        self.load = json.loads((run_dir / "load.json").read_text(encoding="utf-8"))
        self.settings = of_load(read_file(run_dir / "trials.json"), self.load)
        self.way = way_of(self.load, self.settings.service)
        self.folder = run_dir / "bench"
        (self.folder / "trials").mkdir(parents=True, exist_ok=True)
        for name in ("plan.json", "load.json", "slo.yml", "inventory.yml"):
            shutil.copy(run_dir / name, self.folder / name)
        self.seconds = seconds or self.settings.full_s
        self.auditor = Auditor(self.folder / "spark.log")
        self.done: list[TrialResult] = outcomes(self.folder)

    def warm(self, load: float) -> None:
        """Have processes that may have just begun compile their code, as capacity.yml does."""
        asked = TrialSpec(0, "", "healthy", load, 0, "full", self.folder)
        warming = partial(warm, asked, self.folder, self.way, Ending(None))
        for small in (True, False):
            warm_up(warming, self.settings.fresh_s, RunLog(), small=small)

    def passes(self, condition: str, load: float, kind: str) -> bool:
        """Run a trial, and say what came of it."""
        number = len(self.done) + 1
        name = f"{number:03d}-{condition}-{load:.0f}"
        asked = TrialSpec(number, name, condition, load, self.seconds, kind, self.folder)
        warm_up_s = self.settings.warm_up_s
        one = run(asked, self.folder, self.way, warm_up_s, self.auditor, Ending(None), None, report_too=True)
        self.done.append(one)
        RunLog().say(f"{load:,.0f} records/s for {self.seconds:g} s: {result(self.done).strip()}")
        return one.passed


def main() -> None:
    """Bisect, or hold."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.trials.hosts", description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a run of capacity.yml")
    parser.add_argument("--hold", type=float, help="records/s of one run")
    parser.add_argument(
        "--seconds", type=float, help="steady seconds of a load test (default: the run's, or 600)"
    )
    options = parser.parse_args()
    hosts = Hosts(options.run, options.seconds or (600 if options.hold else None))
    try:
        rules = rules_of(hosts.settings, hosts.load[hosts.way]["records_per_s"])
        hosts.warm(options.hold or rules.start)
        if options.hold:
            hosts.passes("healthy", options.hold, "full")
            return
        began = time.monotonic()
        found = bisect(hosts, replace(rules, conditions=("healthy",)))
        minutes = (time.monotonic() - began) / 60
        print(f"bisection: {found.carries:,.0f} records/s, {found.trials} full load tests, {minutes:.0f} min")
    finally:
        hosts.auditor.close()


if __name__ == "__main__":
    main()
