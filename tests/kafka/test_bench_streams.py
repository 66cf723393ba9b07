"""The Streams bench with a real broker and the real sample, small: that it measures, not what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.streams.__main__ import main
from local.application import SAMPLE_JAR
from local.brokers import kafka_jars

pytestmark = pytest.mark.kafka


def test_a_small_bench_measures_each_part_of_the_planned_class(tmp_path: Path) -> None:
    if kafka_jars() is None or not SAMPLE_JAR.is_file():
        pytest.skip("the jars are not cached, or the sample is not built: make setup")
    out = tmp_path / "streams.json"
    parts = [word for part in ("curve", "latency", "restore") for word in ("--part", part)]
    sizes = ["--case", "planned", "--curve-s", "4", "--records", "2000", "--latency-s", "4"]
    assert main([*parts, *sizes, "--out", str(out), "--plot", str(tmp_path / "plot.svg")]) == 0
    result = json.loads(out.read_text())
    curve, latency, restore = (result[p]["cases"]["planned"] for p in ("curve", "latency", "restore"))
    assert curve["records_per_s"] > 0
    assert 512 < curve["rss_mib"] <= curve["planned_rss_mib"]
    # Each record is joined with itself and comes out.
    assert latency["came_out"] == latency["sent"]
    assert 0 < latency["p50_ms"] <= latency["p99_ms"]
    # Both sides of eight joins have a changelog.
    assert restore["changelog_records"] == 16 * latency["sent"]
    assert restore["restore_s"] > 0
