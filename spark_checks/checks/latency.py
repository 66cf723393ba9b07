"""How long records took, counted from when they should have been sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from evidence.levels import Levels, given
from spark_checks.delivery.topic_to_group import Block, differing_blocks
from spark_checks.engine import clocks
from spark_checks.engine.anomalies import block, examples
from spark_checks.engine.facts import ONE, aggregated, given_to, intact_of, to_groups
from spark_checks.engine.folds import BLOCK_BITS
from spark_checks.engine.partial import second as second_of
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Result, judge, judged

_JUDGED: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
CURVE: Final = (0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99, 100)
_ALL: Final = sorted({*_JUDGED.values(), *(float(point) for point in CURVE)})
_STAGES: Final = ("ack", "append", "delivery")
#: Three significant digits: microseconds below the first bound are counted in steps of the second.
_STEPS: Final = ((1_000, 1), (10_000, 10), (100_000, 100), (1_000_000, 1_000), (10_000_000, 10_000))
_LAST_STEP: Final = 100_000
_NO_SECOND: Final = pc.scalar(pa.scalar(None, pa.int32()))
_ZERO: Final = pc.scalar(pa.scalar(0, pa.int64()))


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
    shown = _figures(slo, measured)
    problems, doubts, unsure = _against(slo, measured, run.clock_error_us / 1000, bool(shifted))
    shown = [replace(one, doubtful=one.key in unsure) for one in shown]
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
    verdict, because = judge(problems, doubts, "; ".join(short), judged=judged(shown))
    return Result(
        "latency",
        verdict,
        because,
        slo=slo,
        measured=measured,
        anomalies={"clock_shifted": Anomaly(len(shifted), tuple(shifted[: examples()]))} if shifted else {},
        figures=tuple(shown),
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
) -> tuple[list[str], list[str], set[str]]:
    """Return what is above its level, what cannot be told, and the keys of the levels of that."""
    problems, doubts, unsure = [], [], set()
    for via, wanted in slo.items():
        for key, level in wanted.items():
            value = measured.get(via, {}).get(key)
            across = not key.startswith("ack")
            if value is None:
                doubts.append(f"{via}: {key} was not measured")
            elif shifted and key.startswith("append"):
                unsure.add(f"latency.{via}.{key}")
                doubts.append(f"{via}: {key} was measured by a shifted clock")
            elif across and abs(value - level) <= error_ms:
                unsure.add(f"latency.{via}.{key}")
                doubts.append(
                    f"{via}: {key} {value:,.1f} is within the clock error of its level {level:,.0f}"
                )
            elif value > level:
                problems.append(f"{via}: {key} {value:,.1f}, the level is {level:,.0f}")
    return problems, doubts, unsure


def _figures(slo: Mapping[str, Any], measured: Mapping[str, Any]) -> list[Figure]:
    """Return what has a level, and of all else the 99th percentiles of acknowledgement and delivery."""
    found = []
    for via in dict.fromkeys((*measured, *slo)):
        levels, part = slo.get(via, {}), measured.get(via, {})
        told = [key for key in ("ack_p99_ms", "delivery_p99_ms") if key in part]
        for key in dict.fromkeys((*levels, *told)):
            what = f"{via} {key.removesuffix('_ms').replace('_', ' ')}"
            level, name = levels.get(key), f"latency.{via}.{key}"
            found.append(Figure(what, part.get(key), level, "ms", key=name))
    return sorted(found, key=lambda one: one.level is None)


def latencies(evidence: Evidence) -> DataFrame:
    """Count latencies: via, stage, second (null but for ack), us (rounded up), records, most (us, exact).

    Records and deliveries carry their intended time, so nothing is joined. Each table is read once; a row for
    each second and each of the few thousand values of three digits is shuffled. Stage ``none`` counts the
    records without an acknowledgement.
    """
    run = evidence.run
    intended = pc.field("intended_us")
    steady = (intended >= run.measured_from_us) & (intended < run.measured_until_us)
    acked = pc.field("outcome") == "acked"
    second = second_of("intended_us", run.measured_from_us)
    parts = [
        _counted(
            evidence,
            "ledger",
            steady,
            {
                "via": pc.field("via"),
                "stage": pc.if_else(acked, "ack", "none"),
                "second": pc.if_else(acked, second, _NO_SECOND),
                "took": pc.if_else(acked, pc.subtract(pc.field("acked_us"), intended), _ZERO),
            },
        )
    ]
    if evidence.table("records") is not None:
        appended = intact_of(run) & steady & (pc.field("timestamp_type") == "append")
        parts.append(_onward(evidence, "records", appended, "append", "timestamp_us"))
    if evidence.table("deliveries") is not None and run.groups:
        blocks = differing_blocks(evidence)
        first = given_to(run) & steady & ~_in_any(blocks)
        parts.append(_onward(evidence, "deliveries", first, "delivery", "received_us"))
        if blocks:
            again = first_deliveries(evidence, blocks)
            parts.append(_onward(evidence, "deliveries", steady, "delivery", "received_us", again))
    return reduce(DataFrame.unionByName, parts)


def _onward(
    evidence: Evidence, name: str, where: Any, stage: str, at: str, rows: DataFrame | None = None
) -> DataFrame:
    """Count what comes after the acknowledgement; the interface is that of the record's producer."""
    producer, via = pc.field("producer"), pc.scalar(pa.scalar(None, pa.string()))
    for number, about in evidence.run.producers.items():
        via = pc.if_else(producer == number, about.via, via)
    took = pc.subtract(pc.field(at), pc.field("intended_us"))
    known = producer.isin(list(evidence.run.producers))
    columns = {"via": via, "stage": pc.scalar(stage), "second": _NO_SECOND, "took": took}
    return _counted(evidence, name, where & known, columns, rows)


