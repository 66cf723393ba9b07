"""How much one partition takes and gives, and how many a target therefore needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels
from kedge.services.topics.partition_count import partitions_needed
from kedge.services.topics.rates import Use, is_clients, limited_by, median_and_spread, stops_at
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded, more_partitions

#: Not "partitions", which a load is judged by: this is a measurement of its own kind.
NAME: Final = "partition_rates"
#: A measurement whose repetitions lie further apart says little.
_SPREAD_DOUBT: Final = 0.5
#: Where each phase left its rows.
TABLES: Final = {"produce": "ledger", "consume": "deliveries"}
#: By what a measurement was made.
_CONDITIONS: Final = ("record_bytes", "codec", "acks", "replication", "clients")
_PHASES: Final = {"produce": "production", "consume": "consumption"}


def check(evidence: Evidence, levels: Levels) -> Result:
    """What one partition takes and gives (t_production, t_consumption), and the curve over more of them.

    A measurement (`kedge measure`) produces to and consumes from temporary topics of 1, 2, 4 ...
    partitions, several times each. A round's throughput is the bytes of the values acknowledged, or received,
    within its window, by the clients' own clock, over the window's length; the warm-up lies before the
    window. Of the repetitions the median counts; the spread is their range over it. The curve stops where a
    further point is not more than 10 % (or the spread, if that is more) above the best before it. A target
    needs max(t / t_production, t / t_consumption) partitions, times its growth; one that lies above the
    highest point of a curve that stopped for another reason than the clients, cannot be reached by any number
    of partitions, and fails. Without targets nothing is judged. Without a measurement in the evidence
    nothing is known.
    """
    del levels  # the target is the topic's own
    asked = evidence.run.measurement
    if asked is None:
        return Result(NAME, "unknown", "no measurement of partitions in this run: kedge measure makes one")
    rounds = asked["rounds"]
    volumes = {
        phase: volume(evidence, [r for r in rounds if r["phase"] == phase], phase, asked["record_bytes"])
        for phase, table in TABLES.items()
        if evidence.has(table)
    }
    curves: dict[str, dict[int, list[float]]] = {phase: defaultdict(list) for phase in _PHASES}
    for each in rounds:
        if each["acks"] == asked["acks"]:
            rate = _mb_per_s(volumes.get(each["phase"], {}), each)
            curves[each["phase"]][each["partitions"]].append(rate)
    doubts: list[str] = []
    measured: dict[str, Any] = {key: asked[key] for key in _CONDITIONS}
    for phase, name in _PHASES.items():
        measured[name] = _curve(
            curves[phase], rounds, phase, _without_copies(volumes, asked) if phase == "produce" else None
        )
        doubts += _doubts(name, measured[name])
    lost = 0
    if asked["acks"] != "0" and evidence.has("ledger"):
        lost = evidence.need("ledger").where("outcome != 'acked'").count()
    problems, needs, recommendations = _targets(asked, measured) if not doubts else ([], [], [])
    measured["targets"] = needs
    rates = partition_rates(evidence.run.run_id, asked, measured)
    if rates is not None and not doubts:
        recommendations.append(Recommendation(
            f"plan the topics of cluster {asked['cluster']} with what one partition was measured to sustain",
            f"{rates['production_mb_per_s']:g} MB/s produced, {rates['consumption_mb_per_s']:g} MB/s "
            "consumed",
            "kafka_partition_rates", [rates]))  # fmt: skip
    one = measured["production"]["one_mb_per_s"], measured["consumption"]["one_mb_per_s"]
    return concluded(
        NAME,
        problems,
        doubts,
        f"one partition: {one[0]:,.1f} MB/s in, {one[1]:,.1f} MB/s out",
        _figures(measured),
        judged=bool(asked["targets"]),
        slo={"targets": asked["targets"]} if asked["targets"] else {},
        measured=measured,
        anomalies={"not_acknowledged": Anomaly(lost)} if lost else {},
        recommendations=tuple(recommendations),
        series={"curves": {name: sorted((int(n), v) for n, v in measured[name]["curve_mb_per_s"].items())
                           for name in _PHASES.values()}},
    )  # fmt: skip


def _figures(measured: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return each target beside the most that any number of partitions carries, and what one carries."""
    curves = {name: measured[name] for name in _PHASES.values()}
    most = {name: None if is_clients(curve["limited_by"]) else curve["ceiling_mb_per_s"]
            for name, curve in curves.items()}  # fmt: skip
    return (
        *(
            Figure(f"{target['topic']} {name}", target["target_mb_per_s"], most[name], "MB/s")
            for target in measured["targets"]
            for name in curves
        ),
        *(Figure(f"one partition {name}", one["one_mb_per_s"], None, "MB/s") for name, one in curves.items()),
    )


def volume(
    evidence: Evidence, rounds: Sequence[Mapping[str, Any]], phase: str, record_bytes: int
) -> dict[str, int]:
    """Return topic -> bytes of values acknowledged (ledger) or received (deliveries) within its window.

    The rows of a topic are those of one round, so its window can be looked up by it: the rounds are few, and
    the table is read once.
    """
    produced = phase == "produce"
    at = F.col("acked_us" if produced else "received_us")
    windows = (
        (F.col("topic") == one["topic"]) & (at >= one["from_us"]) & (at < one["until_us"]) for one in rounds
    )
    size = F.col("bytes") if produced else F.lit(record_bytes)
    rows = evidence.need(TABLES[phase]).where(reduce(Column.__or__, windows, F.lit(False)))
    return {
        row["topic"]: int(row["bytes"])
        for row in rows.groupBy("topic").agg(F.sum(size).alias("bytes")).collect()
    }


