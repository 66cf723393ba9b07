"""Whether Streams applications kept within the memory that was planned, and which share of it did not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels, MemoryLevels
from kedge.evidence.run import Run
from spark_checks.engine.readers import Evidence
from spark_checks.engine.time_bins import MOST_POINTS
from spark_checks.rebalance.gaps import unsampled
from spark_checks.rebalance.restarts import Restart, read_restarts
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded

Who = tuple[str, str]
Span = tuple[int, int]
#: What the plan gives an instance, bytes: rss, heap, rocksdb, memtables, beside.
Bounds = Mapping[str, int]

_MIB: Final = 1 << 20
_HEAP: Final = re.compile(r"-Xmx(\d+)([kKmMgG]?)")
_SIZE: Final = re.compile(r"(\d+)([kKmMgG]?)")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
#: The settings of the plan that bound memory.
_KEYS: Final = ("MemoryMax", "KAFKA_HEAP_OPTS", "cache.bytes", "memtables.bytes")
_SHARES: Final = ("heap", "rocksdb", "beside")
#: What levels bound, and its name.
_JUDGED: Final = {"rss": "RSS", "rocksdb": "RocksDB", "beside": "beside both"}
#: Samples come once a second; a busy machine may keep some back.
UNSEEN_S: Final = 10.0
_VARIABLES: Final = {"heap": "streams_app_heap_mib", "rocksdb": "streams_app_rocksdb_mib"}


def check(evidence: Evidence, levels: Levels) -> Result:
    """Each instance's memory against its plan, by its own samples, one a second, over the whole run.

    - rss_over: the process held more than its limit. The share to blame is the one of heap (as committed),
      RocksDB (the block cache, which holds the memtables) and what lies beside them (iterators, pinned
      blocks outside of the cache, table readers, fragments of the allocator, threads) that was furthest
      over its own planned figure at that moment.
    - rocksdb_over: the block cache with the memtables passed the bound.
    - beside_over: what lies beside was more than the plan states; judged with a level.

    Memtables and table readers are measured; memtables are a part of the cache, so no share of their own.
    The figures of the plan come from the settings table. An instance without samples or without those
    figures is unknown, and so is one that told nothing for more than 10 s of the run, its own restarts left
    out. Memory before and after the run, and between two samples, is not seen.
    """
    rocksdb, settings = evidence.samples("rocksdb").get("rocksdb"), evidence.rows("settings")
    if rocksdb is None:
        return Result("memory", "unknown", "there is no rocksdb table: verify.collect writes it")
    peaks = _peaks(rocksdb)
    silent = _silent(rocksdb, evidence.run)
    bounds = _bounds(settings, {who["service"] for who in peaks.values()}) if settings is not None else {}
    series = _series(rocksdb, evidence.run.started_us)
    restarts = read_restarts(evidence.rows("actions"), evidence.run)
    due = {(one.host, one.instance) for app in evidence.run.applications for one in app.instances}
    problems: list[str] = []
    doubts: list[str] = []
    found: dict[str, list[dict[str, Any]]] = {}
    measured: dict[str, Any] = {}
    blamed: set[str] = set()
    for who in sorted(due | set(peaks)):
        name = f"{who[1]} on {who[0]}"
        if who not in peaks:
            doubts.append(f"{name} reported nothing of its memory")
            continue
        if who not in bounds:
            doubts.append(f"{name} has no memory in the plan to hold it against")
            continue
        measured[name] = _figures(peaks[who], bounds[who])
        if unseen := unseen_s(silent.get(who, ()), _spans(evidence.run, restarts, who)):
            doubts.append(f"{name} reported nothing of its memory for {unseen:.0f} s")
        for kind, example in _over(peaks[who], bounds[who], levels.memory).items():
            found.setdefault(kind, []).append({"host": who[0], "instance": who[1], **example})
            blamed.add(example["to_blame"])
            problems.append(
                f"{name}: {kind.split('_')[0]} was {example['mib']:,} MiB, planned "
                f"{example['planned_mib']:,}; to blame: {example['to_blame']} "
                f"({example['share_mib']:,} MiB, planned {example['share_planned_mib']:,})"
            )
    if not peaks and not due:
        doubts.append("the rocksdb table is empty: no Streams application reported its memory")
    most = max((one["rss_percent_of_plan"] for one in measured.values()), default=0)
    return concluded(
        "memory",
        problems,
        doubts,
        f"{len(measured)} instances, RSS at most {most:g} % of the plan",
        _highest(peaks, bounds, levels.memory),
        measured=measured,
        anomalies={kind: Anomaly(len(rows), tuple(rows)) for kind, rows in found.items()},
        recommendations=tuple(_advice(share) for share in sorted(blamed)),
        series={"memory": series, "bounds": _lines(bounds, set(peaks))},
    )


def unseen_s(silent: Sequence[Span], spans: Iterable[Span]) -> float:
    """Return the longest time without a sample where there should be some, 0 when it is short enough.

    Args:
        silent: stretches without a sample, microseconds.
    """
    both = [min(until, end) - max(since, begin) for since, until in silent for begin, end in spans]
    longest = max(both, default=0) / 1e6
    return longest if longest > UNSEEN_S else 0.0


def _silent(rocksdb: DataFrame, run: Run) -> dict[Who, list[Span]]:
    """Return the stretches of the run in which an instance told nothing for more than 10 s."""
    begin, end = run.started_us, run.measured_until_us
    found: dict[Who, list[Span]] = {}
    for row in unsampled(rocksdb, ["host", "instance"], begin, end, UNSEEN_S * 1e6).collect():
        found.setdefault((row["host"], row["instance"]), []).append((row["from_us"], row["to_us"]))
    return found


def _spans(run: Run, restarts: Iterable[Restart], who: Who) -> list[Span]:
    """Return the parts of the run in which an instance ran: between its restarts."""
    spans, begin = [], run.started_us
    for one in restarts:
        if (one.host, one.instance) == who and one.begin_us < run.measured_until_us:
            spans.append((begin, one.begin_us))
            begin = one.end_us or run.measured_until_us
    return [*spans, (begin, run.measured_until_us)]


def _bounds(settings: Iterable[Mapping[str, str]], services: Collection[str]) -> dict[Who, Bounds]:
    """Return what the plan gives each instance of these services that has a limit; a few rows an instance."""
    values: dict[Who, dict[str, str]] = {}
    for row in settings:
        if row["key"] in _KEYS and row["service"] in services:
            values.setdefault((row["host"], row["instance"]), {})[row["key"]] = row["planned"]
    found: dict[Who, Bounds] = {}
    for who, planned in values.items():
        limit = _bytes(_SIZE.fullmatch(planned.get("MemoryMax", "")))
        heap = _bytes(_HEAP.search(planned.get("KAFKA_HEAP_OPTS", "")))
        if limit and heap:
            cache, memtables = (
                _bytes(_SIZE.fullmatch(planned.get(key, ""))) for key in ("cache.bytes", "memtables.bytes")
            )
            # Beside is what is left of the limit for all that neither the heap nor the bound covers.
            found[who] = {"rss": limit, "heap": heap, "rocksdb": cache, "memtables": memtables,
                          "beside": limit - heap - cache}  # fmt: skip
    return found


def _bytes(match: re.Match[str] | None) -> int:
    return int(match[1]) * _UNITS[match[2].lower()] if match else 0


def _peaks(rocksdb: DataFrame) -> dict[Who, Mapping[str, Any]]:
    """Return by instance the most of each share, and the samples in which those judged were largest."""
    heap, cache = (F.coalesce(name, F.lit(0)) for name in ("heap_bytes", "block_cache_bytes"))
    # A heap that was committed and never touched is no part of the RSS.
    beside = F.greatest(F.col("rss_bytes") - heap - cache, F.lit(0))
    shares = {"rss": F.col("rss_bytes"), "heap": heap, "rocksdb": cache, "beside": beside}
    rows = rocksdb.withColumns(shares)
    told = ("memtable_bytes", "table_readers_bytes", "pinned_bytes")
    found = rows.groupBy("host", "instance").agg(
        F.count(F.lit(1)).alias("samples"),
        F.min("service").alias("service"),
        *(F.coalesce(F.max(name), F.lit(0)).alias(f"most_{name}") for name in (*shares, *told)),
        # Of equals the last is taken.
        *(
            F.max_by(F.struct("at_us", *shares), F.struct(name, "at_us")).alias(f"at_{name}")
            for name in _JUDGED
        ),
    )
    return {(row["host"], row["instance"]): row.asDict() for row in found.collect()}


def _figures(peak: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    return {
        "samples": peak["samples"],
        "rss_mib": _mib(peak["most_rss"]),
        "planned_rss_mib": _mib(bounds["rss"]),
        "rss_percent_of_plan": round(100 * peak["most_rss"] / bounds["rss"], 1),
        "heap_mib": _mib(peak["most_heap"]),
        "planned_heap_mib": _mib(bounds["heap"]),
        "block_cache_mib": _mib(peak["most_rocksdb"]),
        "planned_rocksdb_mib": _mib(bounds["rocksdb"]),
        "pinned_mib": _mib(peak["most_pinned_bytes"]),
        "memtables_mib": _mib(peak["most_memtable_bytes"]),
        "planned_memtables_mib": _mib(bounds["memtables"]),
        "table_readers_mib": _mib(peak["most_table_readers_bytes"]),
        "beside_mib": _mib(peak["most_beside"]),
        "planned_beside_mib": _mib(bounds["beside"]),
    }


def _highest(
    peaks: Mapping[Who, Mapping[str, Any]], bounds: Mapping[Who, Bounds], levels: MemoryLevels
) -> tuple[Figure, ...]:
    """Return the highest percent of the plan that any instance reached, by what a level bounds."""
    found = []
    for name, what in _JUDGED.items():
        shares = [
            100 * peaks[who][f"most_{name}"] / one[name]
            for who, one in bounds.items()
            if who in peaks and one[name]
        ]
        if shares:
            key = f"{name}_percent"
            level = getattr(levels, key)
            found.append(Figure(f"{what} at most", max(shares), level, "%", key=f"memory.{key}"))
    return tuple(found)


def _over(peak: Mapping[str, Any], bounds: Bounds, levels: MemoryLevels) -> dict[str, dict[str, Any]]:
    """Return the sample that passed its bound furthest, by anomaly."""
    found = {}
    for name in _JUDGED:
        percent, planned = getattr(levels, f"{name}_percent"), bounds[name]
        sample, value = peak[f"at_{name}"], peak[f"most_{name}"]
        # Without a bound RocksDB has nothing of its own to pass: its cache then counts towards the limit.
        if percent is None or not planned or value * 100 <= planned * percent:
            continue
        blame = max(_SHARES, key=lambda share: sample[share] - bounds[share]) if name == "rss" else name
        found[f"{name}_over"] = {
            "at_us": sample["at_us"],
            "mib": _mib(value),
            "planned_mib": _mib(planned),
            "to_blame": blame,
            "share_mib": _mib(sample[blame]),
            "share_planned_mib": _mib(bounds[blame]),
        }
    return found


def _advice(share: str) -> Recommendation:
    variable = _VARIABLES.get(share)
    if variable is None:
        return Recommendation(
            "Preload jemalloc (streams_app_jemalloc), close iterators, or plan fewer databases a host",
            "what lies outside heap and bound took more than the plan states",
            effect="memory that RocksDB has freed goes back to the system",
        )
    return Recommendation(
        f"Give {share} what it takes ({variable}), or spread the stores over more hosts",
        f"{share} took more than the plan gives it",
        effect="the limit holds what runs, so that the kernel does not end the process",
    )


def _series(rocksdb: DataFrame, started_us: int) -> dict[str, dict[str, list[list[float]]]]:
    """Return (second, MiB) by instance and share for the plot: of many samples together the most."""
    names = ("rss_bytes", "heap_bytes", "block_cache_bytes", "memtable_bytes", "table_readers_bytes")
    who = Window.partitionBy("host", "instance")
    number = F.row_number().over(who.orderBy("at_us")) - 1
    together = F.ceil(F.count(F.lit(1)).over(who) / MOST_POINTS)
    points = rocksdb.withColumn("point", F.floor(number / together)).groupBy("host", "instance", "point").agg(
        F.min("at_us").alias("at_us"), *(F.max(name).alias(name) for name in names)
    )  # fmt: skip
    found: dict[str, dict[str, list[list[float]]]] = {}
    for row in points.orderBy("host", "instance", "point").collect():
        lines = found.setdefault(f"{row['instance']} on {row['host']}", {})
        for name in names:
            if row[name] is not None:
                label = name.removesuffix("_bytes").replace("_", " ").replace("rss", "RSS")
                second = round((row["at_us"] - started_us) / 1e6, 3)
                lines.setdefault(label, []).append([second, round(row[name] / _MIB, 1)])
    return found


def _lines(bounds: Mapping[Who, Bounds], sampled: set[Who]) -> dict[str, dict[str, int]]:
    return {
        f"{who[1]} on {who[0]}": {"planned limit": _mib(one["rss"]), "planned RocksDB": _mib(one["rocksdb"])}
        for who, one in bounds.items()
        if who in sampled
    }


def _mib(count: int) -> int:
    return round(count / _MIB)
