"""How far a mirror is behind: in records at every sample, and for every record until it was in the target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import functions as F

from kedge.evidence.run import ClusterTopic, Mirror, Run
from spark_checks.engine.facts import at_places
from spark_checks.engine.percentiles import percentiles
from spark_checks.engine.readers import Evidence
from spark_checks.engine.time_bins import BIN_US

#: How many records of a topic had which delay, in whole milliseconds, by (cluster, topic).
Delays = Mapping[tuple[str, str], Counter[int]]
#: Offsets [begin, end) of a partition that were first seen at a time.
_STRETCH: Final = "cluster string, topic string, partition int, begin long, end long, at_us long"
#: Offsets a block of the join, as a power of two.
_NEAR_BITS: Final = 12


@dataclass(frozen=True)
class Lag:
    """What the samples of a mirror's two ends told.

    Attributes:
        samples: how many there are of the target.
        most_records, last_records: behind at most, and at the last sample.
        delay_ms: percentiles (p50, p99, max) of the time from a record's timestamp to the first sample in
            which it was in the target; None without any.
        delayed_records: how many records these were measured on.
        widest_gap_ms: the longest time between two samples of the target: by so much a delay is too long at
            most, beside the error of the clocks.
        by_second: (second of the run, records behind at most).
    """

    samples: int = 0
    most_records: int | None = None
    last_records: int | None = None
    delay_ms: Mapping[str, int] | None = None
    delayed_records: int = 0
    widest_gap_ms: int | None = None
    by_second: tuple[tuple[int, int], ...] = ()


def lags(evidence: Evidence) -> list[Lag]:
    """Return the lag of each mirror, in the order of run.json; without samples nothing is known of any."""
    run = evidence.run
    places = [(one.cluster, one.topic) for mirror in run.mirrors for one in (mirror.source, mirror.target)]
    # A watch of others' topics samples into the same table, and may have many of them.
    ends = evidence.rows("end_offsets", at_places(*places))
    if ends is None:
        return [Lag() for _ in run.mirrors]
    late = delays(evidence, ends)
    return [
        _lag(run, *behind(ends, run, mirror), late.get((mirror.target.cluster, mirror.target.topic)))
        for mirror in run.mirrors
    ]


def _lag(run: Run, at_us: Any, lacking: Any, late: Counter[int] | None) -> Lag:
    if not len(at_us):
        return Lag()
    delay = None
    if late:
        p50, p99, most = percentiles(late, (50, 99, 100))
        delay = {"p50": p50, "p99": p99, "max": most}
    gaps = np.diff(at_us)
    second, where = np.unique((at_us - run.started_us) // BIN_US, return_inverse=True)
    most_by_second = np.zeros(len(second), np.int64)
    np.maximum.at(most_by_second, where, lacking)
    return Lag(
        samples=len(at_us),
        most_records=int(lacking.max()),
        last_records=int(lacking[-1]),
        delay_ms=delay,
        delayed_records=sum(late.values()) if late else 0,
        widest_gap_ms=int(-(-gaps.max() // 1000)) if len(gaps) else None,
        by_second=tuple((int(at), int(most)) for at, most in zip(second, most_by_second, strict=True)),
    )


def behind(ends: Any, run: Run, mirror: Mirror) -> tuple[Any, Any]:
    """Return how many records a mirror's target lacked at each of its samples: at_us, records.

    What both sides grew by since the run's begin is compared, the source at its last sample before: a record
    that came twice hides one that has not come.
    """
    source_us, sent = _grown(ends, run, mirror.source)
    target_us, copied = _grown(ends, run, mirror.target)
    before = np.searchsorted(source_us, target_us, side="right") - 1
    known = before >= 0
    return target_us[known], np.maximum(sent[before[known]] - copied[known], 0)


def _grown(ends: Any, run: Run, place: ClusterTopic) -> tuple[Any, Any]:
    """Return by how many records a topic had grown since the run's begin at each sample of it."""
    topic = run.topic_of(place)
    if topic is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = topic.start_offsets
    here = ends.filter(_here(place.cluster, place.topic) & pc.field("partition").isin([*starts]))
    started = np.array([starts[partition] for partition in here["partition"].to_pylist()], np.int64)
    at_us, where = np.unique(here["at_us"].to_numpy(), return_inverse=True)
    grown = np.zeros(len(at_us), np.int64)
    np.add.at(grown, where, here["end_offset"].to_numpy() - started)
    return at_us, grown


def delays(evidence: Evidence, ends: Any) -> Delays:
    """Return how many records of each mirror's target had which delay, by cluster and topic.

    A record was in the target at the first sample whose end lies behind it. What was there before the first
    sample is left out, and so is a target that gives timestamps of its own (LogAppendTime).
    """
    samples = [
        row
        for place in sorted({(one.target.cluster, one.target.topic) for one in evidence.run.mirrors})
        for row in _stretches(ends, *place)
    ]
    found: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    if not samples:
        return found
    records = evidence.need("records").where(F.coalesce(F.col("timestamp_type") != "append", F.lit(True)))
    # Samples are few and are broadcast; records are joined by blocks of offsets, so that each is held against
    # the one or two samples that may be its own.
    seen = records.sparkSession.createDataFrame(samples, _STRETCH).withColumn(
        "near",
        F.explode(F.sequence(F.shiftright("begin", _NEAR_BITS), F.shiftright(F.col("end") - 1, _NEAR_BITS))),
    )
    took = F.floor((F.col("at_us") - F.col("timestamp_us")) / 1000).cast("long").alias("delay_ms")
    counted = (
        records.withColumn("near", F.shiftright("offset", _NEAR_BITS))
        .join(F.broadcast(seen), ["cluster", "topic", "partition", "near"], "inner")
        .where("offset >= begin and offset < end")
        .groupBy("cluster", "topic", took)
        .count()
    )
    for row in counted.collect():
        found[row["cluster"], row["topic"]][row["delay_ms"]] += row["count"]
    return found


def _stretches(ends: Any, cluster: str, topic: str) -> Iterator[tuple[Any, ...]]:
    """Give the offsets that came between two samples of a topic, as rows of :data:`_STRETCH`."""
    seen = ends.filter(_here(cluster, topic)).sort_by("at_us")
    for partition in seen["partition"].unique().to_pylist():
        mine = seen.filter(pc.field("partition") == partition)
        highest = np.maximum.accumulate(mine["end_offset"].to_numpy()).tolist()
        for (begin, end), at_us in zip(pairwise(highest), mine["at_us"].to_pylist()[1:], strict=True):
            if end > begin:
                yield cluster, topic, partition, begin, end, at_us


def _here(cluster: str, topic: str) -> Any:
    return (pc.field("cluster") == cluster) & (pc.field("topic") == topic)
