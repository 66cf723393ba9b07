"""How long records took, counted from when they should have been sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.hops.topic import intact, of_run
from spark_checks.levels import Levels, given
from spark_checks.model import Result, judge
from spark_checks.readers import Evidence
from spark_checks.run import Run

_JUDGED: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
CURVE: Final = (0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99, 100)
_ALL: Final = sorted({*_JUDGED.values(), *(float(point) for point in CURVE)})
#: Append and delivery need a join of ledger, records and deliveries; above this many records it is made
#: over every n-th record, and the report says so. The ack needs no join and is always exact.
JOIN_AT_MOST: Final = 10_000_000
#: Rows a task aggregates by identity: a hash map of this many fits into a small heap.
_ROWS_A_PART: Final = 1_000_000


def check(evidence: Evidence, levels: Levels) -> Result:
    """From the intended send time (open loop) to acknowledgement, append and first delivery.

    A record that waits in the generator because the system is slow counts from when it should have gone, so
    that a stall is not hidden by the load that it keeps back. Percentiles are exact (no sketches) over all
    records intended in the steady window; the warm-up is dropped. Records without an acknowledgement have no
    latency: how many there are is printed. Append is the broker's timestamp, in whole milliseconds, and is
    measured only on topics with LogAppendTime. Delivery is the first reception by a group. Ack uses one
    clock; append and delivery compare clocks of two hosts, corrected by nothing: the error of the clock
    measurement is printed, and a level closer to the figure than that error is unknown.
    """
    run, ledger = evidence.run, evidence.need("ledger")
    measured: dict[str, Any] = {}
    window = steady(ledger, run)
    rows = ledger.count()
    stride = max(1, -(-rows // JOIN_AT_MOST))
    spans = percentiles(ack_latencies(window))
    onward = onward_latencies(window, evidence, stride, rows).persist()
    spans |= percentiles(onward)
    onward.unpersist()
    for (via, stage), figures in sorted(spans.items()):
        part = measured.setdefault(via, {})
        part[f"{stage}_records"] = figures["records"]
        for name, point in _JUDGED.items():
            part[f"{stage}_{name}_ms"] = round(figures["at"][point] / 1000, 3)
        if figures["negative"]:
            part[f"{stage}_before_intended_records"] = figures["negative"]
    for row in window.where("outcome != 'acked'").groupBy("via").count().collect():
        measured.setdefault(row["via"], {})["not_acked_records"] = row["count"]
    slo = given(levels.latency)
    problems, doubts = _against(slo, measured, run.clock_error_us / 1000)
    short = []
    for via, part in measured.items():
        if "ack_p99_ms" in part:
            text = f"{via} ack p99 {part['ack_p99_ms']:,.1f} ms"
            if "delivery_p99_ms" in part:
                text += f", delivery p99 {part['delivery_p99_ms']:,.1f} ms"
            short.append(text)
    if not spans:
        doubts.append("no record was acknowledged in the steady window")
    measured["clock_error_ms"] = run.clock_error_us / 1000
    measured["clock_offsets_ms"] = {host: c.offset_us / 1000 for host, c in run.clock_offsets.items()}
    if stride > 1:
        measured["append_and_delivery_over"] = f"every {stride}th record"
    fine = "; ".join(short) if slo else "no level given; " + "; ".join(short)
    verdict, because = judge(problems, doubts, fine)
    return Result(
        "latency",
        verdict,
        because,
        slo=slo,
        measured=measured,
        short="; ".join(short),
        series={
            "curve": {
                f"{via} {stage}": [[point, span["at"][float(point)] / 1000] for point in CURVE]
                for (via, stage), span in sorted(spans.items())
            },
            "by_second": by_second(window, run),
        },
    )


def _against(
    slo: Mapping[str, Any], measured: Mapping[str, Any], error_ms: float
) -> tuple[list[str], list[str]]:
    """Return what is above its level, and what cannot be told."""
    problems, doubts = [], []
    for via, wanted in slo.items():
        for key, level in wanted.items():
            value = measured.get(via, {}).get(key)
            across = not key.startswith("ack")
            if value is None:
                doubts.append(f"{via}: {key} was not measured")
            elif across and abs(value - level) <= error_ms:
                doubts.append(
                    f"{via}: {key} {value:,.1f} is within the clock error of its level {level:,.0f}"
                )
            elif value > level:
                problems.append(f"{via}: {key} {value:,.1f}, the level is {level:,.0f}")
    return problems, doubts


def steady(ledger: DataFrame, run: Run) -> DataFrame:
    """Return the ledger rows whose intended time lies in the steady window."""
    return ledger.where(F.col("intended_us").between(run.measured_from_us, run.measured_until_us - 1))


def ack_latencies(window: DataFrame) -> DataFrame:
    """Return (via, stage, us) of every acknowledged record."""
    return window.where("outcome = 'acked'").select(
        "via", F.lit("ack").alias("stage"), (F.col("acked_us") - F.col("intended_us")).alias("us")
    )


def onward_latencies(window: DataFrame, evidence: Evidence, stride: int, ledger_rows: int) -> DataFrame:
    """Return (via, stage, us) to append and to the first delivery to each group.

    One aggregation by identity over the union of ledger, records and deliveries in place of two joins; it
    shuffles each record at most three times, three numbers wide.
    """
    vias = sorted({producer.via for producer in evidence.run.producers.values()})
    groups = list(evidence.run.groups)
    # Numbers for names: an aggregation over strings sorts, one over numbers hashes.
    via = F.array_position(F.array(*(F.lit(name) for name in vias)), F.col("via"))
    group = F.array_position(F.array(*(F.lit(name) for name in groups)), F.col("group")) if groups else None
    shape = ["via", "intended", "appended", "group", "got"]

    def part(frame: DataFrame, **columns: Column) -> DataFrame:
        nothing = F.lit(None).cast("long")
        return frame.where(F.col("seq") % stride == 0).select(
            "producer", "seq", *(columns.get(name, nothing).alias(name) for name in shape)
        )

    union = part(window, via=via, intended=F.col("intended_us"))
    records, deliveries = evidence.table("records"), evidence.table("deliveries")
    if records is not None:
        appended = intact(of_run(records, evidence.run)).where(F.col("timestamp_type") == "append")
        union = union.unionByName(part(appended, appended=F.col("timestamp_us")))
    if deliveries is not None and group is not None:
        mine = deliveries.where(F.col("producer").isNotNull() & F.col("group").isin(groups))
        union = union.unionByName(part(mine, group=group, got=F.col("received_us")))
    # Spread first: aggregating before the shuffle would fold nothing, as no record comes twice on one side.
    parts = max(ledger_rows * 3 // stride // _ROWS_A_PART, union.sparkSession.sparkContext.defaultParallelism)
    first = (
        union.repartition(parts, "producer", "seq")
        .groupBy("producer", "seq")
        .agg(
            *(F.max(name).alias(name) for name in ("via", "intended")),
            F.min("appended").alias("appended"),
            *(
                F.min(F.when(F.col("group") == n, F.col("got"))).alias(f"got_{n}")
                for n in range(1, len(groups) + 1)
            ),
        )
    )
    ends = {"append": ["appended"], "delivery": [f"got_{n}" for n in range(1, len(groups) + 1)]}
    stages = [
        F.struct(F.lit(stage).alias("stage"), (F.col(end) - F.col("intended")).alias("us"))
        for stage, names in ends.items()
        for end in names
    ]
    name = F.element_at(F.array(*(F.lit(name) for name in vias)), F.col("via").cast("int"))
    return (
        first.where(F.col("intended").isNotNull())
        .select(name.alias("via"), F.explode(F.array(*stages)).alias("one"))
        .select("via", "one.stage", "one.us")
        .where(F.col("us").isNotNull())
    )


def percentiles(latencies: DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """Return exact percentiles (nearest rank) by (via, stage): records, negative, at {percentile: us}.

    Latencies are counted by millisecond first, which says in which millisecond each rank lies; only the
    records of those milliseconds are then counted by microsecond. Both shuffle counts, not records, and no
    task holds more than the latencies' range.
    """
    keys = ["via", "stage"]
    millis = F.floor(F.col("us") / 1000).alias("ms")
    by_ms = Window.partitionBy(*keys).orderBy("ms").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = Window.partitionBy(*keys).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    coarse = (
        latencies.groupBy(*keys, millis)
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.count_if(F.col("us") < 0).alias("negative"),
        )
        .withColumn("upto", F.sum("n").over(by_ms))
        .withColumn("records", F.sum("n").over(whole))
        .withColumn("negative", F.sum("negative").over(whole))
    )
    points = F.explode(F.array(*(F.lit(point) for point in _ALL))).alias("point")
    rank = F.greatest(F.lit(1), F.ceil(F.col("point") * F.col("records") / 100)).cast("long")
    wanted = (
        coarse.select("*", points)
        .withColumn("rank", rank)
        .where((F.col("rank") <= F.col("upto")) & (F.col("rank") > F.col("upto") - F.col("n")))
        .select(*keys, "ms", "point", "records", "negative", (rank - F.col("upto") + F.col("n")).alias("nth"))
        .persist()
    )
    by_us = (
        Window.partitionBy(*keys, "ms")
        .orderBy("us")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    fine = (
        latencies.withColumn("ms", F.floor(F.col("us") / 1000))
        .join(F.broadcast(wanted.select(*keys, "ms").distinct()), [*keys, "ms"], "semi")
        .groupBy(*keys, "ms", "us")
        .agg(F.count(F.lit(1)).alias("n"))
        .withColumn("upto", F.sum("n").over(by_us))
    )
    rows = (
        fine.join(F.broadcast(wanted), [*keys, "ms"], "inner")
        .where((F.col("nth") <= F.col("upto")) & (F.col("nth") > F.col("upto") - F.col("n")))
        .select(*keys, "point", "us", "records", "negative")
        .collect()
    )
    wanted.unpersist()
    result: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        figures = {"records": row["records"], "negative": row["negative"], "at": {}}
        result.setdefault((row["via"], row["stage"]), figures)["at"][row["point"]] = row["us"]
    return result


def by_second(window: DataFrame, run: Run) -> dict[str, list[list[float]]]:
    """Return [second, p50 ms, p99 ms] of the ack by interface, to 0.1 ms, for the timeline."""
    second = F.floor((F.col("intended_us") - run.measured_from_us) / 1e6).cast("int").alias("second")
    step = F.floor((F.col("acked_us") - F.col("intended_us")) / 100).alias("step")
    counted = window.where("outcome = 'acked'").groupBy("via", second, step).agg(F.count("*").alias("n"))
    rows = (
        counted.groupBy("via", "second")
        .agg(F.percentile("step", F.array(F.lit(0.5), F.lit(0.99)), F.col("n")).alias("at"))
        .orderBy("via", "second")
        .collect()
    )
    result: dict[str, list[list[float]]] = {}
    for row in rows:
        result.setdefault(row["via"], []).append([row["second"], row["at"][0] / 10, row["at"][1] / 10])
    return result
