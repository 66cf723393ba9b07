"""From what a run showed to its figures. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MIB: Final = 1 << 20
#: Until then the JVM compiles, and memtables fill for the first time.
WARM_S: Final = 10.0
#: A bound costs nothing where at least this share of the defaults' throughput is left.
SAME_SHARE: Final = 0.95


def rate(commits: Sequence[tuple[float, int]], warm_s: float = WARM_S) -> float:
    """Return records per second from the first look after the warm-up to the last one.

    Args:
        commits: (seconds, records committed) in order.
        warm_s: what is left out.
    """
    steady = [one for one in commits if one[0] >= warm_s] or list(commits)
    seconds = steady[-1][0] - steady[0][0] if steady else 0
    return (steady[-1][1] - steady[0][1]) / seconds if seconds else 0.0


def memory(samples: Sequence[Mapping[str, Any]], heap_mib: int, shared_cache: bool) -> dict[str, Any]:
    """Return the most of the process and of its shares in MiB, and how its RSS grew to the end.

    ``beside_mib`` is what is neither heap (touched as a whole at the start) nor in the cache, which holds the
    memtables where it is bounded; of it are the JVM's own areas, table readers, and the rest: iterators,
    blocks that they pin, threads, and the allocator's fragments.
    """
    ours = [sample for sample in samples if sample["at_s"] >= 0 and sample["rss_bytes"]]
    cache = "block_cache_most_bytes" if shared_cache else "block_cache_sum_bytes"
    held = [(s[cache] if shared_cache else s[cache] + s["memtables_bytes"]) + heap_mib * _MIB for s in ours]
    last_third = ours[len(ours) * 2 // 3 :]
    peak = max(range(len(ours)), key=lambda n: ours[n]["rss_bytes"])
    beside = max(s["rss_bytes"] - within for s, within in zip(ours, held, strict=True))
    return {
        "rss_mib": _mib(ours[peak]["rss_bytes"]),
        "rss_at_the_end_mib": _mib(ours[-1]["rss_bytes"]),
        "grown_in_the_last_third_mib": _mib(ours[-1]["rss_bytes"] - last_third[0]["rss_bytes"]),
        "cache_mib": _mib(max(s[cache] for s in ours)),
        "memtables_mib": _mib(max(s["memtables_bytes"] for s in ours)),
        "table_readers_mib": _mib(max(s["table_readers_bytes"] for s in ours)),
        "pinned_mib": _mib(max(s["pinned_most_bytes"] for s in ours)),
        "jvm_beside_heap_mib": _mib(max(s["non_heap_bytes"] + s["direct_bytes"] for s in ours)),
        "beside_mib": _mib(beside),
        "stores": max(s["stores"] for s in ours),
    }


def over_time(samples: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Return (seconds, RSS in MiB), a pair a sample."""
    return [[s["at_s"], _mib(s["rss_bytes"])] for s in samples if s["at_s"] >= 0 and s["rss_bytes"]]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the 99th percentile (nearest rank) and the maximum."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": ordered[min(len(ordered) - 1, -(-99 * len(ordered) // 100) - 1)],
        "max_ms": ordered[-1],
    }


def knee(points: Mapping[float, float], defaults: float) -> float | None:
    """Return the least MiB of memtables a database from which on every point keeps the defaults' throughput.

    Args:
        points: records per second by MiB of memtables for each database that takes writes.
        defaults: records per second without a bound.
    """
    found = None
    for each in sorted(points, reverse=True):
        if points[each] < SAME_SHARE * defaults:
            break
        found = each
    return found


def _mib(count: int) -> int:
    return round(count / _MIB)
