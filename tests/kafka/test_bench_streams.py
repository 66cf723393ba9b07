"""The Streams bench with a real broker and the real sample, small: that it measures, not what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.bench.streams.__main__ import main
from lab.services.application import SAMPLE_JAR
from lab.services.brokers import kafka_jars

pytestmark = [pytest.mark.kafka, pytest.mark.long]


def test_a_small_bench_measures_the_planned_class_and_a_restore(tmp_path: Path) -> None:
    if kafka_jars() is None or not SAMPLE_JAR.is_file():
        pytest.skip("the jars are not cached, or the sample is not built: make setup")
    out = tmp_path / "streams.json"
    sizes = ["--case", "planned", "--curve-s", "120", "--records", "2000", "--restored", "160"]
    parts = ["--part", "curve", "--part", "restore"]
    assert main([*parts, *sizes, "--out", str(out), "--plot", str(tmp_path / "plot.svg")]) == 0
    result = json.loads(out.read_text())
    curve, restore = (result[part]["cases"]["planned"] for part in ("curve", "restore"))
    # A backlog that is read to its end ends the measurement.
    assert curve["consumed_records"] == 2000
    assert 512 < curve["rss_mib"] <= curve["planned_rss_mib"]
    assert restore["changelog_mb"] > 0
    assert restore["mb_per_s"] > 0
