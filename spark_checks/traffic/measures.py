"""What the samples of others came to: by restart and topic or group, and over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from kedge.evidence.levels import TrafficLevels
from kedge.evidence.run import Watch
from spark_checks.engine.stretches import GAP_INTERVALS, unassigned
from spark_checks.engine.time_bins import BIN_US
from spark_checks.rebalance.gaps import begun
from spark_checks.traffic import samples
from spark_checks.traffic.samples import Times

MEASURES: Final = {
    "produce_gap_s": "produce gap",
    "delivery_gap_s": "delivery gap",
    "rebalancing_s": "time rebalancing",
    "unassigned_s": "time unassigned",
    "lag_recovery_s": "lag recovery",
}
#: Without a level, partitions that are usually silent for longer have no gap to speak of.
_SILENT_US: Final = 5_000_000
#: Lines of a chart over time.
_LINES: Final = 6
#: The server of the rows of a balancer that say what its clients got.
_CLIENTS: Final = "clients"
_BEGUN: Final = "from_us IS NOT NULL"
Cell = dict[str, Any]


@dataclass
class Found:
    """What was measured: cells by measure, each of a restart and a topic or group; what else was seen."""

    cells: dict[str, list[Cell]] = field(default_factory=lambda: {name: [] for name in MEASURES})
    groups: dict[str, Cell] = field(default_factory=dict)
    topics: list[Cell] = field(default_factory=list)
    errors: Cell | None = None
    metrics: list[Cell] = field(default_factory=list)
    unsampled: list[Cell] = field(default_factory=list)
    not_back: list[Cell] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)


def measure_all(frames: Mapping[str, DataFrame], watch: Watch, level: TrafficLevels, times: Times) -> Found:
    """Return what the tables that are there came to."""
    found = Found()
    found.groups = {name: {"group": name} for name in watch.groups}
    # Points of a chart are no closer than samples are.
    width = max(BIN_US, times.interval_us)
    topics = {(one.cluster, one.topic): {"who": f"{one.cluster}/{one.topic}"} for one in watch.topics}
    if (ends := frames.get("end_offsets")) is not None:
        gaps = samples.produced(ends, times).persist()
        limit, chance, spacing = level.produce_gap_s, F.lit(True), F.col("spacing_us")
        count = sum(one.partitions for one in watch.topics)
        if limit is not None:
            chance = samples.unlikely(F.lit(limit * 1e6), times, count)
        known = judgeable(F.col("usual_us"), limit) & chance
        # Twice as long as ever before, and longer than comes by chance: whatever is usual, it is more.
        beyond = samples.lasted() - 2 * F.col("usual_us") - spacing
        proof = F.when(samples.unlikely(samples.lasted(), times, count), beyond)
        rows = samples.worst(gaps.where(_BEGUN), ("cluster", "topic"), spacing, known, proof, times)
        _worst(found, "produce_gap_s", rows, limit)
        for row in samples.watched(gaps, ("cluster", "topic"), times).collect():
            topics[row["cluster"], row["topic"]] |= row.asDict()
        _rates(found, ends, times, width, watch.usual_until_us or times.end_us)
    if (offsets := frames.get("group_offsets")) is not None:
        waits = samples.waited(offsets, times).persist()
        error = F.col("spacing_us") + F.col("usual_us")
        often = F.col("moves") >= samples.COMMITS
        known = judgeable(F.col("usual_us"), level.delivery_gap_s) & often
        proof = F.when(often, samples.lasted() - error)
        rows = samples.worst(waits.where(_BEGUN), ("group",), error, known, proof, times)
        _worst(found, "delivery_gap_s", rows, level.delivery_gap_s)
        for row in samples.watched(waits, ("group",), times).collect():
            found.groups[row["group"]] |= {
                "commits_us": row["usual_us"], "moves": row["moves"], "offsets_us": row["widest_us"]
            }  # fmt: skip
        _never_waited(found, level.delivery_gap_s, times)
        _lags(found, samples.lags(offsets, times).persist(), times, width)
    if (states := frames.get("group_states")) is not None:
        _states(found, states, frames.get("assignments"), level, times)
    if (balancer := frames.get("balancer")) is not None:
        _errors(found, balancer, times, width)
    if (metrics := frames.get("metrics")) is not None:
        # A row an instance and metric.
        told = samples.told(metrics, times).orderBy("service", "host", "instance", "name")
        found.metrics = [row.asDict() for row in told.collect()]
    _unsampled(found, topics.values(), watch, times)
    return found


def judgeable(usual: Any, limit: float | None) -> Any:
    """Return whether something is usually at most half of its level: of a column, or of a number (us)."""
    return usual <= (_SILENT_US if limit is None else limit * 1e6 / 2)


def _worst(found: Found, measure: str, worst: DataFrame, limit: float | None) -> None:
    for row in worst.collect():
        number, *who = row[: row.__fields__.index("worst")]
        longest, over, low = row["worst"], row["over"], row["over"]["low_us"] if row["over"] else None
        # One that is above its level by more than its error counts before a longer one that may not be.
        if limit is not None and low is not None and low > limit * 1e6:
            longest = over
        elif longest is None:
            low = None
        found.cells[measure].append({
            "restart": number,
            "who": "/".join(who),
            "value_us": longest["value_us"] if longest else None,
            "low_us": low,
            "high_us": row["high_us"],
            "at": longest["place"] if longest else "",
            "unjudged": row["unjudged"],
            "usual_us": row["unjudged_us"],
        })  # fmt: skip


def _cell(number: int, who: str, value: int | None, error: int, usual: int) -> Cell:
    low, high = (None, None) if value is None else (value - error, value + error)
    return {"restart": number, "who": who, "value_us": value, "low_us": low, "high_us": high, "at": "",
            "unjudged": int(value is None), "usual_us": usual}  # fmt: skip


def _never_waited(found: Found, limit: float | None, times: Times) -> None:
    """Add a cell for each restart and group in whose samples no record waited."""
    seen = {(one["restart"], one["who"]) for one in found.cells["delivery_gap_s"]}
    numbers = [one.number for one in times.restarts] or [0]
    for name, about in found.groups.items():
        if "moves" not in about:
            continue
        known = about["moves"] >= samples.COMMITS and judgeable(about["commits_us"], limit)
        error = about["offsets_us"] + about["commits_us"]
        found.cells["delivery_gap_s"] += [
            _cell(number, name, 0 if known else None, error, about["commits_us"])
            for number in numbers
            if (number, name) not in seen
        ]


def _lags(found: Found, lag: DataFrame, times: Times, width: int) -> None:
    of = {one.number: one for one in times.restarts}
    for row in samples.recovered(lag, times).collect() if of else ():
        group, restart, above = found.groups[row["group"]], of[row["restart"]], row["above_us"]
        # When in its time a change of more than instances touched a group is not known.
        begin = restart.begin_us if restart.service else row["first_us"]
        # Of a group that has nothing of the usual time, nothing is known.
        value = None if row["baseline"] is None else 0 if above is None else above - begin
        error = max(times.interval_us, group["offsets_us"]) + (group.get("commits_us") or 0)
        cell = _cell(row["restart"], row["group"], value, error, 0)
        cell |= {
            "peak": row["peak"],
            "baseline": row["baseline"],
            "back": above is None or above < row["last_us"],
        }
        if not cell["back"]:
            # Behind the next restart its own lag goes on; behind the end nobody looked.
            cell["high_us"] = times.end_us - begin if times.after(restart) < times.end_us else math.inf
        found.cells["lag_recovery_s"].append(cell)
    ending = F.col("at_us") >= times.end_us - samples.END_US
    ended = lag.groupBy("group").agg(
        F.min(F.when(ending, F.col("lag") - F.col("allowed"))).alias("beyond"),
        F.min(F.when(ending, F.col("lag"))).alias("lag"),
        F.max("baseline").alias("baseline"),
        F.max("lag").alias("peak"),
    )
    peaks: dict[tuple[str, ...], float] = {}
    for row in ended.collect():
        peaks[row["group"],] = row["peak"]
        found.groups[row["group"]] |= {name: row[name] for name in ("lag", "beyond", "baseline")}
    bins = F.floor((F.col("at_us") - times.begin_us) / width).alias("bin")
    lines = lag.groupBy("group", bins).agg(F.max("lag").alias("n"))
    found.series["lag"] = _lines(lines, ("group",), peaks, width, 1)


def _rates(found: Found, ends: DataFrame, times: Times, width: int, after_us: int) -> None:
    rate = samples.rates(ends, times, width).persist()
    # Two halves of a watch in which nothing was changed are not compared.
    after = max((one.end_us or times.end_us for one in times.instances), default=after_us)
    for row in samples.before_and_after(rate, times, width, after).collect():
        about: Cell = {"who": f"{row['cluster']}/{row['topic']}", "percent": None, "error": None}
        per_s = 1e6 / width
        about |= {name: None if row[name] is None else row[name] * per_s for name in ("before", "after")}
        if row["before"] and min(row["bins_before"], row["bins_after"]) >= samples.FEWEST:
            about["percent"] = 100 * row["after"] / row["before"]
            about["error"] = 100 * row["error"] / row["before"]
        found.topics.append(about)
    sums = {tuple(one["who"].split("/", 1)): one["before"] or 0.0 for one in found.topics}
    lines = rate.withColumnRenamed("records", "n")
    found.series["rate"] = _lines(lines, ("cluster", "topic"), sums, width, 1e6 / width)


def _lines(
    bins: DataFrame, who: tuple[str, ...], sizes: Mapping[tuple[str, ...], float], width: int, scale: float
) -> dict[str, Any]:
    """Return the lines of the largest ones: [seconds since the watch began, what] by name."""
    largest = sorted(sizes, key=lambda key: (-sizes[key], key))[:_LINES]
    ours = [reduce(Column.__and__, (F.col(k) == v for k, v in zip(who, key, strict=True))) for key in largest]
    rows = bins.where(reduce(Column.__or__, ours, F.lit(False))).collect()
    drawn: dict[str, Any] = {}
    for row in sorted(rows, key=lambda row: row["bin"]):
        name = "/".join(row[one] for one in who)
        drawn.setdefault(name, []).append([row["bin"] * width / 1e6, row["n"] * scale])
    return drawn


def _states(
    found: Found, states: DataFrame, assignments: DataFrame | None, level: TrafficLevels, times: Times
) -> None:
    unstable = samples.unstable(states, times).persist()
    for row in samples.watched(unstable, ("group",), times).collect():
        found.groups[row["group"]] |= {"states_us": row["widest_us"], "usual_unstable_us": row["usual_us"]}
    for row in samples.ending(states, times).collect():
        found.groups[row["group"]] |= row.asDict()
    sums = {(row["restart"], row["group"]): row for row in
            samples.summed(unstable.where("from_us IS NOT NULL"), times).collect()}  # fmt: skip
    numbers = [one.number for one in times.restarts] or [0]
    seen = [name for name, about in found.groups.items() if "states_us" in about]
    _fill(found, "rebalancing_s", sums, [(n, name) for n in numbers for name in seen], level.rebalancing_s,
          "usual_unstable_us")  # fmt: skip
    if assignments is None:
        return
    usual_us = samples.usual("from_us", "to_us", times, Window.partitionBy("group"))
    gone = unassigned(assignments, times.end_us).withColumn("usual_us", usual_us).persist()
    lost = F.col("from_us").isNotNull()
    for row in (
        gone.groupBy("group")
        .agg(
            F.max("usual_us").alias("usual_unassigned_us"),
            F.count_if(lost & F.col("open") & (F.col("from_us") >= times.usual_us)).alias("unassigned"),
            F.count_distinct("topic", "partition").alias("partitions"),
        )
        .collect()
    ):
        found.groups[row["group"]] |= row.asDict()
    # When a partition was revoked says which restart it was.
    during = begun(gone, times.windows(gone)).groupBy("restart", "group").agg(
        F.max(F.col("to_us") - F.col("from_us")).alias("value_us"),
        F.count_distinct("topic", "partition").alias("revoked"),
    )  # fmt: skip
    longest = {(row["restart"], row["group"]): row for row in during.collect()}
    places = [(n, name) for n in numbers for name in seen if "partitions" in found.groups[name]]
    _fill(found, "unassigned_s", longest, places, level.unassigned_s, "usual_unassigned_us")
    for (_, name), row in longest.items():
        group = found.groups[name]
        # One member, or one partition, leaves no choice.
        several = min(group.get("members") or 0, group["partitions"]) > 1
        group["all_revoked"] = group.get("all_revoked") or (several and row["revoked"] == group["partitions"])


def _fill(
    found: Found,
    measure: str,
    rows: Mapping[tuple[int, str], Row],
    places: Iterable[tuple[int, str]],
    limit: float | None,
    usual: str,
) -> None:
    """Add a cell for each restart and group: of those without a row nothing was seen between two samples."""
    for number, name in places:
        group, row = found.groups[name], rows.get((number, name))
        value, error = (row["value_us"], group["states_us"]) if row else (0, group["states_us"])
        if row and "error_us" in row:
            error = row["error_us"]
        known = judgeable(group.get(usual) or 0, limit)
        found.cells[measure].append(
            _cell(number, name, value if known else None, error, group.get(usual) or 0)
        )


def _errors(found: Found, balancer: DataFrame, times: Times, width: int) -> None:
    # What servers failed at the balancer may have tried again elsewhere.
    clients = balancer.where(F.col("server") == _CLIENTS)
    requests = samples.stretches(clients, ["host"], F.col("requests"), F.lit(True), times)
    hosts = {row["host"]: row["widest_us"] for row in samples.watched(requests, ("host",), times).collect()}
    if not hosts:
        return
    names = ("requests", "client_errors", "own_errors")
    counted: Cell = {"hosts": hosts, "errors": 0, "usual_errors": 0} | dict.fromkeys(names, 0)
    drawn: dict[float, int] = {}
    # A row a host and second.
    for row in samples.errors(clients, times, width).orderBy("bin").collect():
        for name in names:
            counted[name] += row[name]
        counted["usual_errors" if row["usual"] else "errors"] += row["errors"]
        at = row["bin"] * width / 1e6
        drawn[at] = drawn.get(at, 0) + row["errors"]
    found.errors = counted | {name: max(0, counted[name]) for name in ("errors", "usual_errors")}
    found.series["errors"] = [[at, max(0, count)] for at, count in drawn.items()]


def _unsampled(found: Found, topics: Iterable[Cell], watch: Watch, times: Times) -> None:
    """Note what was not seen for more than three intervals, or never."""
    rows = [(one["who"], "ends", one.get("widest_us")) for one in topics]
    for name, about in found.groups.items():
        rows.append((name, "states", about.get("states_us")))
        if watch.groups[name].topics:
            rows.append((name, "commits", about.get("offsets_us")))
    seen = found.errors["hosts"] if found.errors else {}
    rows += [(host, "counters", seen.get(host)) for host in {*watch.balancers, *seen}]
    for who, what, longest in rows:
        if longest is None or longest > GAP_INTERVALS * times.interval_us:
            unseen = times.end_us - times.begin_us if longest is None else longest
            about = {"kind": "sampler_slept", "who": who, "what": what, "longest_s": unseen / 1e6}
            found.unsampled.append(about | {"_never": longest is None})
