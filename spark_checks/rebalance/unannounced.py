"""Processes that began anew without an action that says so: restarted by hand, or fallen over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.rebalance.restarts import Restart
from spark_checks.results import Anomaly

#: Samples bear the time of their host's clock and come once a second; actions that of the control machine.
_CLOCKS_APART_US: Final = 2_000_000
_WHO: Final = ("host", "service", "instance")
_SHOWN: Final = (*_WHO, "from_us", "until_us")


def unannounced(processes: pd.DataFrame, restarts: list[Restart], run: Run) -> dict[str, Anomaly]:
    """Find instances whose process began anew between two samples, over the whole run.

    A process's CPU time only ever grows: where it went down, another process runs.

    Returns:
        ``unannounced_restart``: host, service, instance, from_us and until_us, the samples before and after.
    """
    return tally(list(begun_anew(processes, restarts, run)), _SHOWN)


def begun_anew(processes: pd.DataFrame, restarts: list[Restart], run: Run) -> Iterator[dict[str, Any]]:
    """Give those that began anew while no restart of their instance was under way (kind, _SHOWN)."""
    for who, mine in processes.groupby([*_WHO]):
        samples = mine.sort_values("at_us", kind="stable")
        at = samples["at_us"].to_numpy()
        for number in np.flatnonzero(np.diff(samples["cpu_us"].to_numpy()) < 0):
            begin, end = int(at[number]), int(at[number + 1])
            if not any(_known(one, who, begin, end, run) for one in restarts):
                named = dict(zip(_WHO, who, strict=True))
                yield {"kind": "unannounced_restart", **named, "from_us": begin, "until_us": end}


def _known(one: Restart, who: tuple[str, ...], begin: int, end: int, run: Run) -> bool:
    if (one.host, one.service, one.instance) != who or end < one.begin_us - _CLOCKS_APART_US:
        return False
    until = run.ended_us if one.end_us is None else one.end_us
    return until is None or begin <= until + _CLOCKS_APART_US
