"""`python -m verify.watch --run-dir runs/ID --inventory INV`: watch what flows, as watch.json there says.

Nothing is sent. It ends after the file ``stop`` is there or the playbook has ended (KEDGE_PARENT_PID), once
all groups are stable and have caught up, or after ``after_s``. Writes watch.state (phases as a load has them:
warming while what is usual is learned), watched.json, and run.json where no load runs beside it.
Exit 0 then, 2 when something has to be mended first, 128 + signal when told to end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from kedge.evidence.listing import files_of
from kedge.evidence.load_state import Phase
from kedge.evidence.release import RUN_SCHEMA
from kedge.evidence.watch_options import OUTCOME, WatchError, WatchSpec, read_watch
from kedge.evidence.writing import write_json
from verify.process import Ending, SteadyClock, end_all, last_line, leave, start_module
from verify.watch.traffic import CHOSEN, stands_of

_TICK_S: Final = 0.2
_CHOICE_S: Final = 90.0
#: Samples after the last change of which the end is judged.
_LEAST_AFTER_S: Final = 12.0
#: Between two starts of a sampler that ended by itself.
_AGAIN_S: Final = 1.0
_LINE_EVERY_S: Final = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Watch; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.watch", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's folder, with watch.json")
    parser.add_argument("--inventory", required=True, help="how the hosts are reached")
    options = parser.parse_args(arguments)
    run_dir = options.run_dir.resolve()
    parent = os.environ.get("KEDGE_PARENT_PID")
    ending = Ending(int(parent) if parent else None)
    try:
        spec = read_watch(run_dir)
        return _Watch(spec, run_dir, options.inventory, ending).run()
    except WatchError as error:
        _state(run_dir, "failed", str(error))
        print(
            f"{error}. Nothing was changed. Fix that, then run the playbook again",
            file=sys.stderr,
            flush=True,
        )
        return 2


class _Watch:
    def __init__(self, spec: WatchSpec, run_dir: Path, inventory: str, ending: Ending) -> None:
        self._spec, self._dir, self._inventory, self._ending = spec, run_dir, inventory, ending
        self._sampler: subprocess.Popen[bytes] | None = None
        self._hosts: subprocess.Popen[bytes] | None = None
        self._clock = SteadyClock()
        self._due = 0.0
        self._line_due = 0.0
        self._chosen: dict[str, Any] = {}
        self._started_us = 0
        self._usual_until_us: int | None = None
        self._ended_us: int | None = None
        self._usual_lag: dict[str, int] = {}
        self._usual_states: dict[str, set[str]] = {}

    def run(self) -> int:
        """Lead through the phases; return the exit status."""
        (self._dir / "logs").mkdir(exist_ok=True)
        _state(self._dir, "starting")
        try:
            self._begin()
            self._until_running()
            while not self._stopped():
                self._tick("running")
            self._until_back()
        finally:
            end_all([child for child in (self._sampler, self._hosts) if child])
            self._write(whole=not self._told())
        if self._told():
            _state(self._dir, "failed", f"ended by signal {self._ending.signal}")
            return 128 + self._ending.signal
        _state(self._dir, "done")
        return 0

    def _told(self) -> bool:
        """Return whether somebody ended the watch itself, not only the playbook."""
        return bool(self._ending) and not self._ending.parent_ended

    def _stopped(self) -> bool:
        return bool(self._ending) or (self._dir / "stop").exists()

    def _begin(self) -> None:
        self._started_us = self._clock.now_us()
        self._start_sampler()
        deadline = time.monotonic() + _CHOICE_S
        while not (self._dir / CHOSEN).exists():
            assert self._sampler is not None
            if self._told() or self._sampler.poll() == 2 or time.monotonic() > deadline:
                raise WatchError(f"nothing can be watched: {last_line(self._log) or 'no cluster answers'}")
            self._tick("starting")
        self._chosen = json.loads((self._dir / CHOSEN).read_text(encoding="utf-8"))
        self._started_us = self._clock.now_us()
        print(_said(self._chosen), flush=True)
        if not self._chosen["topics"] and not self._chosen["groups"]:
            silent = [one for one in self._chosen["not_watched"] if one["kind"] == "cluster"]
            why = "; ".join(f"cluster {one['name']}: {one['why']}" for one in silent)
            raise WatchError(why or "nothing is there to watch: name topics or groups in verify.watch")
        self._write(whole=False)
        if self._spec.alone:
            # What brings samples of the hosts lives as long as this process does.
            words = ("--run-dir", self._dir, "--inventory", self._inventory)
            own = {"KEDGE_PARENT_PID": str(os.getpid())}
            self._hosts = start_module(
                "verify.watch.host_watcher", *words, log=self._dir / "processes.log", environment=own
            )

    def _until_running(self) -> None:
        began = time.monotonic()
        while time.monotonic() - began < self._spec.options.before_s and not self._stopped():
            for group, stands in stands_of(self._dir).items():
                self._usual_states.setdefault(group, set()).add(stands["state"])
                if stands["lag"] is not None:
                    self._usual_lag[group] = max(self._usual_lag.get(group, 0), stands["lag"])
            self._tick("warming")
        self._usual_until_us = self._clock.now_us()
        self._write(whole=False)

    def _until_back(self) -> None:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self._spec.options.after_s and not self._told():
            if passed >= _LEAST_AFTER_S and not self._not_back():
                break
            self._tick("draining")
        self._ended_us = self._clock.now_us()

    def _not_back(self) -> list[str]:
        """Return the groups that are in no state that they usually are in, or further behind than usual."""
        return [
            group
            for group, stands in stands_of(self._dir).items()
            if stands["state"] not in {"Stable", *self._usual_states.get(group, ())}
            or (stands["lag"] or 0) > self._usual_lag.get(group, stands["lag"] or 0)
        ]

    def _start_sampler(self) -> None:
        self._sampler = start_module("verify.watch.traffic", self._dir, os.getpid(), log=self._log)
        self._due = time.monotonic() + _AGAIN_S

    @property
    def _log(self) -> Path:
        return self._dir / "logs" / "watch.log"

    def _tick(self, phase: Phase) -> None:
        """Pass a moment: start a sampler again that ended by itself, tell the state."""
        time.sleep(_TICK_S)
        sampler = self._sampler
        if sampler is not None and sampler.poll() is not None and time.monotonic() >= self._due:
            print(
                f"the sampler ended with {sampler.returncode}; it is started again",
                file=sys.stderr,
                flush=True,
            )
            self._start_sampler()
        _state(self._dir, phase)
        if time.monotonic() >= self._line_due and phase != "starting":
            self._line_due = time.monotonic() + _LINE_EVERY_S
            print(self._line(phase), flush=True)

    def _line(self, phase: Phase) -> str:
        stands = stands_of(self._dir)
        stable = sum(one["state"] == "Stable" for one in stands.values())
        lag = sum(one["lag"] or 0 for one in stands.values())
        return f"{phase}: {stable} of {len(stands)} groups stable, {lag:,} records behind"

    def _write(self, *, whole: bool) -> None:
        outcome = {
            "interval_us": round(self._spec.options.interval_s * 1e6),
            "started_us": self._started_us,
            "usual_until_us": self._usual_until_us,
            "ended_us": self._ended_us if whole else None,
            **{key: self._chosen.get(key, empty) for key, empty in _PARTS.items()},
            "balancers": list(self._spec.balancers),
            "changing": self._spec.changing,
        }
        write_json(self._dir / OUTCOME, outcome)
        if self._spec.alone:
            write_json(self._dir / "evidence" / "run.json", self._run_document(outcome))

    def _run_document(self, outcome: dict[str, Any]) -> dict[str, Any]:
        ended = outcome["ended_us"]
        return {
            "schema": RUN_SCHEMA,
            "run_id": self._spec.run_id,
            "started_us": self._started_us,
            "measured_until_us": ended,
            "ended_us": ended,
            "topics": [],
            "sampling_us": dict.fromkeys(("group_states", "end_offsets"), outcome["interval_us"]),
            "watch": outcome,
            "files": files_of(self._dir / "evidence") if ended else None,
        }


#: Parts of run.json that the sampler tells.
_PARTS: Final[dict[str, Any]] = {"topics": [], "groups": {}, "not_watched": [], "not_watched_more": 0}


def _said(chosen: dict[str, Any]) -> str:
    left = len(chosen["not_watched"]) + chosen["not_watched_more"]
    partitions = sum(topic["partitions"] for topic in chosen["topics"])
    beside = f"; {left} more are not watched, see {OUTCOME}" if left else ""
    topics, groups = len(chosen["topics"]), len(chosen["groups"])
    return f"watching {topics} topics of {partitions} partitions, {groups} groups{beside}"


def _state(run_dir: Path, phase: Phase, message: str = "") -> None:
    write_json(run_dir / "watch.state", {"phase": phase, "message": message})


if __name__ == "__main__":
    leave(main())
