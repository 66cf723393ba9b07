"""What a change cost topics and groups of others, judged by what is usual for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels, TrafficLevels
from kedge.evidence.run import Run, Watch
from kedge.evidence.watch_options import LEAST_BEFORE_S
from spark_checks.engine.anomalies import tally
from spark_checks.engine.facts import at_places
from spark_checks.engine.readers import Evidence
from spark_checks.rebalance.restarts import EFFECTS_AFTER_RESTART_US, Restart, read_restarts
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded
from spark_checks.traffic import samples
from spark_checks.traffic.measures import MEASURES, Cell, Found, judgeable, measure_all
from spark_checks.traffic.samples import Times

NAME: Final = "traffic"
NOT_JUDGED: Final = "not judged: loss, duplicates and order, which need records of Kedge's own"
TABLES: Final = (
    "end_offsets",
    "group_offsets",
    "group_states",
    "assignments",
    "actions",
    "balancer",
    "metrics",
)
#: A share of samples.
_MOSTLY: Final = 0.5
#: The default of session.timeout.ms since Kafka 3.0, and before, seconds.
_SESSIONS: Final = (45, 10)
#: A share of a session's time-out: heartbeats come several times in it.
_NEAR: Final = 0.15


def check(evidence: Evidence, levels: Levels) -> Result:
    """What topics, groups and balancers of others felt of restarts, beside what is usual for them.

    Nothing was sent: the ends of partitions, the offsets that groups commit, their states and members, the
    counters of balancers and the metrics of instances were sampled. What is usual is what was seen before the
    first change, in a minute at least. A restart's effects are looked for until ten seconds after it, or
    until the next begins. A change that restarts nothing is judged as one restart, from its begin to the end
    of the watch.

    - produce gap: the longest time between samples in which a partition's end moved. Its error is the time
      between the samples around it. It is judged where the longest usual gap is at most half of the level,
      and where a gap as long as the level cannot come by chance; one with a record a minute is not.
    - delivery gap: the longest time in which records of a partition waited, and a group committed nothing
      there. Its error is the time between samples and the longest usual one: commits tell of deliveries late.
      It is judged where the latter is at most half of the level.
    - time rebalancing: the sum of the times from a sample of a group that is not Stable to the next one that
      is. Its error is the time between samples, once for each such time.
    - time unassigned: from a partition's revocation until any member has it, the longest partition.
    - lag recovery: from a restart's begin until the lag of a group was above what is usual for the last time
      before the next restart or the end; of a change that restarts nothing from the first time.
      Usual is the highest lag, and the usual spread more; it may go on to grow where it grew steadily.
    - throughput: the rate of a topic after the last restart, in percent of its usual rate. Its error is three
      standard deviations.
    - balancer errors: answers of 5xx that clients got of the balancers since the first change, less as many
      as are usual in that time. What a balancer tried again elsewhere is none, nor is what it answers by
      itself to consumers of a proxy that stopped, which have to begin anew: these are counted apart.
    - not back: groups that at the end were not Stable, had partitions without an owner, or were further
      behind than usual, and had not been so before.
    - by instance: what instances told Prometheus, the most of each metric before the first change and since;
      without a level.

    A delivery gap that is above its level by more than its error fails whatever is usual, and so does a
    produce gap above it by more than twice the longest usual one, if one so long does not come by chance.
    A figure is held against its level with its error; one that cannot be told from it is unknown. So is
    everything where the watch did not end properly, could not watch a cluster or what a person named, or saw
    something not for ten seconds and more than three intervals; a shorter time is in the errors. Loss,
    duplicates and order are not judged: they need records of Kedge's own.
    """
    run, watch, level = evidence.run, evidence.run.watch, levels.traffic
    if watch is None:
        doubt = "nothing is known of others' traffic: it was not watched (verify_steps=watch)"
        return Result(NAME, "unknown", doubt)
    frames, last_us = _checked(evidence, watch)
    times = _times(evidence, watch, last_us)
    known = times.usual_us - times.begin_us >= LEAST_BEFORE_S * 1e6
    found = measure_all(frames, watch, level, times)
    found.series |= {"usual_s": (times.usual_us - run.started_us) / 1e6}
    said = _judge(found, _asked(level, watch, times, known), times, watch, known)
    about = f"{len(times.instances)} restarts, {len(watch.topics)} topics and {len(watch.groups)} groups"
    fine = "; ".join([about, *said.notes, NOT_JUDGED])
    result = concluded(
        NAME,
        said.problems,
        [*_broken(watch, found, times), *said.doubts],
        fine,
        sorted(said.figures, key=lambda one: one.level is None),
        measured=_measured(found, watch, times, run),
        anomalies=tally([*found.not_back, *found.unsampled], ("who",)) | _not_watched(watch),
        recommendations=tuple(_advice(found, level, times, watch)),
        series=found.series,
    )
    because = result.because if result.because.endswith(NOT_JUDGED) else f"{result.because}; {NOT_JUDGED}"
    return replace(result, because=because)


def _asked(level: TrafficLevels, watch: Watch, times: Times, known: bool) -> TrafficLevels:
    """Return the levels that speak of this watch: without a change few do, if it was long."""
    if times.restarts:
        return level
    kept = {"balancer_errors", "not_back"} if known else set()
    if watch.usual_until_us is not None:
        kept = TrafficLevels.model_fields.keys() - MEASURES.keys()
    return level.model_copy(update=dict.fromkeys(TrafficLevels.model_fields.keys() - kept))


def _checked(evidence: Evidence, watch: Watch) -> tuple[dict[str, DataFrame], int]:
    """Return the tables that are there, of what was watched, and the time of the last sample."""
    frames = evidence.samples(*TABLES)
    for name, frame in frames.items():
        if "group" in frame.columns:
            frames[name] = frame.where(F.col("group").isin([*watch.groups]))
    if (ends := frames.get("end_offsets")) is not None:
        # Ends of a load's mirrors are sampled into the same table.
        frames["end_offsets"] = ends.where(at_places(*((one.cluster, one.topic) for one in watch.topics)))
    return frames, max(watch.started_us, evidence.last_us(*TABLES))


def _times(evidence: Evidence, watch: Watch, last_us: int) -> Times:
    end = last_us if watch.ended_us is None else watch.ended_us
    run = evidence.run.model_copy(update={"load_until_us": end})
    actions = evidence.rows("actions") or []
    every = [_removed(one, actions) for one in read_restarts(actions, run)]
    restarts = [one for one in every if watch.started_us <= one.begin_us < end]
    if watch.changing and not restarts:
        begin = min(watch.usual_until_us or watch.started_us, end)
        restarts = [Restart(1, "", "", "the change", begin, end, end)]
    changes = [one.begin_us for one in restarts[:1]]
    changes += [] if watch.usual_until_us is None else [watch.usual_until_us]
    # Where nothing was changed, its first half tells what is usual.
    usual_us = min([*changes, end]) if changes else (watch.started_us + end) // 2
    return Times(watch.started_us, usual_us, end, watch.interval_us, restarts)


def _removed(restart: Restart, actions: Sequence[Cell]) -> Restart:
    """Return a stop that no start followed as a removal, which ended with it; others as they are."""
    who = (restart.host, restart.service, restart.instance)
    if restart.end_us is not None:
        return restart
    ours = [one for one in actions if (one["host"], one["service"], one["instance"]) == who]
    ours = [one for one in ours if one["started_us"] >= restart.begin_us]
    stops = [one["ended_us"] for one in ours if one["action"] == "stop" and one["ok"]]
    if not stops or any(one["action"] in {"start", "ready", "kill"} for one in ours):
        return restart
    until_us = min(stops[0] + EFFECTS_AFTER_RESTART_US, restart.until_us)
    return replace(restart, end_us=stops[0], until_us=until_us)


def _broken(watch: Watch, found: Found, times: Times) -> list[str]:
    """Return why the samples do not tell of all the time and all that was to be watched."""
    doubts = [] if watch.ended_us is not None else ["the watch did not end properly"]
    never = [one for one in found.unsampled if one["_never"]]
    # A shorter time without a sample is in the errors of what was measured; one so long may hide a restart.
    hides = [one for one in found.unsampled if one["longest_s"] * 1e6 >= EFFECTS_AFTER_RESTART_US]
    slept = [one for one in hides if not one["_never"]]
    if never:
        doubts.append(f"{never[0]['what']} of {never[0]['who']} were never sampled{_more(never)}")
    if slept:
        most = max(slept, key=lambda one: one["longest_s"])
        doubts.append(
            f"the sampler slept: {most['what']} of {most['who']} were not sampled for "
            f"{most['longest_s']:.1f} s, the interval is {times.interval_us / 1e6:g} s{_more(slept)}"
        )
    # What a person named and nobody has, or a cluster that does not answer, was to be watched.
    missed = [one for one in watch.not_watched if one.kind == "cluster" or not one.cluster]
    doubts += [f"{one.kind} {one.name} was not watched: {one.why}" for one in missed]
    return [
        *doubts,
        *(f"{one.name} did not become ready again" for one in times.restarts if one.end_us is None),
    ]


def _more(rows: Sequence[Any]) -> str:
    return f" ({len(rows) - 1} more)" if len(rows) > 1 else ""


@dataclass
class _Judged:
    """Figures, and in words what fails, what is doubtful, and what could not be judged."""

    level: TrafficLevels
    #: Why nothing is known to be usual; empty where it is.
    short: str
    figures: list[Figure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, key: str, value: float | None, problem: str, doubt: str, **more: Any) -> None:
        """Add a figure, and why it fails or is doubtful: without a level it is neither."""
        limit = getattr(self.level, key)
        doubt = "" if limit is None else self.short if self.short and (problem or value is None) else doubt
        if doubt and doubt not in self.doubts:
            self.doubts.append(doubt)
        elif problem and limit is not None and not doubt:
            self.problems.append(problem)
        self.figures.append(Figure(what, value, limit, key=f"traffic.{key}", doubtful=bool(doubt), **more))


def _judge(found: Found, level: TrafficLevels, times: Times, watch: Watch, known: bool) -> _Judged:
    short = (
        f"what is usual is not known: {(times.usual_us - times.begin_us) / 1e6:.0f} s were watched before "
        f"the first change, {LEAST_BEFORE_S} are needed"
    )
    said = _Judged(level, "" if known else short)
    for measure in MEASURES:
        _gap(said, found, measure, times)
    _throughput(said, found)
    if found.errors is not None or watch.balancers:
        _at_balancers(said, found, times)
    for group in found.groups.values():
        if why := _away(group, times):
            found.not_back.append({"kind": "not_back", "who": group["group"], "why": why})
    limit, away = level.not_back, found.not_back
    named = "; ".join(f"{one['who']} {one['why']}" for one in away[:3])
    problem = f"{len(away)} groups are not back: {named}" if limit is not None and len(away) > limit else ""
    # Who is as before without being looked at is so by no evidence.
    said.add("not back", "not_back", len(away), problem, said.short, of=len(found.groups))
    return said


def _gap(said: _Judged, found: Found, measure: str, times: Times) -> None:
    words, cells = MEASURES[measure], found.cells[measure]
    limit = getattr(said.level, measure)
    rows = [one for one in cells if one["value_us"] is not None]
    others = [one for one in cells if one["unjudged"]]
    why = _why(measure, max(others, key=lambda one: one["usual_us"] or 0)) if others else ""
    if others:
        said.notes.append(f"{words} not judged: {why}{_more(list({one['who'] for one in others}))}")
    if not rows:
        if limit is not None:
            said.add(words, measure, None, "", f"{words}: {why or 'not sampled'}", unit="s")
        return
    most, over = (max(rows, key=lambda one: one[key]) for key in ("value_us", "low_us"))
    problem = doubt = ""
    if limit is not None and over["low_us"] > limit * 1e6:
        problem = f"{_longest(words, over, times)}, the level is {limit:g} s"
    elif limit is not None and max(one["high_us"] for one in rows) > limit * 1e6:
        doubt = f"{_longest(words, most, times)} cannot be told from its level of {limit:g} s"
    said.add(words, measure, most["value_us"] / 1e6, problem, said.short or doubt, unit="s")


def _longest(words: str, cell: Cell, times: Times) -> str:
    names = {one.number: one.name for one in times.restarts}
    error = (cell["value_us"] - cell["low_us"]) / 1e6
    where = f"{cell['who']} {cell['at']}".strip()
    return (
        f"{words} {cell['value_us'] / 1e6:.1f} s, {error:.1f} s more or less, of {where} "
        f"at {names.get(cell['restart'], '')}"
    )


def _why(measure: str, cell: Cell) -> str:
    usual = (cell["usual_us"] or 0) / 1e6
    what = {
        "produce_gap_s": f"takes a record every {usual:.0f} s",
        "delivery_gap_s": f"commits every {usual:.0f} s",
        "rebalancing_s": f"is usually rebalancing for {usual:.0f} s",
        "unassigned_s": f"usually has partitions unassigned for {usual:.0f} s",
        "lag_recovery_s": "has no usual lag",
    }
    return f"{cell['who']} {what[measure]}"


def _throughput(said: _Judged, found: Found) -> None:
    what, key, limit = "throughput", "throughput_percent", said.level.throughput_percent
    rows = [one for one in found.topics if one["percent"] is not None]
    if not rows:
        if limit is not None:
            few = f"throughput: fewer than {samples.FEWEST} samples before the restarts or after them"
            said.add(what, key, None, "", few, unit="percent", least=True)
        return
    low, most, least = (
        min(rows, key=lambda one: one["percent"] + sign * one["error"]) for sign in (0, 1, -1)
    )
    problem = doubt = ""
    if limit is not None and most["percent"] + most["error"] < limit:
        problem = (
            f"throughput of {most['who']} is {most['percent']:.0f} percent of before, {limit:g} are asked"
        )
    elif limit is not None and least["percent"] - least["error"] < limit:
        percent = f"{least['percent']:.0f} percent, {least['error']:.0f} more or less"
        doubt = f"throughput of {least['who']} cannot be told from its level: {percent}"
    said.add(what, key, low["percent"], problem, said.short or doubt, unit="percent", least=True)


def _at_balancers(said: _Judged, found: Found, times: Times) -> None:
    counted, limit, what = found.errors, said.level.balancer_errors, "balancer errors"
    if counted is None:
        said.add(what, "balancer_errors", None, "", "of no balancer was sampled what clients got")
        return
    before, after = times.usual_us - times.begin_us, times.end_us - times.usual_us
    usual = counted["usual_errors"] * after / before if before else 0.0
    excess = counted["excess"] = max(0, counted["errors"] - int(usual))
    problem = doubt = ""
    if limit is not None and excess > limit:
        problem = f"{excess} errors at the balancers beyond the usual ones, the level is {limit}"
        # So many more or fewer come by chance.
        if excess - 3 * usual**0.5 <= limit:
            doubt = f"{excess} errors at the balancers cannot be told from the usual ones"
    said.add(what, "balancer_errors", excess, problem, doubt)


def _away(group: Cell, times: Times) -> str:
    """Return in what a group is not as it was before; nothing where it is, or where it is not known."""
    reasons = []
    stable_us, stable = group.get("stable_us"), group.get("state", "stable").lower() == "stable"
    restless_us = 0 if stable or stable_us is None else times.end_us - stable_us
    if restless_us > group.get("usual_unstable_us", 0) and (group.get("usually") or 0) > _MOSTLY:
        reasons.append(f"is {group['state']}")
    if group.get("unassigned") and group.get("members"):
        reasons.append(f"has {group['unassigned']} partitions unassigned")
    idle = not group.get("members") and not group.get("usual_members")
    # Some read without being members, and commit all the same.
    if (group.get("beyond") or 0) > 0 and not (idle and (group.get("moves") or 0) < samples.COMMITS):
        reasons.append(f"is {group['lag']:,} records behind, usually {group['baseline']:,} at most")
    return ", ".join(reasons)


def _measured(found: Found, watch: Watch, times: Times, run: Run) -> dict[str, Any]:
    def seconds(us: int | None) -> float | None:
        return None if us is None else round(us / 1e6, 3)

    def row(cells: Iterable[tuple[str, Cell]]) -> Cell:
        told: Cell = dict.fromkeys(MEASURES)
        for measure, one in cells:
            if one["value_us"] is not None:
                told[measure] = max(told[measure] or 0.0, seconds(one["value_us"]) or 0.0)
            if "peak" in one:
                told["lag_records"] = max(told.get("lag_records", 0), one["peak"])
        return told

    every = [(measure, one) for measure, cells in found.cells.items() for one in cells]
    worst = {name: value for name, value in row(every).items() if value is not None}
    errors = found.errors or {}
    return {
        "watched_s": seconds(times.end_us - times.begin_us),
        "usual_s": seconds(times.usual_us - times.begin_us),
        "interval_s": times.interval_us / 1e6,
        "topics": len(watch.topics),
        "groups": len(watch.groups),
        "restarts": len(times.instances),
        **worst,
        "balancer": {name: errors[name] for name in errors if name != "hosts"},
        "not_judged": "loss, duplicates and order: they need records of Kedge's own",
        "by_restart": [
            {
                "restart": one.number,
                "service": one.service,
                "instance": one.name,
                "at_s": round((one.begin_us - run.started_us) / 1e6, 3),
                "took_s": seconds(None if one.end_us is None else one.end_us - one.begin_us),
                **row((measure, cell) for measure, cell in every if cell["restart"] == one.number),
            }
            for one in times.restarts
        ],
        "by_group": {
            name: {
                "protocol": watch.groups[name].protocol,
                "commits_every_s": seconds(about.get("commits_us")),
                "usual_lag_records": about.get("baseline"),
                "state": about.get("state", "not sampled"),
                **row((measure, cell) for measure, cell in every if cell["who"] == name),
            }
            for name, about in found.groups.items()
        },
        "by_topic": [
            {
                "topic": one["who"],
                "before_per_s": one["before"],
                "after_per_s": one["after"],
                "percent": one["percent"],
                "error_percent": one["error"],
                "produce_gap_s": row(pair for pair in every if pair[1]["who"] == one["who"])["produce_gap_s"],
            }
            for one in found.topics
        ],
        "by_instance": found.metrics,
    }  # fmt: skip


def _not_watched(watch: Watch) -> dict[str, Anomaly]:
    rows = [
        {"kind": "not_watched", "what": one.kind, **one.model_dump(exclude={"kind"})}
        for one in watch.not_watched
    ]
    found = tally(rows, ("cluster", "what", "name"))
    return {kind: Anomaly(one.count + watch.not_watched_more, one.examples) for kind, one in found.items()}


def _advice(found: Found, level: TrafficLevels, times: Times, watch: Watch) -> Iterable[Recommendation]:
    for name, about in found.groups.items():
        cells = [one for measure in ("delivery_gap_s", "rebalancing_s", "unassigned_s")
                 for one in found.cells[measure] if one["who"] == name and one["value_us"]]  # fmt: skip
        longest = max((one["value_us"] / 1e6 for one in cells), default=0.0)
        near = next((limit for limit in _SESSIONS if abs(longest - limit) <= _NEAR * limit), None)
        if times.restarts and near:
            yield Recommendation(
                f"Have members of {name} leave their group when they stop, or give each a group.instance.id",
                f"{name} stood still for {longest:.0f} s, about a session's time-out ({near} s)",
                effect="a member that leaves, or comes back by its name, is not waited for",
            )
        if about.get("all_revoked") and watch.groups[name].protocol != "consumer":
            yield Recommendation(
                f"Give {name} the cooperative-sticky assignor, or group.protocol=consumer",
                f"all partitions of {name} were seen unassigned in a restart",
                effect="members that stay keep what they own",
            )
        commits, limit = about.get("commits_us") or 0, level.delivery_gap_s
        if limit is not None and not judgeable(commits, limit):
            yield Recommendation(
                f"Set auto.commit.interval.ms of {name} to {int(limit * 250)} or less, or allow a longer gap",
                f"{name} commits every {commits / 1e6:.0f} s, so that no gap of {limit:g} s can be told",
            )
    limits = [limit for key in MEASURES if (limit := getattr(level, key)) is not None]
    if limits and times.interval_us / 1e6 > min(limits) / 2:
        yield Recommendation(
            f"Sample every {max(min(limits) / 4, 0.1):g} s",
            f"samples every {times.interval_us / 1e6:g} s cannot tell whether {min(limits):g} s are kept",
            variable="verify",
            value={"watch": {"interval_s": max(min(limits) / 4, 0.1)}},
        )
