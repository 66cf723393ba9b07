"""The bench of the clients: what it compares, and what its repetitions come to."""

from __future__ import annotations

from typing import Any

import pytest

from bench.clients.cases import consumers, losses, producers
from bench.clients.tables import claim, loss_table, medians, table


def repetition(rate: float, kind: str = "FetchConsumer") -> dict[str, Any]:
    full = {"records": rate * 4, "records_per_s": rate, "mb_per_s": rate / 5000, "client_cpu_s": 2.0,
            "brokers_cpu_s": 4.0, "requests_per_s": {kind: 100}}  # fmt: skip
    if kind == "Produce":
        full["sent"] = rate * 5
    steady = {"requests_per_s": {kind: 7}, "latency_ms": {"p50": 1.0, "p99": 9.0, "p99.9": 20.0}}
    return {"full": full, "steady": steady}


def test_stock_stands_beside_every_profile() -> None:
    cases = producers(6)
    assert list(cases) == ["stock", "throughput", "latency", "durability", "balanced"]
    assert cases["stock"] == {}
    assert cases["throughput"]["acks"] == "1"


def test_the_consumers_settings_are_compared_one_by_one() -> None:
    keys = {key for name, config in consumers(6).items() if "=" in name for key in config}
    assert keys == {"fetch.min.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "max.poll.records"}


def test_producers_whose_leader_is_killed_differ_by_acks_alone() -> None:
    cases = losses(1)
    assert [config["acks"] for config in cases.values()] == ["0", "1", "all"]
    assert [config["enable.idempotence"] for config in cases.values()] == ["false", "false", "true"]
    rest = [{k: v for k, v in c.items() if k not in ("acks", "enable.idempotence")} for c in cases.values()]
    assert rest[0] == rest[1] == rest[2]


def test_cpu_is_that_of_a_million_records_and_the_spread_that_of_the_rates() -> None:
    found = medians(
        [repetition(100_000, "Produce"), repetition(300_000, "Produce"), repetition(200_000, "Produce")]
    )
    assert found["records_per_s"] == 200_000
    assert found["spread"] == 1.0
    assert found["client_cpu_s_per_million"] == 2.5
    assert found["p99.9_ms"] == 20.0
    assert "| stock | 200,000 | 100% | 40.0 | 100 | 2.50 | 5.00 | 1.0 | 9.0 | 20.0 | 7 |" in table(
        "Producers", {"stock": found}, 2000
    )


@pytest.mark.parametrize(
    ("small", "spread", "verdict"),
    [
        (0.97, 0.0, "holds in"),
        (0.6, 0.0, "does not hold in"),
        (0.6, 0.5, "cannot be told from"),
        (0.97, 0.5, "cannot be told from"),
    ],
)
def test_the_claim_is_judged_only_where_the_repetitions_agree(
    small: float, spread: float, verdict: str
) -> None:
    rows = {
        "stock": {"records_per_s": 100.0, "spread": spread},
        "max.poll.records=10": {"records_per_s": 100.0 * small, "spread": 0.0},
    }
    assert f"the claim {verdict} this run" in claim(rows)
    assert f"max.poll.records=10 {small:.2f} times" in claim(rows)


def test_lost_records_are_a_row_an_acks() -> None:
    row = {"sent": 10_000, "acked": 9_000, "failed": 1_000, "lost": 12, "doubled": 0}
    assert "| acks=1 | 10,000 | 9,000 | 1,000 | 12 | 0 |" in loss_table({"acks=1": row}, 100)
