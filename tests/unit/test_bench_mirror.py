"""The mirror bench without any JVM: its cases, its link, its figures."""

from __future__ import annotations

import json
import os
import struct
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.bench.mirror import __main__ as module
from lab.bench.mirror.__main__ import kept
from lab.bench.mirror.batches import Batches, batches_of
from lab.bench.mirror.cases import CODECS, Case, all_cases, by_buffers, by_processes, by_transactions
from lab.bench.mirror.run import RequestLog, on_cores
from lab.bench.mirror.steady import window
from lab.bench.mirror.tables import interval, ratios
from lab.bench.mirror.workloads import logs, metrics


def test_requests_are_counted_from_where_the_log_was(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    line = 'Completed request:{"requestHeader":{"requestApiKey":0,"requestApiKeyName":"%s"}}\n'
    log.write_text(line % "PRODUCE")
    requests = RequestLog(log)
    with log.open("a") as file:
        file.write(line % "PRODUCE" + line % "FETCH" + line % "PRODUCE")
    assert requests.read() == 2
    assert requests.read() == 2


def test_the_article_and_the_plan_are_taken_from_sizing_and_codecs_differ_in_nothing_else() -> None:
    cases = all_cases(20, 60, 2)
    # A process for each of the 20 partitions is more than two cores can start: four a core are left.
    assert cases["article"].processes == 8
    assert cases["planned"].processes == 2
    assert cases["article"].producer["linger.ms"] == "15000"
    assert "bootstrap.servers" not in cases["planned"].producer
    codecs = {name: case for name, case in cases.items() if name.startswith("planned")}
    assert {case.producer["compression.type"] for case in codecs.values()} == set(CODECS)
    without = [{**case.producer, "compression.type": ""} for case in codecs.values()]
    others = [one for name, one in zip(codecs, without, strict=True) if name != "planned, ratio known"]
    assert all(one == others[0] for one in others)
    assert codecs["planned"].producer["batch.size"] == "50000"
    assert codecs["planned, ratio known"].producer["batch.size"] == "100000"


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


def test_processes_are_compared_by_the_way_the_partitions_and_the_cores_with_nothing_else_changed() -> None:
    cases = by_processes(20, 60, 2)
    assert cases["defaults, 60 ms, 4"] == Case(4)
    assert cases["defaults, 0 ms, 2"] == Case(2, round_trip_ms=0)
    assert cases["defaults, 60 ms, 4 partitions, 1"] == Case(partitions=4)
    plan = all_cases(20, 60, 2)["planned"]
    assert cases["planned, 60 ms, 1 core, 4"] == replace(plan, processes=4, cores=1)


def test_processes_that_share_a_core_are_started_on_it_and_the_bench_stays_on_all() -> None:
    before = os.sched_getaffinity(0)
    with on_cores(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
    with on_cores(None):
        assert os.sched_getaffinity(0) == before


def test_transactions_are_compared_with_nothing_else_changed() -> None:
    cases = by_transactions(20, 60, 2)
    by_interval, by_poll = dict(cases["by interval"].worker), cases["by poll"].worker
    assert by_interval.pop("leaf->agg.transaction.boundary") == "interval"
    assert by_interval.pop("leaf->agg.transaction.boundary.interval.ms") == "2220"
    assert by_interval == by_poll


def test_buffers_are_compared_with_nothing_else_changed() -> None:
    cases = by_buffers(20, 60, 2)
    key = "agg.producer.buffer.memory"
    for line, buffer in (
        ("a task each", 2_000_000),
        ("2 tasks", 2_000_000),
        ("2 tasks, large batches", 10_000_000),
    ):
        planned, default = cases[f"{line}, planned"], cases[f"{line}, 32 MiB"]
        assert (planned.worker[key], default.worker[key]) == (str(buffer), str(32 << 20))
        assert replace(default, worker={**default.worker, key: planned.worker[key]}) == planned


def run(rate: float, rotation: int = 0, **more: Any) -> dict[str, Any]:
    names = ("wire_mb_per_s", "requests_per_s", "batch_bytes", "batch_records", "compression")
    return {"rotation": rotation, "processes": 1, "records_per_s": rate, **dict.fromkeys(names, 1), **more}


def test_ratios_are_taken_within_a_rotation() -> None:
    defaults = [run(100, 0), run(200, 2)]
    assert ratios([run(900, 0), run(5, 1), run(1600, 2)], defaults) == [9, 8]


def test_what_was_measured_is_added_to_only_where_more_is_asked_for(tmp_path: Path) -> None:
    before = {"cases": {"defaults": [run(100)]}, "failures": [], "settings": {}, "measured_on": "2026-11-21"}
    (tmp_path / "metrics.json").write_text(json.dumps(before))
    options = Namespace(out=tmp_path, table=None, workload="metrics", more=True)
    assert kept(options) == before
    options.more = False
    assert kept(options) == {"cases": {}, "failures": [], "settings": {}, "measured_on": ""}


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


def test_the_records_are_the_same_in_every_run_and_of_the_size_that_is_said() -> None:
    assert list(metrics(50)) == list(metrics(50))
    assert 60 <= sum(len(value) for _, value in metrics(500)) / 500 <= 130
    sizes = [len(value) for _, value in logs(300)]
    assert min(sizes) >= 1000
    assert max(sizes) <= 100_000
