"""Whether a mirror's target holds what its source holds: every record, unaltered, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kedge.evidence.levels import Levels
from kedge.evidence.run import Mirror
from spark_checks.engine.anomalies import first
from spark_checks.engine.readers import Evidence
from spark_checks.mirror import batch_advice
from spark_checks.mirror.compression import compressions
from spark_checks.mirror.fill import fills
from spark_checks.mirror.lag import Lag, lags
from spark_checks.mirror.parity import mirror_hop
from spark_checks.results import Anomaly, Figure, Result, concluded

KINDS: Final = (
    "missing",
    "duplicated",
    "altered_key",
    "altered_value",
    "altered_headers",
    "altered_timestamp",
    "unexpected",
    "reordered",
)
#: By what the first one of a kind is named.
_NAMED: Final = ("source", "partition", "offset", "target", "target_partition", "target_offset")


def check(evidence: Evidence, levels: Levels) -> Result:
    """Parity of each mirror's source and target, record by record; partition numbers need not be the same.

    A record of the run is known by its identity (producer and sequence number, with the right checksum). Any
    other, real data or a damaged value, is known by its content: the hashes of key, value, headers and
    timestamp, counted, since equal records are not told apart.

    - missing: in the source and not in the target, or fewer times.
    - duplicated: more times in the target than in the source. At-least-once allows it: reported, judged only
      with a level, or where the mirror promises exactly once.
    - altered_key, altered_value, altered_headers, altered_timestamp: the copy has another. A record known by
      its content is paired with the copy that shares most with it; what cannot be paired is missing and
      unexpected.
    - unexpected: in the target, and not in the source. One without identity, with a timestamp from before
      the run, is counted as earlier: a mirror that was behind copied it late, or one that went back copied it
      again. Nothing here tells which, so the verdict is unknown unless something failed.
    - reordered: in a partition of the target, behind a record that it precedes in its partition of the
      source; of several copies the first counts. A record with copies in several partitions is not judged.

    A topic with LogAppendTime gives every copy a timestamp of its own, so a target with it has none to
    compare; that is said. Both sides are folded into digests of blocks of 65,536 sequence numbers (or of a
    1,024th of all content hashes) first, and compared exactly where they differ: the counts are exact.

    Lag, judged where a level is given: how many records the target lacks of the source at most, from samples
    of both ends' offsets (a record that came twice hides one that has not come), and delay: for each record
    the time from its timestamp in the source, its producer's clock, to the first sample in which it was in
    the target. A delay is too long by the time between two samples at most, and wrong by the error of the
    clocks; a level within that is unknown.

    Beside it, measured and not judged, how long a batch of the mirror takes to fill in a partition of the
    source, before compression: within fill_p95 and fill_p99 as many percent of them were full, and a
    linger.ms of that sends as many full. A compressed batch holds more and fills later; one that takes the
    records of several partitions fills sooner. And how many times smaller batches become, by codec, on a
    sample that is cut as a producer of steady data fills them: a batch that the best of these ratios keeps
    under the largest message fits whatever comes next, be it not compressible at all.
    """
    run = evidence.run
    if not run.mirrors:
        return Result("mirror", "unknown", "run.json names no mirrors")
    if not evidence.has("records"):
        because = "the topics were not read: no records table, and the clusters could not be asked"
        return Result("mirror", "unknown", because)
    hop = mirror_hop(evidence)
    counts = {kind: hop.anomalies.get(kind, Anomaly(0)).count for kind in KINDS}
    allowed = levels.mirror.model_dump()
    problems = [
        f"{totals['duplicated']:,} duplicated by {_name(mirror)}, which promises exactly once"
        for mirror, totals in zip(run.mirrors, hop.totals, strict=True)
        if mirror.exactly_once and totals["duplicated"]
    ] + [
        f"{count:,} {kind.replace('_', ' ')}{first(hop.anomalies[kind], *_NAMED)}"
        for kind, count in counts.items()
        if allowed[kind] is not None and count > allowed[kind]
    ]
    doubts = []
    for mirror, totals in zip(run.mirrors, hop.totals, strict=True):
        if not totals["source_records"]:
            doubts.append(f"{_name(mirror)}: the source holds no record, so there is nothing to compare")
        if earlier := totals["earlier"]:
            doubts.append(f"{_name(mirror)}: {earlier:,} from before the run, copied late or again")
        doubts += run.doubts_about(mirror.source, mirror.target)
    seen = lags(evidence)
    lagging: list[Figure] = []
    for mirror, lag in zip(run.mirrors, seen, strict=True):
        behind, unclear, timed = late(_name(mirror), lag, allowed, run.clock_error_us / 1000)
        problems += behind
        doubts += unclear
        lagging += timed
    copied = sum(totals["source_records"] for totals in hop.totals)
    topics = f"{len(run.mirrors)} mirrored topic" + ("s" if len(run.mirrors) > 1 else "")
    fine = f"{copied:,} records of {topics}, each in its target as it was"
    figures = (*_counts(run.mirrors, hop.totals, counts, allowed, copied), *lagging)
    batches = fills(evidence), compressions(evidence)
    by_mirror = {
        f"{m.flow} {m.source.topic}": {**t, **_behind(lag)}
        for m, t, lag in zip(run.mirrors, hop.totals, seen, strict=True)
    }
    return concluded(
        "mirror",
        problems,
        doubts,
        fine,
        figures,
        measured={
            "source_records": copied,
            **counts,
            **by_mirror,
            "batches_of": batch_advice.measured(*batches),
        },
        anomalies={kind: hop.anomalies[kind] for kind in KINDS if kind in hop.anomalies},
        recommendations=batch_advice.recommendations(*batches, run.mirrors),
        series={
            **batch_advice.series(*batches),
            "lag": {m.flow: lag.by_second for m, lag in zip(run.mirrors, seen, strict=True) if lag.samples},
        },
    )


def _name(mirror: Mirror) -> str:
    source, target = mirror.source, mirror.target
    return f"{mirror.flow}: {source.cluster}/{source.topic} to {target.cluster}/{target.topic}"


def _counts(
    mirrors: Sequence[Mirror],
    totals: Sequence[Any],
    counts: Mapping[str, int],
    allowed: Mapping[str, Any],
    copied: int,
) -> list[Figure]:
    """Return each anomaly beside what is allowed; what is promised exactly once has no level of its own."""
    found = [
        Figure(
            kind.replace("_", " "),
            count,
            allowed[kind],
            key=f"mirror.{kind}",
            of=copied if kind == "missing" else None,
        )
        for kind, count in counts.items()
    ]
    promised = [one["duplicated"] for m, one in zip(mirrors, totals, strict=True) if m.exactly_once]
    if promised:
        found.insert(1, Figure("duplicated against a promise", sum(promised), 0))
    return found


def _behind(lag: Lag) -> dict[str, Any]:
    if not lag.samples:
        return {}
    delay = {f"delay_{name}_ms": ms for name, ms in (lag.delay_ms or {}).items()}
    return {
        "lag_most_records": lag.most_records,
        "lag_at_the_end_records": lag.last_records,
        **delay,
        "delay_records": lag.delayed_records,
        "delay_too_long_at_most_ms": lag.widest_gap_ms,
    }


def late(
    name: str, lag: Lag, allowed: Mapping[str, Any], clock_error_ms: float
) -> tuple[list[str], list[str], list[Figure]]:
    """Return what is later than its level, what cannot be told, and the figures of both."""
    problems, doubts = [], []
    most = allowed["lag_records"]
    if most is not None and lag.most_records is None:
        doubts.append(f"{name}: the ends of its topics were not sampled, so its lag is not known")
    elif most is not None and lag.most_records is not None and lag.most_records > most:
        problems.append(f"{name}: {lag.most_records:,} records behind, the level is {most:,}")
    flow = name.partition(":")[0]
    figures = [Figure(f"{flow} lag", lag.most_records, most, "records", key="mirror.lag_records")]
    for point in ("p50", "p99", "max"):
        level = allowed[f"delay_{point}_ms"]
        value = None if lag.delay_ms is None else lag.delay_ms[point]
        unclear = False
        if level is not None and value is None:
            doubts.append(f"{name}: delay_{point}_ms was not measured")
        elif level is not None and value is not None:
            early = clock_error_ms + (lag.widest_gap_ms or 0)
            unclear = value - early <= level < value + clock_error_ms
            if value - early > level:
                problems.append(f"{name}: delay_{point}_ms {value:,}, the level is {level:,.0f}")
            elif unclear:
                doubts.append(
                    f"{name}: delay_{point}_ms {value:,} is within its error of the level {level:,.0f}"
                )
        key = f"mirror.delay_{point}_ms"
        figures.append(Figure(f"{flow} delay {point}", value, level, "ms", key=key, doubtful=unclear))
    return problems, doubts, [one for one in figures if one.value is not None or one.level is not None]
