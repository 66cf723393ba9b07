"""How long records took, counted from when they should have been sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from spark_checks import clocks
from spark_checks.facts import of_run, second, to_groups
from spark_checks.hops.found import examples, in_blocks
from spark_checks.hops.group import differing_blocks
from spark_checks.hops.topic import intact
from spark_checks.levels import Levels, given
from spark_checks.model import Anomaly, Result, judge
from spark_checks.readers import Evidence
from spark_checks.run import Run

_JUDGED: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
CURVE: Final = (0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99, 100)
_ALL: Final = sorted({*_JUDGED.values(), *(float(point) for point in CURVE)})
_STAGES: Final = ("ack", "append", "delivery")
#: Three significant digits: microseconds below the first bound are counted in steps of the second.
_STEPS: Final = ((1_000, 1), (10_000, 10), (100_000, 100), (1_000_000, 1_000), (10_000_000, 10_000))
_LAST_STEP: Final = 100_000


def check(evidence: Evidence, levels: Levels) -> Result:
    """From the intended send time (open loop) to acknowledgement, append and first delivery.

    A record that waits in the generator because the system is slow counts from when it should have gone, so
    that a stall is not hidden by the load that it keeps back. Percentiles are nearest rank over all records
    intended in the steady window, every one counted; the warm-up is dropped. Values are rounded up to three
    significant digits, the maximum is exact. Records without an acknowledgement have no latency: how many
    there are is printed. Append is the broker's timestamp, in whole milliseconds, and is measured only on
    topics with LogAppendTime. Delivery is the first reception by a group.

    Ack uses one clock; append and delivery compare clocks of two hosts, corrected by nothing: the error of
    the clock measurement is printed, and a level closer to the figure than that error is unknown. A broker's
    clock is measured by the records themselves too: each was appended after it was sent and before it was
    acknowledged, so in every second the mean time of append lies between those of sending and of
    acknowledgement, by a true clock. Where it does not, the clock is shifted (clock_shifted, with the least
    shift that explains it), and what was measured by it is unknown.
    """
    run = evidence.run
    measured: dict[str, Any] = {}
    counted = latencies(evidence).persist()
    rows = counted.groupBy("via", "stage", "us").agg(
        F.sum("records").alias("records"), F.max("most").alias("most")
    )
    spans = percentiles(rows.collect())
    seconds = by_second(counted)
    counted.unpersist()
    for (via, stage), figures in sorted(spans.items()):
        part = measured.setdefault(via, {})
        if stage == "none":
            part["not_acked_records"] = figures["records"]
            continue
        part[f"{stage}_records"] = figures["records"]
        for name, point in _JUDGED.items():
            part[f"{stage}_{name}_ms"] = round(figures["at"][point] / 1000, 3)
        if figures["negative"]:
            part[f"{stage}_before_intended_records"] = figures["negative"]
    shifted = clocks.shifted(evidence)
    slo = given(levels.latency)
    problems, doubts = _against(slo, measured, run.clock_error_us / 1000, bool(shifted))
    short = []
    for via, part in measured.items():
        if "ack_p99_ms" in part:
            text = f"{via} ack p99 {part['ack_p99_ms']:,.1f} ms"
            if "delivery_p99_ms" in part:
                text += f", delivery p99 {part['delivery_p99_ms']:,.1f} ms"
            short.append(text)
    if not short:
        doubts.append("no record was acknowledged in the steady window")
    if shifted:
        doubts.append(
            f"the broker's clock was shifted by {shifted[0]['shift_at_least_ms']:,.0f} ms or more at "
            f"{shifted[0]['topic']}-{shifted[0]['partition']}"
        )
    measured["clock_error_ms"] = run.clock_error_us / 1000
    measured["clock_offsets_ms"] = {host: c.offset_us / 1000 for host, c in run.clock_offsets.items()}
    fine = "; ".join(short) if slo else "no level given; " + "; ".join(short)
    verdict, because = judge(problems, doubts, fine)
    return Result(
        "latency",
        verdict,
        because,
        slo=slo,
        measured=measured,
        anomalies={"clock_shifted": Anomaly(len(shifted), tuple(shifted[: examples()]))} if shifted else {},
        short="; ".join(short),
        series={
            "curve": {
                f"{via} {stage}": [[point, span["at"][float(point)] / 1000] for point in CURVE]
                for (via, stage), span in sorted(spans.items())
                if stage in _STAGES
            },
            "by_second": seconds,
        },
    )


def _against(
    slo: Mapping[str, Any], measured: Mapping[str, Any], error_ms: float, shifted: bool
) -> tuple[list[str], list[str]]:
    """Return what is above its level, and what cannot be told."""
    problems, doubts = [], []
    for via, wanted in slo.items():
        for key, level in wanted.items():
            value = measured.get(via, {}).get(key)
            across = not key.startswith("ack")
            if value is None:
                doubts.append(f"{via}: {key} was not measured")
            elif shifted and key.startswith("append"):
                doubts.append(f"{via}: {key} was measured by a shifted clock")
            elif across and abs(value - level) <= error_ms:
                doubts.append(
                    f"{via}: {key} {value:,.1f} is within the clock error of its level {level:,.0f}"
                )
            elif value > level:
                problems.append(f"{via}: {key} {value:,.1f}, the level is {level:,.0f}")
    return problems, doubts


def latencies(evidence: Evidence) -> DataFrame:
    """Count latencies: via, stage, second (null but for ack), us (rounded up), records, most (us, exact).

    Records and deliveries carry their intended time, so nothing is joined. Each table is read once; a row for
    each second and each of the few thousand values of three digits is shuffled. Stage ``none`` counts the
    records without an acknowledgement.
    """
    run = evidence.run
    steady = F.col("intended_us").between(run.measured_from_us, run.measured_until_us - 1)
    ledger = evidence.need("ledger").where(steady)
    acked = F.col("outcome") == "acked"
    took = F.col("acked_us") - F.col("intended_us")
    parts = [
        _counted(
            ledger.select(
                "via",
                F.when(acked, F.lit("ack")).otherwise(F.lit("none")).alias("stage"),
                F.when(acked, second("intended_us", run)).alias("second"),
                F.when(acked, took).otherwise(F.lit(0)).alias("took"),
            )
        )
    ]
    records = evidence.table("records")
    if records is not None:
        appended = intact(of_run(records, run)).where(steady & (F.col("timestamp_type") == "append"))
        parts.append(_onward(appended, "append", "timestamp_us", run))
    if evidence.table("deliveries") is not None and run.groups:
        parts.append(_onward(first_deliveries(evidence).where(steady), "delivery", "received_us", run))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _onward(rows: DataFrame, stage: str, at: str, run: Run) -> DataFrame:
    ids = {via: [n for n, p in run.producers.items() if p.via == via] for via in _vias(run)}
    via = F.coalesce(*(F.when(F.col("producer").isin(numbers), F.lit(via)) for via, numbers in ids.items()))
    return _counted(
        rows.select(
            via.alias("via"),
            F.lit(stage).alias("stage"),
            F.lit(None).cast("int").alias("second"),
            (F.col(at) - F.col("intended_us")).alias("took"),
        ).where(F.col("via").isNotNull())
    )


def _vias(run: Run) -> list[str]:
    return sorted({producer.via for producer in run.producers.values()})


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("via", "stage", "second", _rounded("took").alias("us")).agg(
        F.count(F.lit(1)).alias("records"), F.max("took").alias("most")
    )


def _rounded(took: str) -> Column:
    """Round up to three significant digits: what is told is never better than what was."""
    value = F.col(took)

    def up(step: int) -> Column:
        return F.ceil(value / step).cast("long") * step

    result = F.when(value < _STEPS[0][0], value)
    for below, step in _STEPS[1:]:
        result = result.when(value < below, up(step))
    return result.otherwise(up(_LAST_STEP))


def first_deliveries(evidence: Evidence) -> DataFrame:
    """Return (producer, intended_us, received_us) of the first delivery of each record to each group.

    Only blocks of offsets whose digests differ can hold a second one: those are aggregated by position.
    """
    deliveries = evidence.table("deliveries")
    assert deliveries is not None, "asked for by the caller"
    got = to_groups(deliveries, evidence.run).where(F.col("intended_us").isNotNull())
    columns = ["producer", "intended_us", "received_us"]
    blocks = differing_blocks(evidence)
    if not blocks:
        return got.select(*columns)
    keys = ["group", "topic", "partition"]
    exact = in_blocks(got, blocks, keys, "offset")
    first = exact.groupBy(*keys, "offset", "producer", "intended_us").agg(
        F.min("received_us").alias("received_us")
    )
    return (
        in_blocks(got, blocks, keys, "offset", inside=False)
        .select(*columns)
        .unionByName(first.select(*columns))
    )


def percentiles(rows: list[Row]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return percentiles (nearest rank) by (via, stage): records, negative, at {percentile: us}.

    Args:
        rows: via, stage, us, records, most: one a value of three digits, some thousands.
    """
    result: dict[tuple[str, str], dict[str, Any]] = {}
    for key in {(row["via"], row["stage"]) for row in rows}:
        counts = sorted((r["us"], r["records"], r["most"]) for r in rows if (r["via"], r["stage"]) == key)
        whole = sum(records for _, records, _ in counts)
        at: dict[float, int] = {}
        upto, points = 0, list(_ALL)
        for us, records, most in counts:
            upto += records
            while points and max(1, -(-points[0] * whole // 100)) <= upto:
                at[points.pop(0)] = min(us, most) if upto == whole else us
        at[100.0] = max(most for _, _, most in counts)
        negative = sum(records for us, records, _ in counts if us < 0)
        result[key] = {"records": whole, "negative": negative, "at": at}
    return result


def by_second(counted: DataFrame) -> dict[str, list[list[float]]]:
    """Return [second, p50 ms, p99 ms] of the ack by interface, for the timeline."""
    rows = (
        counted.where("stage = 'ack'")
        .groupBy("via", "second")
        .agg(F.percentile("us", F.array(F.lit(0.5), F.lit(0.99)), F.col("records")).alias("at"))
        .orderBy("via", "second")
        .collect()
    )
    result: dict[str, list[list[float]]] = {}
    for row in rows:
        result.setdefault(row["via"], []).append([row["second"], row["at"][0] / 1000, row["at"][1] / 1000])
    return result
