"""Whether the topics have partitions enough for their target, by what one partition was seen to carry."""

from __future__ import annotations

import math
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run, TopicRange
from spark_checks.engine.anomalies import listed
from spark_checks.engine.facts import deliveries_by, ledger_by
from spark_checks.engine.readers import Evidence
from spark_checks.results import Figure, Recommendation, Result, concluded, more_partitions

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
    targets: dict[str, float] = {}
    acked = ledger_by(evidence, "topic", "partition", "outcome", "acked_s").where("outcome = 'acked'")
    produced = {
        (row["topic"], row["partition"]): row
        for row in _sustained(acked, "acked_s", "records", run, "topic", "partition").collect()
    }
    consumed = _consumed(evidence)
    problems: list[str] = []
    doubts: list[str] = []
    starved: list[dict[str, Any]] = []
    advice: list[Recommendation] = []
    measured: dict[str, Any] = {}
    needs: list[Figure] = []
    skews: list[Figure] = []
    for topic in run.source_topics():
        mine = [row for p in range(topic.partitions) if (row := produced.get((topic.topic, p)))]
        records = dict.fromkeys(range(topic.partitions), 0) | {
            row["partition"]: row["records"] for row in mine
        }
        whole = sum(records.values())
        if not whole:
            doubts.append(f"{topic.topic}: no record was acknowledged in the steady window")
            continue
        size = sum(row["bytes"] for row in mine) / whole
        best = max(float(row["sustained"]) for row in mine)
        read = [
            consumed.get((group, topic.topic), 0.0)
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
            targets[topic.topic] = round(target, 1)
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
    return concluded(
        "partitions",
        problems,
        doubts,
        short,
        (*needs, *skews),
        slo={"target_records_per_s": targets} if targets else {},
        measured=measured,
        anomalies=listed("starved", starved),
        recommendations=tuple(advice),
    )


def _consumed(evidence: Evidence) -> dict[tuple[str, str], float]:
    """Return what the best partition of a topic gave a group, records/s."""
    if not evidence.has("deliveries") or not evidence.run.groups:
        return {}
    keys = ("group", "topic", "partition")
    seconds = deliveries_by(evidence, *keys, "received_s")
    best = _sustained(seconds.withColumn("bytes", F.lit(0)), "received_s", "rows", evidence.run, *keys)
    rows = best.groupBy("group", "topic").agg(F.max("sustained").alias("sustained")).collect()
    return {(row["group"], row["topic"]): float(row["sustained"]) for row in rows}


def _sustained(seconds: DataFrame, second: str, records: str, run: Run, *keys: str) -> DataFrame:
    """Return what came in the steady window: keys, records, bytes, sustained (records/s).

    Args:
        seconds: keys, second, records and bytes of each.
    """
    inside = seconds.where(f"{second} >= 0 and {second} < {int(run.measured_s)}")
    counts = F.collect_list(records)
    # A percentile of the seconds in which anything came.
    place = F.greatest(F.lit(1), F.ceil(F.size(counts) * F.lit(_PERCENTILE) / 100)).cast("int")
    return inside.groupBy(*keys).agg(
        F.sum(records).alias("records"),
        F.sum("bytes").alias("bytes"),
        F.element_at(F.sort_array(counts), place).alias("sustained"),
    )


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