def _counted(
    evidence: Evidence, name: str, where: Any, columns: Mapping[str, Any], rows: DataFrame | None = None
) -> DataFrame:
    via, stage, second, took = (columns[name] for name in ("via", "stage", "second", "took"))
    keys = {"via": (via, "string"), "stage": (stage, "string"), "second": (second, "int")}
    keys |= {"us": (_rounded(took), "long")}
    return aggregated(evidence, name, where, keys, {"records": (ONE, "sum"), "most": (took, "max")}, rows)


def _rounded(took: Any) -> Any:
    """Round up to three significant digits: what is told is never better than what was."""

    def up(step: int) -> Any:
        return pc.multiply(pc.divide(pc.add(took, step - 1), step), step)

    result = up(_LAST_STEP)
    for below, step in reversed(_STEPS):
        result = pc.if_else(took < below, up(step), result)
    return result


def _in_any(blocks: Sequence[Block]) -> Any:
    """Return as a pyarrow expression whether a delivery lies in one of the blocks.

    Of many blocks more are named: all of the same group, and number.
    """
    offset, found = pc.field("offset"), pc.scalar(False)
    for group in sorted({one[0] for one in blocks}):
        numbers = sorted({number for name, _, _, number in blocks if name == group})
        mine = pc.shift_right(offset, BLOCK_BITS).isin(numbers)
        found = found | ((pc.field("group") == group) & mine)
    return found


def first_deliveries(evidence: Evidence, blocks: Sequence[Block]) -> DataFrame:
    """Return (producer, intended_us, received_us) of first deliveries in blocks that may hold a second one.

    One shuffle of what lies in these blocks, by position.
    """
    got = to_groups(evidence.need("deliveries"), evidence.run).where(F.col("intended_us").isNotNull())
    named = F.lit(False)
    for group in sorted({one[0] for one in blocks}):
        numbers = sorted({number for name, _, _, number in blocks if name == group})
        named = named | ((F.col("group") == group) & block("offset").isin(numbers))
    return (
        got.where(named)
        .groupBy("group", "topic", "partition", "offset", "producer", "intended_us")
        .agg(F.min("received_us").alias("received_us"))
        .select("producer", "intended_us", "received_us")
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
