"""How long records took, counted from when they should have been sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels, given
from spark_checks.checks import broker_clocks
from spark_checks.delivery.topic_to_group import differing_blocks
from spark_checks.engine.anomalies import listed
from spark_checks.engine.blocks import in_blocks
from spark_checks.engine.facts import (
    ack_by_second,
    ack_latencies,
    append_latencies,
    delivery_latencies,
    to_groups,
)
from spark_checks.engine.percentiles import counted_percentiles
from spark_checks.engine.readers import Evidence
from spark_checks.results import Figure, Result, concluded

_JUDGED: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
CURVE: Final = (0, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99, 100)
_ALL: Final = sorted({*_JUDGED.values(), *(float(point) for point in CURVE)})
_STAGES: Final = ("ack", "append", "delivery")
#: Interface and stage.
Stage = tuple[str, str]


#: How many records took how long, in order: us (rounded up), records, longest (us, exact).
Counts = list[Row]


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
    spans = {stage: percentiles_of(counts) for stage, counts in latencies(evidence).items()}
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
    shifted = broker_clocks.shifted(evidence)
    slo = given(levels.latency)
    shown, problems, doubts = _against(
        _figures(slo, measured), run.clock_error_us / 1000, shifted=bool(shifted)
    )
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
    return concluded(
        "latency",
        problems,
        doubts,
        "; ".join(short),
        shown,
        measured=measured,
        anomalies=listed("clock_shifted", shifted),
        series={
            "curve": {
                f"{via} {stage}": [[point, span["at"][float(point)] / 1000] for point in CURVE]
                for (via, stage), span in sorted(spans.items())
                if stage in _STAGES
            },
            "by_second": by_second(evidence),
        },
    )


def _against(
    figures: Sequence[Figure], error_ms: float, *, shifted: bool
) -> tuple[list[Figure], list[str], list[str]]:
    """Return figures, doubtful where they cannot be told from their levels; what is above, and all doubts."""
    shown, problems, doubts = [], [], []
    for one in figures:
        via, _, key = one.key.removeprefix("latency.").rpartition(".")
        doubt = ""
        if one.level is not None and one.value is None:
            doubts.append(f"{via}: {key} was not measured")
        elif one.level is not None and one.value is not None:
            if shifted and key.startswith("append"):
                doubt = f"{via}: {key} was measured by a shifted clock"
            elif not key.startswith("ack") and abs(one.value - one.level) <= error_ms:
                near = f"within the clock error of its level {one.level:,.0f}"
                doubt = f"{via}: {key} {one.value:,.1f} is {near}"
            elif one.value > one.level:
                problems.append(f"{via}: {key} {one.value:,.1f}, the level is {one.level:,.0f}")
            doubts += [doubt] if doubt else []
        shown.append(replace(one, doubtful=bool(doubt)))
    return shown, problems, doubts


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


def latencies(evidence: Evidence) -> dict[Stage, Counts]:
    """Return by interface and stage how many records took how long; ``none`` are those never acknowledged.

    Records and deliveries carry their intended time, so nothing is joined.
    """
    stage = F.when(F.col("acked"), F.lit("ack")).otherwise(F.lit("none"))
    counted = ack_latencies(evidence).withColumn("stage", stage).drop("acked")
    onward = {"append": append_latencies(evidence) if evidence.has("records") else None}
    if evidence.has("deliveries") and evidence.run.groups:
        onward["delivery"] = first_delivery_latencies(evidence)
    for name, frame in onward.items():
        if frame is not None:
            counted = counted.unionByName(frame.withColumn("stage", F.lit(name)))
    found: dict[Stage, Counts] = {}
    # Values of three digits, some thousands.
    for row in sorted(counted.collect(), key=lambda row: row["us"]):
        found.setdefault((row["via"], row["stage"]), []).append(row)
    return found


def first_delivery_latencies(evidence: Evidence) -> DataFrame:
    """Return the latencies of first deliveries by interface: what came again counts once.

    Something came again only in blocks that differ from the records: their deliveries are shuffled by
    position, the others are counted as they are.
    """
    run, blocks = evidence.run, differing_blocks(evidence)
    received = to_groups(evidence.need("deliveries"), run).where(F.col("intended_us").isNotNull())
    if not blocks.count:
        return delivery_latencies(received, run)
    columns = ("producer", "intended_us", "received_us")
    first = (
        in_blocks(received, blocks, "offset")
        .groupBy(*blocks.keys, "offset", "producer", "intended_us")
        .agg(F.min("received_us").alias("received_us"))
        .select(*columns)
    )
    others = in_blocks(received, blocks, "offset", inside=False).select(*columns)
    return delivery_latencies(others.unionByName(first), run)


def percentiles_of(found: Counts) -> dict[str, Any]:
    """Return percentiles (nearest rank): records, negative, at {percentile: us}."""
    negative = sum(row["records"] for row in found if row["us"] < 0)
    at = counted_percentiles(found, _ALL)
    return {"records": sum(row["records"] for row in found), "negative": negative, "at": at}


def by_second(evidence: Evidence) -> dict[str, list[list[float]]]:
    """Return [second, p50 ms, p99 ms] of the ack by interface, for the timeline."""
    found: dict[str, list[list[float]]] = {}
    for row in ack_by_second(evidence).collect():
        found.setdefault(row["via"], []).append([row["second"], row["p50_us"] / 1000, row["p99_us"] / 1000])
    return found
