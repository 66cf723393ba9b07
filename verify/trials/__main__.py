"""``python -m verify.trials capacity|compare --run-dir runs/ID``; ``--check`` says what would be done.

With ``--check`` settings, load and slo come as JSON on standard input, and nothing is written.

capacity.yml and compare.yml call it. Exit 0 when all was found, 3 when an interval did not close, 2 when
something has to be mended, 130 when interrupted: the next call on the same folder goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import yaml

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import Levels
from verify.process import Ending
from verify.trials import capacity, compare
from verify.trials.progress import RunLog
from verify.trials.settings import TrialsError, judging, of_load, read_file, read_settings

#: How often a run that waits asks for the hosts.
_ASK_S: Final = 0.3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials, or describe them; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.trials", description=__doc__)
    parser.add_argument("what", choices=["capacity", "compare"])
    parser.add_argument(
        "--run-dir", type=Path, help="the run's folder, with trials.json, plan.json, load.json"
    )
    parser.add_argument("--check", action="store_true", help="say what would be done with what stdin says")
    parser.add_argument("--quiet", action="store_true", help="with --check: say only what is wrong with them")
    options = parser.parse_args(arguments)
    log = RunLog(options.run_dir / "trials.log" if options.run_dir else None)
    try:
        if options.check:
            lines = _described(options.what, json.load(sys.stdin))
            for line in () if options.quiet else lines:
                log.say(line)
            return 0
        parent = os.environ.get("KEDGE_PARENT_PID")
        ending = Ending(int(parent) if parent else None)
        settings = read_file(options.run_dir / "trials.json")
        if settings.what not in ("", options.what):
            raise TrialsError(
                f"resume={options.run_dir.name} is a run of {settings.what}.yml, which {options.what}.yml "
                "cannot go on with"
            )
        _planned_still(options.run_dir)
        run = capacity.capacity if options.what == "capacity" else compare.compare_variants
        with _alone(options.run_dir.parent / ".trials.lock", ending, log):
            return run(settings, options.run_dir, ending, log)
    except (TrialsError, EvidenceError) as error:
        log.say(f"error: {error}. {_kept(options)}")
        return 2
    except InterruptedError:
        log.say(f"interrupted; it goes on with -e resume={options.run_dir.name}")
        return 130


def _kept(options: argparse.Namespace) -> str:
    """Return what holds after an error, and what to do."""
    if options.check:
        return "No load test began, and no host was touched. Fix that, then run the playbook again"
    return (
        "No further load test began; the results of those that ended are kept. Fix that, then run "
        f"{options.what}.yml again with -e resume={options.run_dir.name}"
    )


@contextlib.contextmanager
def _alone(lock: Path, ending: Ending, log: RunLog) -> Iterator[None]:
    """Wait until no other run has the hosts: one that was interrupted still puts them back.

    Raises InterruptedError when told to end meanwhile.
    """
    with lock.open("a") as file:
        waits = False
        while not _taken(file):
            if not waits:
                log.say("waits for another run of load tests to leave the hosts as they were")
            waits = True
            if ending:
                raise InterruptedError("ended while another run had the hosts")
            # A lock that is waited for goes on waiting after a signal: it is asked for again and again.
            time.sleep(_ASK_S)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _planned_still(run_dir: Path) -> None:
    """Raise TrialsError where a run that goes on would mix trials of two plans, loads or levels."""
    now = run_dir / "now"
    if not now.is_dir():
        return
    for name, what in (("plan.json", "the plan"), ("load.json", "verify"), ("slo.yml", "service_levels")):
        read = json.loads if name.endswith(".json") else yaml.safe_load
        before, after = (read((folder / name).read_text(encoding="utf-8")) or {} for folder in (run_dir, now))
        # The run's own name.
        if any(before.get(key) != after.get(key) for key in {*before, *after} - {"run_id"}):
            raise TrialsError(
                f"resume={run_dir.name}: {what} of the inventory changed since the run began, and "
                "load tests of both say nothing together: begin anew, or take the change back"
            )


def _described(what: str, document: dict[str, object]) -> list[str]:
    """Return what a run would do; raises TrialsError where it cannot begin."""
    settings = read_settings(json.dumps(document["settings"]))
    load = dict(document["load"])  # type: ignore[call-overload]
    settings = of_load(settings, load)
    if what == "capacity":
        judging(Levels.model_validate(document["slo"]), settings.service)
    return (capacity.describe if what == "capacity" else compare.describe)(settings, load)


if __name__ == "__main__":
    sys.exit(main())
