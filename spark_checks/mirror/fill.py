"""How long a mirror's batches take to fill: bytes over time, by partition of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from spark_checks.engine.facts import at_places
from spark_checks.engine.percentiles import rank
from spark_checks.engine.readers import Evidence

#: Upper ends of the histogram's classes, milliseconds; what takes longer is in a last class of its own.
CLASSES_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000,
    300_000,
)  # fmt: skip


@dataclass(frozen=True)
class Fill:
    """The batches of a flow.

    Attributes:
        batches: how many were filled.
        p95_ms, p99_ms: within which time that share of them was (nearest rank); None without any.
        slowest_p95_ms: the 95th percentile of the partition in which it is longest.
        partitions, unfilled_partitions: with records at all; and with too few for one batch.
        histogram: batches by class of :data:`CLASSES_MS`, one more for what took longer.
    """

    batches: int = 0
    p95_ms: int | None = None
    p99_ms: int | None = None
    slowest_p95_ms: int | None = None
    partitions: int = 0
    unfilled_partitions: int = 0
    histogram: tuple[int, ...] = (0,) * (len(CLASSES_MS) + 1)


@dataclass(frozen=True)
class Cut:
    """The batches of a partition of a mirror's source, in their order.

    Attributes:
        flow, partition: whose they are.
        filled: of each batch: false for the last one, unless it came out even.
        fill_ms: of each batch, from its first byte to its last.
    """

    flow: str
    partition: int
    filled: Any
    fill_ms: Any

    @property
    def full_ms(self) -> Any:
        """Return the times of those that were filled."""
        return self.fill_ms[self.filled]


def batches(evidence: Evidence) -> list[Cut]:
    """Cut what each partition of a mirror's source holds into batches of the mirror's ``batch_bytes``.

    Records are laid end to end by their timestamps, to the millisecond, as linger.ms counts; one may lie
    across two batches. What is collected is a row a partition and millisecond.
    """
    rows = _by_ms(evidence)
    found = []
    for mirror in evidence.run.mirrors:
        here = (pc.field("cluster") == mirror.source.cluster) & (pc.field("topic") == mirror.source.topic)
        mine = rows.filter(here & (pc.field("bytes") > 0)).sort_by(
            [("partition", "ascending"), ("ms", "ascending")]
        )
        partition, ms, size = (mine[name].to_numpy() for name in ("partition", "ms", "bytes"))
        edges = np.flatnonzero(np.diff(partition)) + 1
        for of, at, held in zip(*(np.split(each, edges) for each in (partition, ms, size)), strict=True):
            if len(of):
                filled, fill_ms = _cut(at, held, mirror.batch_bytes)
                found.append(Cut(mirror.flow, int(of[0]), filled, fill_ms))
    return found


def _by_ms(evidence: Evidence) -> pa.Table:
    """Return the bytes of the mirrors' sources by cluster, topic, partition and millisecond."""
    sources = at_places(*((mirror.source.cluster, mirror.source.topic) for mirror in evidence.run.mirrors))
    keys = ("cluster", "topic", "partition", F.expr("timestamp_us div 1000").alias("ms"))
    return evidence.need("records").where(sources).groupBy(*keys).agg(F.sum("bytes").alias("bytes")).toArrow()


def _cut(ms: Any, held: Any, batch_bytes: int) -> tuple[Any, Any]:
    """Return which batches of a partition are full, and how long each took, from its bytes by millisecond."""
    until = np.cumsum(held)
    number = np.arange(-(-int(until[-1]) // batch_bytes))
    first = np.searchsorted(until, number * batch_bytes, side="right")
    last = np.searchsorted(until - held, (number + 1) * batch_bytes, side="left") - 1
    return until[last] >= (number + 1) * batch_bytes, ms[last] - ms[first]


def fills(evidence: Evidence) -> Mapping[str, Fill]:
    """Return the fill times of each flow's batches."""
    cuts = batches(evidence)
    return {mirror.flow: _fill([c for c in cuts if c.flow == mirror.flow]) for mirror in evidence.run.mirrors}


def _fill(cuts: list[Cut]) -> Fill:
    full = np.concatenate([np.zeros(0, np.int64), *(cut.full_ms for cut in cuts)])
    classes = np.bincount(np.searchsorted(CLASSES_MS, full, side="left"), minlength=len(CLASSES_MS) + 1)
    slowest = [ms for cut in cuts if (ms := _at(cut.full_ms, 95)) is not None]
    return Fill(
        batches=len(full),
        p95_ms=_at(full, 95),
        p99_ms=_at(full, 99),
        slowest_p95_ms=max(slowest, default=None),
        partitions=len(cuts),
        unfilled_partitions=sum(not len(cut.full_ms) for cut in cuts),
        histogram=tuple(int(count) for count in classes),
    )


def _at(times: Any, percent: int) -> int | None:
    """Return a percentile; None without any."""
    return int(np.sort(times)[rank(len(times), percent) - 1]) if len(times) else None
