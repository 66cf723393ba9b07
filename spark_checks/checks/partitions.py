"""Whether the topics have partitions enough for their target, by what one partition was seen to carry."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kedge.evidence.levels import Levels, given
from kedge.evidence.run import Run, TopicRange
from spark_checks.engine.anomalies import examples
from spark_checks.engine.facts import delivered_grains, ledger_by
from spark_checks.engine.percentiles import rank
from spark_checks.engine.readers import Evidence
from spark_checks.engine.time_bins import BIN_US, grain_us
from spark_checks.results import Anomaly, Figure, Recommendation, Result, judge, judged, more_partitions

#: The rate that a partition is said to carry: met or passed in one of twenty seconds.
_PERCENTILE: Final = 95


def check(evidence: Evidence, levels: Levels) -> Result:
    """What one partition carried, against what the topic must carry: hence the number of partitions needed.

    A partition's rate is the 95th percentile of its seconds in the steady window, by the time of the
    acknowledgement (production) and of the delivery (consumption, the slower of the topic's groups). The
    number needed is the target divided by the best partition's rate, the slower of both sides, rounded up;
    the target is what the generators were to send, or the level of throughput where that is more. It is an
    upper bound: a partition that was never offered more than its share may carry more than it showed.

    - starved: a partition that got no record in the window, or less than a hundredth of its share.

    skew is the busiest partition's records over the mean; it is judged where a level is given. Without a
    target the number is only measured. A topic without an acknowledged record is unknown.
    """
    run = evidence.run
    slo: dict[str, Any] = given(levels.partitions)
    produced = _produced(evidence)
    consumed = _consumed(evidence)
    problems: list[str] = []
    doubts: list[str] = []
    starved: list[dict[str, Any]] = []
    advice: list[Recommendation] = []
    measured: dict[str, Any] = {}
    needs: list[Figure] = []
    skews: list[Figure] = []
    for topic in run.source_topics():
        mine = {p: produced.get((topic.topic, p), {}) for p in range(topic.partitions)}
        records = {p: sum(n for n, _ in seconds.values()) for p, seconds in mine.items()}
        whole = sum(records.values())
        if not whole:
            doubts.append(f"{topic.topic}: no record was acknowledged in the steady window")
            continue
        size = sum(b for seconds in mine.values() for _, b in seconds.values()) / whole
        best = max(_sustained([n for n, _ in seconds.values()]) for seconds in mine.values())
        read = [
            max(_sustained(list(consumed.get((group, topic.topic, p), {}).values())) for p in mine)
            for group, about in run.groups.items()
            if topic.topic in about.topics
        ]
        target = _target(run, levels, topic.topic)
        slowest = min([best, *(rate for rate in read if rate)])
        needed = math.ceil(target / slowest) if target else 0
        skew = round(max(records.values()) * topic.partitions / whole, 2)
        measured[topic.topic] = {
            "partitions": topic.partitions,
            "needed_partitions": needed,
            "target_records_per_s": round(target, 1),
            "partition_production_records_per_s": round(best, 1),
            "partition_production_mb_per_s": round(best * size / 1e6, 3),
            "skew": skew,
        }
        if target:
            slo.setdefault("target_records_per_s", {})[topic.topic] = round(target, 1)
        said = f"{topic.topic} needs {needed} of {topic.partitions}" if target else ""
        there = topic.partitions if target else None
        needs.append(Figure(f"{topic.topic} needs", needed, there, "partitions", said=said))
        skews.append(Figure(f"{topic.topic} skew", skew, levels.partitions.max_skew, "times",
                            key="partitions.max_skew"))  # fmt: skip
        if any(read):
            rate = min(rate for rate in read if rate)
            measured[topic.topic]["partition_consumption_records_per_s"] = round(rate, 1)
            measured[topic.topic]["partition_consumption_mb_per_s"] = round(rate * size / 1e6, 3)
        starved += [
            {"topic": topic.topic, "partition": p, "records": n}
            for p, n in records.items()
            if n * topic.partitions * 100 < whole
        ]
        if needed > topic.partitions:
            problems.append(
                f"{topic.topic}: {needed} partitions are needed for {target:,.0f} records/s, it has "
                f"{topic.partitions} (one sustained {slowest:,.0f}/s)"
            )
            advice.append(_more(topic, needed, target, slowest))
        if levels.partitions.max_skew is not None and skew > levels.partitions.max_skew:
            problems.append(f"{topic.topic}: skew {skew:g}, the level is {levels.partitions.max_skew:g}")
    if not measured and not doubts:
        doubts.append("run.json names no topic that was written to")
    short = "; ".join(
        f"{name} has {part['partitions']}, needs {part['needed_partitions']}"
        for name, part in measured.items()
    )
    verdict, because = judge(problems, doubts, short, judged=judged([*needs, *skews]))
    return Result(
        "partitions",
        verdict,
        because,
        slo=slo,
        measured=measured,
        anomalies={"starved": Anomaly(len(starved), tuple(starved[: examples()]))} if starved else {},
        recommendations=tuple(advice),
        figures=(*needs, *skews),
    )


def _produced(evidence: Evidence) -> dict[tuple[str, int], dict[int, tuple[int, int]]]:
    """Return (records, bytes) by (topic, partition) and second; rows grow with seconds and partitions."""
    last = int(evidence.run.measured_s)
    inside = (pc.field("acked_s") >= 0) & (pc.field("acked_s") < last) & (pc.field("outcome") == "acked")
    rows = ledger_by(evidence, "topic", "partition", "outcome", "acked_s").filter(inside)
    found: dict[tuple[str, int], dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in rows.select(["topic", "partition", "acked_s", "records", "bytes"]).to_pylist():
        found[row["topic"], row["partition"]][row["acked_s"]] = (row["records"], row["bytes"])
    return found


def _consumed(evidence: Evidence) -> dict[tuple[str, str, int], dict[int, int]]:
    """Return records by (group, topic, partition) and second of the delivery."""
    grains = delivered_grains(evidence)
    if grains is None:
        return {}
    run = evidence.run
    at = pc.subtract(pc.multiply(grains["grain"], grain_us(run)), run.measured_from_us)
    second = pc.floor(pc.divide(at.cast(pa.float64()), float(BIN_US))).cast(pa.int64())
    inside = (pc.field("second") >= 0) & (pc.field("second") < int(run.measured_s))
    places = grains.append_column("second", second).filter(inside)
    found: dict[tuple[str, str, int], dict[int, int]] = defaultdict(dict)
    by_second = places.group_by(["group", "topic", "partition", "second"]).aggregate([("records", "sum")])
    for row in by_second.to_pylist():
        found[row["group"], row["topic"], row["partition"]][row["second"]] = row["records_sum"]
    return found


def _sustained(counts: list[int]) -> float:
    ordered = sorted(counts) or [0]
    return float(ordered[rank(len(ordered), _PERCENTILE) - 1])


def _target(run: Run, levels: Levels, topic: str) -> float:
    """Return the records/s that the topic must carry: as sent, or as the level of its only interface asks."""
    mine = [producer for producer in run.producers.values() if producer.topic == topic]
    sent = sum(producer.records_per_s for producer in mine)
    vias = {producer.via for producer in mine}
    alone = [via for via in vias if {p.topic for p in run.producers.values() if p.via == via} == {topic}]
    asked = [getattr(levels.throughput, via).records_per_s or 0 for via in alone if via in ("kafka", "rest")]
    return max([sent, *asked])


def _more(topic: TopicRange, needed: int, target: float, rate: float) -> Recommendation:
    return Recommendation(
        f"Give {topic.topic} {needed} partitions",
        f"one partition sustained {rate:,.0f} records/s",
        *more_partitions(topic.topic, topic.cluster, needed),
        effect=f"{needed} partitions at that rate sustain the target of {target:,.0f} records/s",
    )
