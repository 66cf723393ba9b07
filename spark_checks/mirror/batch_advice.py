"""What the mirror check says of batches: how long they take to fill, how they compress, what follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import Row

from kedge.evidence.run import Mirror
from spark_checks.mirror.compression import CLASSES
from spark_checks.mirror.fill import CLASSES_MS
from spark_checks.results import Recommendation

#: Below as many, the last percents are a batch or none, and say nothing of the next ones.
ENOUGH: Final = 100


Filled = Mapping[str, Mapping[str, Any]]
Compressed = Mapping[str, Mapping[str, Row]]


def measured(filled: Filled, compressed: Compressed) -> dict[str, Any]:
    """Return the figures of each flow."""
    found = {flow: {name: one[name] for name in one if name != "histogram"} for flow, one in filled.items()}
    for flow, codecs in compressed.items():
        found[flow]["times_smaller"] = {
            codec: {
                "sampled_batches": one["batches"],
                **{name: round(1 / one[name], 2) for name in ("median", "best", "all")},
            }
            for codec, one in codecs.items()
        }
    return found


def recommendations(
    filled: Filled, compressed: Compressed, mirrors: Iterable[Mirror]
) -> tuple[Recommendation, ...]:
    """Return what the plan can take: fill times, and the ratio that bounds a batch, of flows with enough."""
    made = []
    times = {flow: one for flow, one in filled.items() if one["filled_batches"] >= ENOUGH}
    if times:
        because = "; ".join(
            f"of {one['filled_batches']:,} batches of flow {flow} 95 percent were full within "
            f"{one['fill_p95_ms']:,} ms and 99 percent within {one['fill_p99_ms']:,} ms"
            for flow, one in times.items()
        )
        value = {
            flow: {f"fill_ms_{name}": max(one[f"fill_{name}_ms"], 1) for name in ("p95", "p99")}
            for flow, one in times.items()
        }
        advice = "let linger.ms follow the measured fill times"
        made.append(Recommendation(advice, because, "mirror_maker_flows", value))
    codecs = {mirror.flow: mirror.codec for mirror in mirrors}
    bounds = {
        flow: one
        for flow, codec in codecs.items()
        if (one := compressed.get(flow, {}).get(codec)) is not None and one["batches"] >= ENOUGH
    }
    if bounds:
        because = "; ".join(
            f"of {one['batches']:,} sampled batches of flow {flow} the best became {1 / one['best']:.1f} "
            f"times smaller by {codecs[flow]}"
            for flow, one in bounds.items()
        )
        ratios = {flow: {"max_compression_ratio": bound(one["best"])} for flow, one in bounds.items()}
        advice = "let batch.size follow the best compression that was measured"
        made.append(Recommendation(advice, because, "mirror_maker_flows", ratios))
    return tuple(made)


def bound(best: float) -> float:
    """Return the ratio that no batch was under, rounded down to three digits; 1 where nothing compresses."""
    if best >= 1:
        return 1.0
    scale = 10.0 ** (2 - math.floor(math.log10(best)))
    return math.floor(best * scale) / scale


def series(filled: Filled, compressed: Compressed) -> dict[str, Any]:
    """Return what the report draws: histograms of fill times and of compression."""
    fill = {flow: one["histogram"] for flow, one in filled.items() if one["filled_batches"]}
    smaller = {
        f"{flow} by {codec}": one["histogram"]
        for flow, codecs in compressed.items()
        for codec, one in codecs.items()
    }
    return {
        "fill": {"classes_ms": CLASSES_MS, "batches": fill},
        "compression": {"classes": CLASSES, "batches": smaller},
    }
