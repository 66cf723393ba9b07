"""The bench of the clients: what it compares, and what its repetitions come to."""

from __future__ import annotations

from typing import Any

import pytest

from lab.bench.clients.tables import around_median, claim, medians, table


def repetition(rate: float, kind: str = "FetchConsumer") -> dict[str, Any]:
    full = {"records": rate * 4, "records_per_s": rate, "mb_per_s": rate / 5000, "client_cpu_s": 2.0,
            "brokers_cpu_s": 4.0, "requests_per_s": {kind: 100}}  # fmt: skip
    if kind == "Produce":
        full["sent"] = rate * 5
    steady = {"requests_per_s": {kind: 7}, "latency_ms": {"p50": 1.0, "p99": 9.0, "p99.9": 20.0}}
    return {"full": full, "steady": steady}


def test_cpu_is_that_of_a_million_records_and_the_spread_that_of_the_rates() -> None:
    found = medians(
        [repetition(100_000, "Produce"), repetition(300_000, "Produce"), repetition(200_000, "Produce")]
    )
    assert found["records_per_s"] == 200_000
    assert found["spread"] == 1.0
    assert found["client_cpu_s_per_million"] == 2.5
    assert found["p99.9_ms"] == 20.0
    assert "| defaults | 200,000 | 100% | 40.0 | 100 | 2.50 | 5.00 | 1.0 | 9.0 | 20.0 | 7 |" in table(
        "Producers", {"defaults": found}, 2000
    )


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ([0.97] * 9, "holds in"),
        ([0.5, *[1.0] * 7, 2.0], "holds in"),  # one round that something else disturbed, at either end
        ([0.6, 0.61, 0.55, 0.7, 0.62, 0.58, 0.6, 0.6, 1.1], "does not hold in"),
        ([1.2] * 9, "does not hold in"),
        ([0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4], "is not distinguished from"),
        ([0.85, 0.87, 0.88, 0.89, 0.89, 0.9, 0.91, 0.92, 0.93], "is not distinguished from"),
    ],
)
def test_the_claim_is_judged_where_the_rounds_agree(shares: list[float], verdict: str) -> None:
    rounds = [{"defaults": 200.0, "max.poll.records=10": 200.0 * share} for share in shares]
    assert f"the claim {verdict} this run" in claim(rounds)


def test_the_interval_of_a_median_leaves_out_what_chance_may_bring() -> None:
    nine = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert around_median(nine) == (2.0, 5.0, 8.0)
    assert around_median([3.0, 1.0, 2.0]) == (1.0, 2.0, 3.0), "too few to leave one out"
    assert around_median([float(n) for n in range(12)]) == (2.0, 5.5, 9.0)
