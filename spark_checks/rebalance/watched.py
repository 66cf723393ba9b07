"""What nobody announced: gaps of the sampler, idle members, rebalances, processes that began anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.rebalance.restarts import Restart
from spark_checks.results import Anomaly

#: Samples further apart than this many intervals are a gap, in which a group may have been anything.
GAP_INTERVALS: Final = 3
#: A member that waits for its partitions is no idle one: callbacks and samples tell of it at different times.
_IDLE_AT_LEAST_US: Final = 5_000_000
_SHOWN: Final = ("group", "from_us", "until_us")
#: Samples bear the time of their host's clock and come once a second; actions that of the control machine.
_CLOCKS_APART_US: Final = 2_000_000
_WHO: Final = ("host", "service", "instance")
Found = dict[str, Any]


def watched(
    states: pd.DataFrame, assignments: pd.DataFrame | None, restarts: list[Restart], run: Run
) -> dict[str, Anomaly]:
    """Find where the sampler of group states slept, members without a partition, and what nobody announced.

    Returns:
        ``sampler_slept``: group, from_us, until_us, more than three intervals between two samples (or a
        sample and an end of the steady window). ``idle_member``: group, from_us, until_us, idle: how many
        members owned no partition while the group was Stable, for five seconds or more.
        ``unexplained_rebalance``: group, from_us, until_us, state: it was not Stable, and no restart in
        the actions was near: somebody restarted an instance by hand, or one fell over.
    """
    found: list[Found] = []
    for group, mine in states[states["group"].isin(run.watched_groups())].groupby("group"):
        ordered = mine.sort_values("at_us", kind="stable")
        within = ordered["at_us"].between(run.measured_from_us, run.measured_until_us)
        inside = ordered[within]
        found += slept(str(group), inside, run)
        found += unexplained(str(group), inside, restarts, run)
        owned = assignments[assignments["group"] == group] if assignments is not None else None
        # Of a group whose ownership nobody watched, nothing is known.
        if owned is not None and len(owned):
            found += idle(str(group), inside, owned)
    return tally(found, _SHOWN)


def slept(group: str, states: pd.DataFrame, run: Run) -> Iterator[Found]:
    """Give the gaps between samples: kind, group, from_us, until_us."""
    interval = run.sampling_us.get("group_states", 100_000)
    at = np.sort(np.concatenate((states["at_us"], [run.measured_from_us, run.measured_until_us])))
    for number in np.flatnonzero(np.diff(at) > GAP_INTERVALS * interval):
        yield _found("sampler_slept", group, at[number], at[number + 1])


def unexplained(group: str, states: pd.DataFrame, restarts: list[Restart], run: Run) -> Iterator[Found]:
    """Give the times not Stable that touch no restart: kind, group, from_us, until_us, state at first."""
    at = states["at_us"].to_numpy()
    stable = (states["state"].str.lower() == "stable").to_numpy()
    until = np.append(at[1:], run.measured_until_us)
    # All samples between two stable ones have seen as many stable ones before them.
    for stretch in _stretches(np.cumsum(stable)[~stable]):
        rows = np.flatnonzero(~stable)[stretch]
        begin, end = at[rows[0]], until[rows].max()
        if not any(begin < one.until_us and end > one.begin_us for one in restarts):
            state = states["state"].iloc[rows[0]]
            yield _found("unexplained_rebalance", group, begin, end) | {"state": state}


def idle(group: str, states: pd.DataFrame, assignments: pd.DataFrame) -> Iterator[Found]:
    """Give the times in which members owned nothing: kind, group, from_us, until_us, idle."""
    steps = assignments.assign(step=np.where(assignments["event"] == "assigned", 1, -1))
    moments = steps.groupby(["consumer", "at_us"], as_index=False)["step"].sum()
    moments["has"] = moments.groupby("consumer")["step"].cumsum() > 0
    has = moments["has"].astype(int)
    moments["change"] = has - has.groupby(moments["consumer"]).shift(1, fill_value=0)
    moments = moments.sort_values("at_us", kind="stable")
    owners = np.concatenate(([0], moments["change"].cumsum().to_numpy()))
    at = states["at_us"].to_numpy()
    owning = owners[np.searchsorted(moments["at_us"].to_numpy(), at, side="right")]
    members = np.where(states["state"].str.lower() == "stable", states["members"], 0)
    count = np.maximum(members - owning, 0)
    for stretch in _stretches(count):
        begin, end = at[stretch][0], at[stretch][-1]
        if count[stretch][0] > 0 and end - begin >= _IDLE_AT_LEAST_US:
            yield _found("idle_member", group, begin, end) | {"idle": int(count[stretch][0])}


def _stretches(values: Any) -> Iterator[slice]:
    """Give where values stay the same."""
    at = np.flatnonzero(np.diff(values)) + 1
    ends = [0, *at.tolist(), len(values)]
    yield from (slice(begin, end) for begin, end in pairwise(ends) if end > begin)


def _found(kind: str, group: str, from_us: Any, until_us: Any) -> Found:
    return {"kind": kind, "group": group, "from_us": int(from_us), "until_us": int(until_us)}


def unannounced(processes: pd.DataFrame, restarts: list[Restart], run: Run) -> dict[str, Anomaly]:
    """Find instances whose process began anew between two samples, over the whole run.

    A process's CPU time only ever grows: where it went down, another process runs.

    Returns:
        ``unannounced_restart``: host, service, instance, from_us and until_us, the samples before and after.
    """
    return tally(list(begun_anew(processes, restarts, run)), (*_WHO, "from_us", "until_us"))


def begun_anew(processes: pd.DataFrame, restarts: list[Restart], run: Run) -> Iterator[dict[str, Any]]:
    """Give those that began anew while no restart of their instance was under way."""
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
