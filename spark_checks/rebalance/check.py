"""What each restart cost: producers, consumers, and the group between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.application_outputs import output_grains
from spark_checks.engine.facts import acked_grains, delivered_grains
from spark_checks.engine.readers import Evidence
from spark_checks.engine.stretches import PLACE, owning_groups, unassigned
from spark_checks.engine.time_bins import BIN_US
from spark_checks.rebalance import gaps, groups, ownership
from spark_checks.rebalance.applications import by_partition, restores
from spark_checks.rebalance.restarts import Restart, read_restarts
from spark_checks.rebalance.steps import steps
from spark_checks.rebalance.watched import watched
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded

_MEASURES: Final = {
    "produce_gap_s": "produce gap",
    "consume_stall_s": "delivery gap",
    "not_stable_s": "time not stable",
    "ownerless_s": "time unassigned",
    "lag_recovery_s": "lag recovery",
}
#: What follows from a measure that is over its level.
_ADVICE: Final = {
    "consume_stall_s": Recommendation(
        "Use the cooperative-sticky assignor or group.protocol=consumer; shorten the session timeout",
        "consumers stood still for {:.2f} s",
        effect="members that stay keep what they own, so that a restart stops only the partitions of the one "
        "that leaves",
    ),
    "produce_gap_s": Recommendation(
        "Drain an instance at the balancer before it stops, and let clients retry on another one",
        "producers stood still for {:.2f} s",
        effect="requests go to instances that run, so that the gap is one request's retry",
    ),
}
Cells = dict[int, dict[str, dict[str, Any]]]


def check(evidence: Evidence, levels: Levels) -> Result:
    """For each restart (an instance's drain or stop until it is ready), and ten seconds after it at most.

    - produce gap: the longest time between consecutive acknowledgements of one partition, by interface; the
      longest without any acknowledgement by that interface stands beside it.
    - delivery gap: the longest time between deliveries of one partition to a group, less the longest time
      within it in which nothing was acknowledged there either; under 0.1 s is no stall.
    - time not stable: the sum of the times from a sample of the group's state that is not Stable to the next
      sample. Its error is one sampling interval a change; times in which the sampler slept are unknown.
    - ownerless time: from a partition's revocation until any member has it assigned, the longest partition. A
      static member keeps its partitions while its process is away: then the stall alone tells.
    - lag recovery: from the restart's begin until the group's lag is back at or under its baseline, the
      highest lag of the steady window before the first restart.

    An application counts as a group to which a record is delivered when the last of its outputs was appended,
    where the output topic has the broker's times. Its restore is the time in which an instance of the
    restarted host told, by its samples, that it was restoring; its partitions stand one by one.

    By group stands how it gave its partitions away, as it was seen: all at once (as eager assignors do), some
    of them (cooperative ones, and the consumer protocol), or nothing (nobody left).

    Beside them, over the whole steady window, and not judged:

    - sampler_slept: the group was not looked at for more than three sampling intervals.
    - unexplained_rebalance: the group was not Stable, and no restart in the actions was near: somebody
      restarted an instance by hand, one fell over, or a session ended long after.
    - unannounced_restart: an instance's process began anew (its CPU time went down between two samples), and
      no action tells of it: by hand, or by systemd after it fell over.
    - idle_member: the group was Stable for five seconds or more with members that owned no partition.

    - by restart, the seconds of each step: gate (before and after), drain, stop, start, ready, undrain, hold,
      and control, in which nothing was done to any instance: the playbook's own round trips.

    A gap that several restarts touch counts for each. Levels hold for the worst restart. The time is looked
    at until the next restart begins or the load ends. Without actions nothing is known of restarts; without
    samples nothing of a group.

    No traffic shows what a restart cost after the load ended. A restart that began after it (after_load) is
    left out. One that the load did not outlast (outlasted_load) is measured until the load ended: what is
    over a level fails, and nothing passes. Neither counts for min_restarts.
    """
    run, actions = evidence.run, evidence.rows("actions")
    every = read_restarts(actions, run)
    restarts = [one for one in every if one.begin_us < run.measured_until_us]
    late = every[len(restarts) :]
    outlasted = [one for one in restarts if (one.end_us or 0) > run.measured_until_us]
    unfinished = [one for one in every if one.end_us is None]
    samples = evidence.samples("group_states", "assignments", "processes", "rocksdb")
    for name in samples.keys() & {"group_states", "assignments"}:
        # Of others' groups, which a watch samples into the same tables, the traffic check tells.
        samples[name] = samples[name].where(F.col("group").isin(run.watched_groups()))
    seen = watched(samples, every, run) | _incomplete(unfinished, late, outlasted)
    problems = [f"{restart.name} did not become ready again" for restart in unfinished]
    if not restarts:
        missing = "there is no actions table" if actions is None else "the actions hold no stop or kill"
        return _without_restarts(missing, late, problems, seen, levels)
    times = gaps.spans(evidence.session, restarts)
    cells, outside, lag_series = _measure(evidence, restarts, times, samples)
    restored = restores(samples["rocksdb"], times) if "rocksdb" in samples else {}
    spent = steps(actions or [], restarts)
    table = [
        _row(restart, cells.get(restart.number, {}), run)
        | restored.get(restart.number, {})
        | {"steps_s": {step: round(s, 3) for step, s in spent.get(restart.number, {}).items()}}
        for restart in restarts
    ]
    moved = ownership.changes(samples["assignments"]) if "assignments" in samples else []
    doubts: list[str] = []
    worst: dict[str, float] = {}
    figures: list[Figure] = []
    for measure, words in _MEASURES.items():
        values = [(row[measure], row) for row in table if row[measure] is not None]
        level, known = getattr(levels.rebalance, measure), len(doubts)
        if values:
            value, row = max(values, key=lambda pair: pair[0])
            worst[measure] = value
            bound = max(row["not_stable_at_most_s"] for row in table) if measure == "not_stable_s" else value
            if level is not None and value > level:
                problems.append(f"{words} {value:.2f} s at {row['instance']}, the level is {level:g} s")
            elif level is not None and bound > level:
                doubts.append(f"{words}: the sampler slept, so {value:.2f} s may have been {bound:.2f} s")
            elif level is not None and measure == "lag_recovery_s" and not all(r["lag_back"] for r in table):
                doubts.append(f"{words}: the next restart came, or the load ended, before lag was back")
            elif level is not None and outlasted:
                doubts.append(f"{words}: the load ended before {outlasted[0].name} was ready")
        elif level is not None:
            doubts.append(f"{words} was not measured: its evidence is missing")
        if values or level is not None:
            key = f"rebalance.{measure}"
            unclear = len(doubts) > known
            figures.append(Figure(words, worst.get(measure), level, "s", key=key, doubtful=unclear))
    finished = sum(one.end_us is not None for one in restarts) - len(outlasted)
    doubts += _too_few(finished, len(outlasted) + len(late), levels)
    text = ", ".join(f"{_MEASURES[name]} {value:.2f} s" for name, value in worst.items())
    return concluded(
        "rebalance",
        problems,
        doubts,
        f"{finished} restarts; at worst {text}",
        sorted([*figures, _restarts(finished, levels)], key=lambda one: one.level is None),
        measured={
            "restarts": finished,
            **worst,
            "produce_gap_outside_of_restarts_s": outside,
            "sampling_s": {name: us / 1e6 for name, us in run.sampling_us.items()},
            "by_group": ownership.by_group(moved, restarts, table, run),
            "by_restart": table,
        },
        anomalies=seen,
        recommendations=tuple(
            replace(one, because=one.because.format(worst[measure]))
            for measure, one in _ADVICE.items()
            if (level := getattr(levels.rebalance, measure)) is not None and worst.get(measure, 0) > level
        ),
        series={"lag": lag_series, "ownership": ownership.bars(moved, run)},
    )


def _without_restarts(
    missing: str, late: list[Restart], problems: list[str], seen: dict[str, Anomaly], levels: Levels
) -> Result:
    if late:
        missing = f"the load had ended before {late[0].name} was restarted, the first of {len(late)}"
    asked = levels.rebalance.min_restarts != 0
    return concluded(
        "rebalance",
        problems,
        [f"nothing is known of restarts: {missing}", *_too_few(0, len(late), levels)] if asked else [],
        f"no restart was made under the load, and min_restarts 0 asks for none: {missing}",
        [_restarts(0, levels)],
        judged=True,
        measured={"restarts": 0},
        anomalies=seen,
    )


def _too_few(finished: int, beyond: int, levels: Levels) -> list[str]:
    asked = levels.rebalance.min_restarts or 0
    beside = f"; {beyond} more began or ended after the load: raise verify.max_s" if beyond else ""
    return [f"{finished} restarts, the run must hold {asked}{beside}"] if finished < asked else []


def _restarts(finished: int, levels: Levels) -> Figure:
    asked = levels.rebalance.min_restarts
    return Figure(
        "restarts",
        finished,
        asked,
        key="rebalance.min_restarts",
        least=True,
        doubtful=finished < (asked or 0),
    )


def _incomplete(
    unfinished: list[Restart], late: list[Restart], outlasted: list[Restart]
) -> dict[str, Anomaly]:
    def about(one: Restart) -> dict[str, Any]:
        return {"instance": one.name, "from_us": one.begin_us, "until_us": one.end_us}

    found = [
        *({"kind": "not_ready", **about(one)} for one in unfinished),
        *({"kind": "after_load", **about(one)} for one in late),
        *({"kind": "outlasted_load", **about(one)} for one in outlasted),
    ]
    return tally(found, ("from_us",))


def _measure(
    evidence: Evidence, restarts: list[Restart], times: DataFrame, samples: Mapping[str, DataFrame]
) -> tuple[Cells, dict[str, float], dict[str, Any]]:
    """Return measures by restart and who (interface or group), gaps elsewhere, lag by second."""
    run = evidence.run
    cells: Cells = {restart.number: defaultdict(dict) for restart in restarts}
    acked, delivered, applied = acked_grains(evidence), delivered_grains(evidence), output_grains(evidence)
    silent = gaps.gaps(acked, ["via", "topic", "partition"], run.measured_from_us, run.measured_until_us)
    outside = _produce(acked, silent, times, run, cells)
    topics = {name: list(group.topics) for name, group in run.groups.items() if delivered is not None}
    if applied is not None:
        timed = {row["group"] for row in applied.select("group").distinct().collect()}
        topics |= {app.name: [app.input.topic] for app in run.applications if app.input and app.name in timed}
        delivered = applied if delivered is None else delivered.unionByName(applied)
    lag_series: dict[str, Any] = {}
    of_partitions: list[DataFrame] = []
    if delivered is not None:
        of_partitions.append(_consume(delivered, silent, times, run, cells, topics))
        pairs = [(group, topic) for group, of in topics.items() for topic in of]
        lag_series = _lag(acked, delivered, restarts, times, run, cells, pairs)
    if "group_states" in samples:
        for row in groups.not_stable(samples["group_states"], times, run).collect():
            cells[row["restart"]][row["group"]] |= {
                "not_stable_s": row["unstable_us"] / 1e6,
                "blind_s": row["blind_us"] / 1e6,
                "state_spacing_s": row["spacing_us"] / 1e6,
            }
    if "assignments" in samples:
        of_partitions.append(_unassigned(samples["assignments"], owning_groups(evidence), times, run, cells))
    for (number, group), rows in by_partition(of_partitions, run).items():
        cells[number][group]["by_partition"] = rows
    for found in of_partitions:
        found.unpersist()
    return cells, outside, lag_series


def _unassigned(
    assignments: DataFrame, owning: Iterable[str], times: DataFrame, run: Run, cells: Cells
) -> DataFrame:
    """Add the longest times without an owner to the cells; return those of each restart and partition."""
    gone = unassigned(assignments, run.measured_until_us)
    # When a partition was revoked says which restart it was.
    begun = gaps.begun(gone.where(F.col("from_us") < run.measured_until_us), times)
    found = begun.withColumn("ownerless_us", F.col("to_us") - F.col("from_us")).persist()
    # A group whose ownership was watched and of which nothing was revoked was never without an owner.
    for group in sorted({*owning} & {*run.watched_groups()}):
        for restart in cells.values():
            restart[group]["ownerless_s"] = 0.0
    for row in found.groupBy("restart", "group").agg(gaps.worst("ownerless_us")).collect():
        cells[row["restart"]][row["group"]] |= {
            "ownerless_s": row["worst"]["ownerless_us"] / 1e6,
            "ownerless_at": _place(row["worst"]),
        }
    return found


def _place(longest: Row) -> str:
    return f"{longest['topic']}-{longest['partition']}"


def _produce(
    acked: DataFrame, silent: DataFrame, times: DataFrame, run: Run, cells: Cells
) -> dict[str, float]:
    """Add the longest times without an acknowledgement to the cells; return those outside of restarts."""
    whole = gaps.gaps(gaps.of_all(acked, "via"), ["via"], run.measured_from_us, run.measured_until_us)
    both = gaps.during(silent.unionByName(whole, allowMissingColumns=True), times, "left")
    by = both.groupBy("restart", "via", F.col("topic").isNull().alias("whole"))
    outside = {}
    for row in by.agg(gaps.worst("us")).orderBy("restart", "via").collect():
        longest = row["worst"]
        if row["restart"] is not None:
            cell = cells[row["restart"]][row["via"]]
            cell["no_ack_at_all_s" if row["whole"] else "produce_gap_s"] = longest["us"] / 1e6
            if not row["whole"]:
                cell["produce_gap_at"] = _place(longest)
        elif not row["whole"]:
            outside[row["via"]] = longest["us"] / 1e6
    return outside


def _consume(
    delivered: DataFrame, silent: DataFrame, times: DataFrame, run: Run, cells: Cells, names: Iterable[str]
) -> DataFrame:
    """Add the longest stalls to the cells; return them all."""
    unread = gaps.gaps(delivered, PLACE, run.measured_from_us, run.measured_until_us)
    # Few, and read twice.
    found = gaps.stalls(gaps.during(unread, times), gaps.during(silent, times)).persist()
    by = ("restart", "group")
    for row in found.groupBy(*by).agg(gaps.worst("stall_us")).orderBy(*by).collect():
        cells[row["restart"]][row["group"]] |= {
            "consume_stall_s": row["worst"]["stall_us"] / 1e6,
            "consume_stall_at": _place(row["worst"]),
        }
    for restart in cells.values():
        for group in names:
            restart[group].setdefault("consume_stall_s", 0.0)
    return found


def _lag(
    acked: DataFrame,
    delivered: DataFrame,
    restarts: list[Restart],
    times: DataFrame,
    run: Run,
    cells: Cells,
    pairs: list[tuple[str, str]],
) -> dict[str, Any]:
    lags, width = groups.lag(acked, delivered, run, pairs)
    lags = lags.persist()
    by_number = {restart.number: restart for restart in restarts}
    found = groups.recovery(lags, times, restarts[0].begin_us).orderBy("group", "restart")
    for row in found.collect():
        cell = cells[row["restart"]][row["group"]]
        restart, above = by_number[row["restart"]], row["last_above_us"]
        cell["lag_recovery_s"] = 0.0 if above is None else (above - restart.begin_us) / 1e6
        cell["lag_baseline_records"], cell["lag_highest_records"] = row["baseline"], row["highest"]
        cell["lag_back"] = above is None or above <= restart.until_us - width
    second = F.floor((F.col("at_us") - 1 - run.measured_from_us) / BIN_US).alias("second")
    series: dict[str, Any] = {}
    # A point a second, or one a bucket of a longer run: some thousands a group.
    by_second = lags.groupBy("group", second).agg(F.max("lag").alias("lag")).orderBy("group", "second")
    for row in by_second.collect():
        series.setdefault(row["group"], []).append([row["second"], row["lag"]])
    lags.unpersist()
    return series


def _row(restart: Restart, cells: dict[str, dict[str, Any]], run: Run) -> dict[str, Any]:
    """One restart for the report: its worst figures first, then each interface and group."""
    row: dict[str, Any] = {
        "restart": restart.number,
        "host": restart.host,
        "service": restart.service,
        "instance": restart.name,
        "at_s": round((restart.begin_us - run.started_us) / 1e6, 3),
        "took_s": None if restart.end_us is None else round((restart.end_us - restart.begin_us) / 1e6, 3),
    }
    for measure in _MEASURES:
        values = [cell[measure] for cell in cells.values() if measure in cell]
        row[measure] = round(max(values), 3) if values else None
    most = [cell["not_stable_s"] + cell["blind_s"] for cell in cells.values() if "not_stable_s" in cell]
    row["not_stable_at_most_s"] = round(max(most, default=0.0), 3)
    row["lag_back"] = all(cell.get("lag_back", True) for cell in cells.values())
    row["by"] = cells
    return row
