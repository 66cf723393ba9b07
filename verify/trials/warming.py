"""Warming processes up before what they do is compared."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from kedge.deploy.load_spec import load_option
from kedge.evidence.writing import write_json
from kedge.trials.bottleneck import cpu_us_a_record
from verify.process import Ending, now_us
from verify.trials.progress import RunLog
from verify.trials.settings import TESTS
from verify.trials.trial import TrialSpec, send_load, write_down

#: Warming up takes so many times as long at most. In small requests it ends where a round takes more than
#: this share of the processor time a record of the best before.
MOST: Final = 4
_LEVEL_SMALL: Final = 0.8
#: Requests/s at which processes warm up, where a request has several records: compilers count calls, and a
#: generator of one core sends more than that.
_WARM_REQUESTS_S: Final = 1000
#: How long proxies still get a backlog after they were warmed up.
_WARM_DRAIN_S: Final = 2.0


#: Samples are written every two seconds, the load's state every second: those of a round are there so much
#: later.
_WRITTEN_S: Final = 3.0
#: A round with so many times the records that were due catches up, and says nothing of the load.
_CATCHES_UP: Final = 1.1
#: A load that fails is begun once more.
_ATTEMPTS: Final = 2

#: Whether a round that took so much processor time a record (microseconds; None where nothing is known) is
#: the last one.
Steady = Callable[[float | None], bool]


class LevelRounds:
    """Which round of a warm-up is the last: it and those before cost hardly less than the best before them.

    One level round says little: on busy cores the compilers' threads wait for their turn.
    """

    def __init__(self, share: float = 0.95, in_a_row: int = 2) -> None:
        """Take a round for level that costs ``share`` of the best before or more; ``in_a_row`` are enough."""
        self._share, self._in_a_row = share, in_a_row
        self._best: float | None = None
        self._level = 0

    def last(self, cost: float | None) -> bool:
        """Count a round in. None is one of which nothing is known: level, unless it is the first."""
        cost = math.inf if cost is None else cost
        level = self._best is not None and cost >= self._share * self._best
        self._level = self._level + 1 if level else 0
        self._best = cost if self._best is None else min(self._best, cost)
        return self._level >= self._in_a_row


def warm_up(load: Callable[..., str], fresh_s: float, log: RunLog, *, small: bool) -> None:
    """Load processes until the processor time that a record takes of them is level.

    A search whose processes get quicker from trial to trial finds no limit (lab/measurements/trials.md), and
    variants that are still being compiled are compared by their compilers.
    ``load`` loads them for so many seconds at most, in ``small`` requests or in those of the load, and asks
    ``steady`` after each round of ``round_s`` seconds. It returns why the load failed, if it did.
    """
    rounds = LevelRounds(_LEVEL_SMALL, in_a_row=1) if small else LevelRounds()

    def steady(took: float | None) -> bool:
        if took is not None:
            log.say(f"  warming up: {took:.0f} µs of processor time a record")
        return rounds.last(took)

    for _ in range(_ATTEMPTS if fresh_s else 0):
        wrong = load(MOST * fresh_s, small=small, round_s=fresh_s / 2, steady=steady)
        if not wrong:
            return
        log.say(f"  warming up: {wrong}")


def warm(
    asked: TrialSpec,
    run_dir: Path,
    way: Literal["kafka", "rest"],
    ending: Ending,
    seconds: float,
    *,
    small: bool = True,
    round_s: float = 0.0,
    steady: Steady | None = None,
) -> str:
    """Have processes that may have just begun compile their code, by the load of a trial.

    They spend several times as much processor time on a record as after ten minutes of load
    (lab/measurements/trials.md), and fall behind at first. ``small`` sends the load in many more requests.
    Where ``steady`` is given, it is asked after each round of ``round_s`` seconds whether that is enough.
    Nothing of the load is judged or kept. Returns why it failed, if it did. Raises InterruptedError when told
    to end, TrialsError when the load cannot begin.
    """
    if not seconds:
        return ""
    asked = replace(asked, name="000-warm", condition="healthy", seconds=seconds)
    folder = write_down(asked, run_dir, way, 0)
    load = json.loads((folder / "load.json").read_text(encoding="utf-8"))
    if small and (in_a_request := load[way].get("records_per_request")):
        fewer = math.ceil(asked.load / _WARM_REQUESTS_S)
        load[way]["records_per_request"] = min(in_a_request, fewer)
    load["late_ms"] = None
    # The backlog of what reads topics stays in them, before the next trial's records.
    reads = TESTS[load_option(load, "service")].reads_topics
    load["drain_s"] = max(seconds, load.get("drain_s", 0.0)) if reads else _WARM_DRAIN_S
    write_json(folder / "load.json", load)
    rounds = Rounds(folder, round_s, asked.load, steady) if steady else None
    try:
        return send_load(
            folder, asked, run_dir / "inventory.yml", ending, None, hopeless_s=math.inf, enough_of=rounds
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Rounds:
    """Tells of a load that runs what a record took in each of its rounds, and whether one was the last."""

    def __init__(self, folder: Path, seconds: float, records_per_s: float, steady: Steady) -> None:
        self._folder, self._round_us, self._steady = folder, int(seconds * 1_000_000), steady
        self._due = seconds * records_per_s
        self._acked: list[tuple[int, int]] = []
        self._done = 0

    def __call__(self, state: Mapping[str, Any]) -> bool:
        """Tell whether the load is enough, by its state now."""
        written_us = (self._folder / "load.state").stat().st_mtime_ns // 1000
        if not self._acked or written_us > self._acked[-1][0]:
            self._acked.append((written_us, int(state.get("acked", 0))))
        begin_us = self._started_us + self._done * self._round_us
        end_us = begin_us + self._round_us
        if now_us() < end_us + _WRITTEN_S * 1_000_000:
            return False
        self._done += 1
        acked = self._acked_at(end_us) - self._acked_at(begin_us)
        if acked > _CATCHES_UP * self._due:
            return False
        return self._steady(cpu_us_a_record(self._folder, begin_us, end_us, acked))

    @cached_property
    def _started_us(self) -> int:
        run = json.loads((self._folder / "evidence" / "run.json").read_text(encoding="utf-8"))
        return int(run["started_us"])

    def _acked_at(self, at_us: int) -> float:
        """Return how many were acknowledged by a time, between the states that were written around it."""
        known = [(self._started_us, 0), *(one for one in self._acked if one[0] > self._started_us)]
        times, counts = zip(*known, strict=True)
        return float(np.interp(at_us, times, counts))
