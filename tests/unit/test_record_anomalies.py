"""Ledger against records by identity: rows that are left out unseen are those of which nothing would be said."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from evidence.tables import arrow_schema
from spark_checks.delivery import record_anomalies

TOLD = record_anomalies.Told({0: 12, 1: 3}, True, frozenset({"compacted"}), {("t", 0): 2})


def made(rng: random.Random) -> tuple[Any, Any]:
    """Return rows of a ledger and records of which some are as they should be and some in any way not."""
    ledger, records = [], []
    for producer in (0, 1):
        for seq in range(12):
            home = {"topic": rng.choice(["t", "compacted"]), "partition": 0, "offset": seq}
            who = {"producer": producer, "seq": seq, "crc": seq, "via": "kafka"}
            acked = rng.random() < 0.8
            known = home if acked else home | {"partition": None, "offset": None}
            told = {"outcome": "acked" if acked else "unknown", "acked_us": 7 if acked else None}
            ledger += [who | known | told] * rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 2])
            for copy in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 2])):
                place = home | {"offset": seq + rng.choice([100 * copy, 100 * copy, 5])}
                key_ok = rng.choice([None, True, True, False])
                records.append(who | place | {"crc": rng.choice([seq] * 9 + [99]), "key_ok": key_ok})
    rng.shuffle(ledger)
    rng.shuffle(records)
    kinds = {name: arrow_schema(name) for name in ("ledger", "records")}
    return (
        pa.Table.from_pylist(ledger, kinds["ledger"]).select(record_anomalies.LEDGER),
        pa.Table.from_pylist(records, kinds["records"]).select(record_anomalies.RECORDS),
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_out_unseen_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, records = made(random.Random(seed))
    left = record_anomalies._others(ledger, records)
    assert len(left[0]) < len(ledger), "the trial leaves nothing out"
    found = record_anomalies.judged(ledger, records, TOLD).to_pylist()
    monkeypatch.setattr(record_anomalies, "_others", lambda *both: both)
    everything = record_anomalies.judged(ledger, records, TOLD).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, everything))


@pytest.mark.parametrize(
    ("seq", "complete", "lacks"), [(11, True, True), (12, True, False), (12, False, True)]
)
def test_a_record_may_be_missing_from_the_ledger_below_the_rows_that_its_generator_wrote(
    seq: int, complete: bool, lacks: bool
) -> None:
    # Producer 0 wrote twelve rows, numbered from 0.
    told = record_anomalies.Told({0: 12}, complete, frozenset(), {})
    assert told.lacks(0, seq) is lacks
