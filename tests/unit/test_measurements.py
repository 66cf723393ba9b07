"""The pages of docs/measurements have the last figures of the benches, and all that such a page has to say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "measurements"
MEASURED = sorted(path for path in PAGES.glob("*.md") if path.name != "README.md")


def rows(text: str) -> set[str]:
    """Return the rows of all tables."""
    return {line for line in text.splitlines() if line.startswith("|")}


def figures(name: str) -> Any:
    return json.loads((ROOT / "bench" / name).read_text())


@pytest.mark.parametrize("path", MEASURED, ids=lambda p: p.name)
def test_a_page_says_what_it_does_not_say_and_how_to_repeat_it(path: Path) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text(), flags=re.MULTILINE)
    assert headings[-2:] == ["What this page does not say", "Repeat it"]
    assert f"({path.name})" in (PAGES / "README.md").read_text()


@pytest.mark.parametrize(
    ("page", "report"),
    [
        ("mirror-maker.md", "mirror/metrics.md"),
        ("mirror-maker.md", "mirror/logs.md"),
        ("mirror-maker.md", "mirror/processes.md"),
        ("rebalance.md", "rebalance/report.md"),
        ("real-proxies.md", "rest/reports/confluent/report.md"),
        ("real-proxies.md", "rest/reports/strimzi/report.md"),
    ],
)
def test_a_page_has_every_row_of_the_bench_s_last_run(page: str, report: str) -> None:
    assert rows((ROOT / "bench" / report).read_text()) <= rows((PAGES / page).read_text())


def test_the_streams_page_has_each_case_of_the_last_run() -> None:
    text = (PAGES / "streams-memory.md").read_text()
    last = figures("streams/streams.json")
    for part in ("curve", "time"):
        for case in last[part]["cases"].values():
            assert f"| {case['records_per_s']:,} |" in text
            assert re.search(rf"\| {case['rss_mib']:,}\b", text)


def test_the_audit_page_has_the_figures_of_the_last_run() -> None:
    text = (PAGES / "audit.md").read_text()
    last = figures("audit/scale.json")
    for ways in last["sizes"].values():
        for took in ways.values():
            assert f"{took['seconds']:.2f} s, {took['peak_gb']:.2f} GB" in text
    assert f"{last['kafka']['records_per_s']:,}" in text
