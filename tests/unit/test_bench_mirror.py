"""The mirror bench without any JVM: its cases, its link, its figures."""

from __future__ import annotations

import json
import struct
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.bench.mirror import __main__ as module
from lab.bench.mirror.batches import Batches, batches_of
from lab.bench.mirror.cases import Case, all_cases
from lab.bench.mirror.run import RequestLog
from lab.bench.mirror.steady import window
from lab.bench.mirror.tables import interval, ratios


def test_requests_are_counted_from_where_the_log_was(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    line = 'Completed request:{"requestHeader":{"requestApiKey":0,"requestApiKeyName":"%s"}}\n'
    log.write_text(line % "PRODUCE")
    requests = RequestLog(log)
    with log.open("a") as file:
        file.write(line % "PRODUCE" + line % "FETCH" + line % "PRODUCE")
    assert requests.read() == 2
    assert requests.read() == 2


def test_a_case_counts_once_each_of_its_producers_has_learnt_how_its_batches_compress() -> None:
    cases = all_cases(20, 60, 2)
    assert cases["defaults"].settle_bytes == cases["linger and batch"].settle_bytes == 0
    # 16,384 bytes at 200 steps down from 1 to 0.1, where batches hold ten times what they held at first.
    steps = sum(16_384 / (1 - 0.005 * step) for step in range(180))
    assert cases["gzip"].settle_bytes == pytest.approx(steps, rel=0.02)
    assert cases["article"].settle_bytes == 4 * cases["planned"].settle_bytes


def sample(at: float, records: int) -> dict[str, float]:
    return {"at_s": at, "records": records, "out_bytes": records * 10, "produce_requests": records / 100}


def test_the_steady_state_ends_before_the_last_unfilled_batches() -> None:
    samples = [sample(0, 100), sample(1, 550), sample(2, 900), sample(20, 1000)]
    assert window(samples, 1000) == {
        "seconds": 2, "records_per_s": 400, "halves": [450, 350], "wire_mb_per_s": 0.0, "requests_per_s": 4.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "samples", [[], [sample(0, 0)], [sample(0, 0), sample(1, 850)], [sample(0, 0), sample(9, 1000)]]
)
def test_without_a_steady_state_there_is_no_figure(samples: list[Any]) -> None:
    with pytest.raises(ValueError, match="less than 2 s of steady state: mirror more than 1,000 records"):
        window(samples, 1000)


def run(rate: float, rotation: int = 0, **more: Any) -> dict[str, Any]:
    names = ("wire_mb_per_s", "requests_per_s", "batch_bytes", "batch_records", "compression")
    return {"rotation": rotation, "processes": 1, "records_per_s": rate, **dict.fromkeys(names, 1), **more}


def test_ratios_are_taken_within_a_rotation() -> None:
    defaults = [run(100, 0), run(200, 2)]
    assert ratios([run(900, 0), run(5, 1), run(1600, 2)], defaults) == [9, 8]


def test_more_of_some_cases_leaves_those_that_were_measured_before_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {
        "cases": {"defaults": [run(100)]},
        "failures": ["gzip, rotation 0: late"],
        "settings": {"defaults": {}},
        "measured_on": "2026-11-21",
    }
    (tmp_path / "metrics.json").write_text(json.dumps(before))
    bench = SimpleNamespace(link=SimpleNamespace(delay=lambda _: None), records=1, plain_bytes=1)
    monkeypatch.setattr(module, "today", lambda: "2026-11-22")
    monkeypatch.setattr(module, "running_bench", lambda *_: nullcontext(bench))
    figures = {name: value for name, value in run(500).items() if name != "rotation"}
    monkeypatch.setattr(module, "repetition", lambda *_: figures)
    asked = ["--more", "--case", "gzip", "--repetitions", "1", "--out", str(tmp_path)]
    result = module.measure(module.options_of(asked), {"gzip": Case()}, tmp_path)
    assert result["cases"] == {"defaults": [run(100)], "gzip": [run(500, 1)]}
    assert set(result["settings"]) == {"defaults", "gzip"}
    assert result["failures"] == before["failures"]
    assert result["measured_on"] == "2026-11-21, 2026-11-22"
    assert json.loads((tmp_path / "metrics.json").read_text()) == result


def test_the_confidence_interval_is_students() -> None:
    found = interval([1, 2, 3])
    assert found == (2, pytest.approx(2.484, abs=0.001))
    assert interval([1]) is None


def test_batches_are_read_from_a_log_up_to_its_unused_end(tmp_path: Path) -> None:
    def batch(size: int, records: int) -> bytes:
        return struct.pack(">qiibIhiqqqhii", 0, size - 12, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, records) + bytes(
            size - 61
        )

    for folder, data in {
        "bench-0": batch(100, 3) + batch(61, 1) + bytes(500),
        "bench-1": batch(139, 6),
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.log").write_bytes(data)
    (tmp_path / "bench-other-0").mkdir()
    (tmp_path / "bench-other-0" / "0.log").write_bytes(batch(70, 9))
    found = batches_of(tmp_path, "bench")
    assert (found.count, found.bytes, found.records) == (3, 300, 10)
    assert found.since(Batches(1, 100, 3)) == Batches(2, 200, 7)
    assert found.figures(60) == {"batch_bytes": 100, "batch_records": 3.3, "compression": 2.0}
