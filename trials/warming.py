"""Warming processes up before what they do is compared."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from evidence.writing import write_json
from trials.bottleneck import costs
from trials.progress import RunLog
from trials.trial import TrialSpec, send_load, write_down
from verify.process import Ending

#: Warming up takes so many times as long at most, and ends where a round takes more than this share of the
#: processor time a record of the round before, in small requests or in those of the load.
MOST: Final = 4
_STEADY_SMALL: Final = 0.8
_STEADY: Final = 0.95
#: Requests/s at which processes warm up, where a request has several records: compilers count calls, and a
#: generator of one core sends more than that.
_WARM_REQUESTS_S: Final = 1000
#: How long proxies still get a backlog after they were warmed up.
_WARM_DRAIN_S: Final = 2.0


def warm_up(rounds: Callable[..., float | None], fresh_s: float, log: RunLog, *, small: bool) -> None:
    """Load processes until a record takes hardly less of their processors than a moment before.

    A search whose processes get quicker from trial to trial finds no limit (docs/measurements/trials.md), and
    variants that are still being compiled are compared by their compilers.
    ``rounds`` loads them for so many seconds, in ``small`` requests or in those of the load, and returns the
    processor time a record (microseconds).
    """
    before, steady = math.inf, _STEADY_SMALL if small else _STEADY
    for number in range(2 * MOST if fresh_s else 0):
        took = rounds(fresh_s / 2, small=small)
        if took is not None:
            log.say(f"  warming up: {took:.0f} µs of processor time a record")
        if number and (took is None or took > steady * before):
            return
        before = took or before


def warm(
    asked: TrialSpec,
    run_dir: Path,
    way: Literal["kafka", "rest"],
    ending: Ending,
    seconds: float,
    small: bool = True,
) -> float | None:
    """Have processes that may have just begun compile their code, by the load of a trial.

    They spend several times as much processor time on a record as after ten minutes of load
    (docs/measurements/trials.md), and fall behind at first. ``small`` sends the load in many more requests.
    Nothing of it is judged or kept. Returns the processor time a record of all that is sampled
    (microseconds), None where nothing is. Raises InterruptedError when told to end, TrialsError when the load
    cannot begin.
    """
    if not seconds:
        return None
    asked = replace(asked, name="000-warm", condition="healthy", seconds=seconds)
    folder = write_down(asked, run_dir, way, 0)
    load = json.loads((folder / "load.json").read_text(encoding="utf-8"))
    if small and (in_a_request := load[way].get("records_per_request")):
        fewer = math.ceil(asked.load / _WARM_REQUESTS_S)
        load[way]["records_per_request"] = min(in_a_request, fewer)
    load["late_ms"] = None
    # The backlog of others than proxies stays in the topics, before the next trial's records.
    if load.get("service", "kafka_rest") == "kafka_rest":
        load["drain_s"] = _WARM_DRAIN_S
    write_json(folder / "load.json", load)
    try:
        send_load(folder, asked, run_dir / "inventory.yml", ending, None, hopeless_s=math.inf)
        of_services = [us for name, us in costs(folder).figures.items() if name.endswith("_cpu_us_a_record")]
        return sum(of_services) if of_services else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
