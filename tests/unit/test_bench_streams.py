"""What the Streams bench makes of a run: rates, shares of memory, the knee, and a picture's data."""

from __future__ import annotations

from typing import Any

import pytest

from lab.bench.streams import cases
from lab.bench.streams.__main__ import plan_figures
from lab.bench.streams.figures import knee, memory, percentiles, rate

MIB = 1 << 20


def test_the_rate_leaves_out_the_warm_up() -> None:
    assert rate([(0, 0), (10, 5_000), (15, 5_500), (25, 6_500), (35, 7_500)]) == 100
    assert rate([(1, 0), (2, 50)]) == 50, "a run shorter than the warm-up counts as a whole"
    assert rate([]) == 0


def sample(at_s: float, rss: int, cache: int, memtables: int, own: int = 40) -> dict[str, Any]:
    return {
        "at_s": at_s,
        "rss_bytes": rss * MIB,
        "block_cache_most_bytes": cache * MIB,
        "block_cache_sum_bytes": cache * MIB,
        "memtables_bytes": memtables * MIB,
        "pinned_most_bytes": 0,
        "table_readers_bytes": MIB,
        "non_heap_bytes": own * MIB,
        "direct_bytes": 0,
        "stores": 192,
    }


@pytest.mark.parametrize(("shared", "beside"), [(True, 1000 - 512 - 300), (False, 800 - 512 - 100 - 80)])
def test_what_lies_beside_heap_and_cache_is_counted_once(shared: bool, beside: int) -> None:
    samples = [
        sample(-3, 9000, 0, 0),
        sample(1, 800, 100, 80),
        sample(2, 1000, 300, 250),
        sample(3, 990, 300, 250),
    ]
    found = memory(samples, 512, shared)
    assert (found["rss_mib"], found["rss_at_the_end_mib"], found["beside_mib"]) == (1000, 990, beside)
    assert (found["cache_mib"], found["memtables_mib"], found["grown_in_the_last_third_mib"]) == (300, 250, 0)


def test_the_99th_percentile_is_a_value_that_was_seen() -> None:
    assert percentiles([float(n) for n in range(1, 201)]) == {
        "p50_ms": 100.5,
        "p99_ms": 198.0,
        "max_ms": 200.0,
    }
    assert percentiles([]) == {}


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ({1.0: 10, 4.0: 96, 8.0: 99}, 4.0),
        ({1.0: 99, 4.0: 60, 8.0: 99}, 8.0),  # a lucky point under a bad one is no floor
        ({8.0: 94}, None),
    ],
)
def test_the_knee_is_where_stocks_throughput_is_left_from_there_on(
    points: dict[float, float], expected: float | None
) -> None:
    assert knee(points, 100) == expected


def test_the_cases_are_planned_by_the_kit_and_say_what_they_expect() -> None:
    planned = plan_figures(cases.PLANNED["planned"], changelogs=True)
    assert planned == {
        "planned_rss_mib": planned["bound_mib"] + 512 + 717,
        "bound_mib": 2048,
        "memtables_a_database_mib": 8.0,
    }
    assert plan_figures(cases.STOCK["defaults"], changelogs=True) == {}
    assert cases.BOUNDS["1024 MiB, buffers of 4 MiB"].instance(False).value("write.buffer.bytes") == str(
        4 * MIB
    )
    large = cases.BUFFERS["1024 MiB, buffers of 16 MiB"].instance(False)
    assert large.value("write.buffer.bytes") == str(16 * MIB)