def _mb_per_s(volumes: Mapping[str, int], one: Mapping[str, Any]) -> float:
    """Return a round's megabytes (10^6 bytes) a second."""
    return float(volumes.get(one["topic"], 0) / max(one["until_us"] - one["from_us"], 1))


def _curve(
    points: Mapping[int, Sequence[float]],
    rounds: Sequence[Mapping[str, Any]],
    phase: str,
    without_copies: float | None,
) -> dict[str, Any]:
    """Return the medians of a phase, their spread, where the curve stops and what stopped it."""
    medians = {count: median_and_spread(rates) for count, rates in sorted(points.items())}
    curve = {count: middle for count, (middle, _) in medians.items()}
    spread = max((s for _, s in medians.values()), default=0.0)
    top = stops_at(curve, spread)
    at = top or max(curve, default=1)
    there = [r for r in rounds if r["phase"] == phase and r["partitions"] == at]
    busy = median_and_spread([r["client_busy"] for r in there])[0] if there else 0.0
    return {
        "one_mb_per_s": round(curve.get(1, 0.0), 3),
        "spread": round(medians.get(1, (0.0, 0.0))[1], 3),
        "repetitions": len(points.get(1, ())),
        "curve_mb_per_s": {str(count): round(rate, 3) for count, rate in curve.items()},
        "curve_spread": {str(count): round(s, 3) for count, (_, s) in medians.items()},
        "stops_at": top,
        "ceiling_mb_per_s": round(max(curve.values()), 3) if top else None,
        "limited_by": limited_by(_uses(there), busy, without_copies),
    }


def _uses(rounds: Sequence[Mapping[str, Any]]) -> list[Use]:
    """Return each machine's use, the median of the rounds."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for one in rounds:
        for each in one["loads"]:
            found[each["host"], each["role"], each["machine"]].append(each)
    uses = []
    for (host, role, machine), rows in found.items():
        network = [row["network"] for row in rows if row["network"] is not None]
        uses.append(Use(host, role, machine, median_and_spread([row["cpu"] for row in rows])[0],
                        median_and_spread([row["disk"] for row in rows])[0],
                        median_and_spread(network)[0] if network else None))  # fmt: skip
    return uses


def _without_copies(volumes: Mapping[str, Mapping[str, int]], asked: Mapping[str, Any]) -> float | None:
    """Return how many times as fast acks=1 was as the acks asked for, at the same number of partitions."""
    produced = volumes.get("produce", {})
    alone = [r for r in asked["rounds"] if r["phase"] == "produce" and r["acks"] != asked["acks"]]
    if not alone:
        return None
    same = [_mb_per_s(produced, r) for r in asked["rounds"] if r["phase"] == "produce"
            and r["acks"] == asked["acks"] and r["partitions"] == alone[0]["partitions"]]  # fmt: skip
    slower = median_and_spread(same)[0] if same else 0.0
    return _mb_per_s(produced, alone[0]) / slower if slower else None


def _doubts(name: str, curve: Mapping[str, Any]) -> list[str]:
    if not curve["one_mb_per_s"]:
        return [f"{name}: nothing was measured of one partition"]
    if curve["spread"] > _SPREAD_DOUBT:
        return [
            f"{name}: the repetitions of one partition lie {curve['spread']:.0%} apart: measure again, longer"
        ]
    return []


def _targets(
    asked: Mapping[str, Any], measured: Mapping[str, Any]
) -> tuple[list[str], list[dict[str, Any]], list[Recommendation]]:
    """Return the targets that cannot be reached, what each needs, and what to change."""
    problems, needs, recommendations = [], [], []
    production, consumption = measured["production"], measured["consumption"]
    for topic in asked["targets"]:
        target, growth = topic["target_mb_per_s"], topic["growth"]
        needed = partitions_needed(target, production["one_mb_per_s"], consumption["one_mb_per_s"], growth)
        needs.append({**topic, "needed_partitions": needed})
        for name, curve in (("production", production), ("consumption", consumption)):
            ceiling = curve["ceiling_mb_per_s"]
            if ceiling is not None and target > ceiling and not is_clients(curve["limited_by"]):
                problems.append(
                    f"topic {topic['topic']}: no number of partitions reaches {target:g} MB/s of {name}: the "
                    f"curve stops at {ceiling:g} MB/s with {curve['stops_at']}, limited by "
                    f"{curve['limited_by']}"
                )
        has = topic.get("partitions")
        if has is not None and has < needed:
            recommendations.append(Recommendation(
                f"give topic {topic['topic']} {needed} partitions, not {has}",
                f"max({target:g} / {production['one_mb_per_s']:g}, {target:g} / "
                f"{consumption['one_mb_per_s']:g}) x growth {growth:g}",
                *more_partitions(topic["topic"], asked["cluster"], needed)))  # fmt: skip
    return problems, needs, recommendations


def partition_rates(
    run_id: str, asked: Mapping[str, Any], measured: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the entry of the inventory's ``kafka_partition_rates``; None when nothing was measured."""
    entry: dict[str, Any] = {"cluster": asked["cluster"], **{key: asked[key] for key in _CONDITIONS}}
    for name in _PHASES.values():
        curve = measured[name]
        if not curve["one_mb_per_s"]:
            return None
        entry |= {f"{name}_mb_per_s": curve["one_mb_per_s"], f"{name}_spread": curve["spread"]}
        if curve["ceiling_mb_per_s"] is not None:
            entry |= {
                f"{name}_ceiling_mb_per_s": curve["ceiling_mb_per_s"],
                f"{name}_stops_at": curve["stops_at"],
            }
        entry[f"{name}_limited_by"] = curve["limited_by"]
    return entry | {"repetitions": measured["production"]["repetitions"], "run": run_id}
