"""What the mirror check says of batches: how long they take to fill, how they compress, what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_checks.engine.readers import Evidence
from spark_checks.mirror.compression import CLASSES, Compression, compressions
from spark_checks.mirror.fill import CLASSES_MS, Fill, fills
from spark_checks.results import Recommendation

#: Below as many, the last percents are a batch or none, and say nothing of the next ones.
ENOUGH: Final = 100


@dataclass(frozen=True)
class BatchMeasurements:
    """Of each flow: fill times, compression by codec, and the codec that the plan gave it (may be empty)."""

    filled: Mapping[str, Fill]
    compressed: Mapping[str, Mapping[str, Compression]]
    codecs: Mapping[str, str]


def batches_of(evidence: Evidence) -> BatchMeasurements:
    """Return what the evidence has of batches; compression only where the topics were read by an audit."""
    run, table = evidence.run, evidence.table("batches")
    filled = fills(evidence)
    compressed = compressions(table, run) if table is not None else {}
    return BatchMeasurements(filled, compressed, {mirror.flow: mirror.codec for mirror in run.mirrors})


def measured(found: BatchMeasurements) -> dict[str, Any]:
    """Return the figures of each flow."""
    return {
        flow: _fill(one) | _compression(found.compressed.get(flow, {})) for flow, one in found.filled.items()
    }


def _fill(one: Fill) -> dict[str, Any]:
    return {
        "filled_batches": one.batches,
        "fill_p95_ms": one.p95_ms,
        "fill_p99_ms": one.p99_ms,
        "fill_p95_of_the_slowest_partition_ms": one.slowest_p95_ms,
        "partitions": one.partitions,
        "partitions_without_a_full_batch": one.unfilled_partitions,
    }


def _compression(codecs: Mapping[str, Compression]) -> dict[str, Any]:
    if not codecs:
        return {}
    return {
        "times_smaller": {
            codec: {
                "sampled_batches": one.batches,
                "median": round(1 / one.median, 2),
                "best": round(1 / one.best, 2),
                "all": round(1 / one.all, 2),
            }
            for codec, one in codecs.items()
        }
    }


def recommendations(found: BatchMeasurements) -> tuple[Recommendation, ...]:
    """Return what the plan can take: fill times, and the ratio that bounds a batch, of flows with enough."""
    made = []
    times = {flow: one for flow, one in found.filled.items() if one.batches >= ENOUGH}
    if times:
        because = "; ".join(
            f"of {one.batches:,} batches of flow {flow} 95 percent were full within {one.p95_ms:,} ms "
            f"and 99 percent within {one.p99_ms:,} ms"
            for flow, one in times.items()
        )
        value = {
            flow: {"fill_ms_p95": max(one.p95_ms or 0, 1), "fill_ms_p99": max(one.p99_ms or 0, 1)}
            for flow, one in times.items()
        }
        advice = "let linger.ms follow the measured fill times"
        made.append(Recommendation(advice, because, "mirror_maker_flows", value))
    bounds = {
        flow: one
        for flow, codec in found.codecs.items()
        if (one := found.compressed.get(flow, {}).get(codec)) is not None and one.batches >= ENOUGH
    }
    if bounds:
        because = "; ".join(
            f"of {one.batches:,} sampled batches of flow {flow} the best became {1 / one.best:.1f} times "
            f"smaller by {found.codecs[flow]}"
            for flow, one in bounds.items()
        )
        ratios = {flow: {"max_compression_ratio": bound(one.best)} for flow, one in bounds.items()}
        advice = "let batch.size follow the best compression that was measured"
        made.append(Recommendation(advice, because, "mirror_maker_flows", ratios))
    return tuple(made)


def bound(best: float) -> float:
    """Return the ratio that no batch was under, rounded down to three digits; 1 where nothing compresses."""
    if best >= 1:
        return 1.0
    scale = 10.0 ** (2 - math.floor(math.log10(best)))
    return math.floor(best * scale) / scale


def series(found: BatchMeasurements) -> dict[str, Any]:
    """Return what the report draws: histograms of fill times and of compression."""
    return {
        "fill": {
            "classes_ms": CLASSES_MS,
            "batches": {flow: one.histogram for flow, one in found.filled.items() if one.batches},
        },
        "compression": {
            "classes": CLASSES,
            "batches": {
                f"{flow} by {codec}": one.histogram
                for flow, codecs in found.compressed.items()
                for codec, one in codecs.items()
            },
        },
    }
