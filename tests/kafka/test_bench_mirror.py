"""The mirror bench with real brokers and real MirrorMaker, small: that it measures, not what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.bench.mirror.__main__ import main
from lab.services.brokers import kafka_jars
from lab.services.mirrors import CLASSIC_JARS, has_jars

pytestmark = [pytest.mark.kafka, pytest.mark.long]


def test_a_small_bench_measures_two_cases_over_the_link_and_keeps_the_result(tmp_path: Path) -> None:
    if kafka_jars() is None or not has_jars(CLASSIC_JARS):
        pytest.skip("the jars are not cached: make setup")
    sizes = ["--records", "1200000", "--partitions", "4", "--repetitions", "1", "--round-trip-ms", "40"]
    assert (
        main([*sizes, "--limit-s", "60", "--case", "defaults", "--case", "gzip", "--out", str(tmp_path)]) == 0
    )
    result = json.loads((tmp_path / "metrics.json").read_text())
    (defaults,), (gzip,) = result["cases"]["defaults"], result["cases"]["gzip"]
    assert gzip["compression"] > 1.5 > defaults["compression"]
    assert defaults["requests_per_s"] > 0
    assert "| gzip | 1 |" in (tmp_path / "metrics.md").read_text()


def test_a_case_that_does_not_exist_is_named_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--case", "gzipp"]) == 2
    assert "no case gzipp; there are: defaults, gzip" in capsys.readouterr().err
