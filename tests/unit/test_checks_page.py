"""docs/checks.md has every check of the registry, with its level and its anomalies."""

from __future__ import annotations

import re
from pathlib import Path

from spark_checks.delivery import check as delivery
from spark_checks.engine import applications
from spark_checks.mirror import check as mirror
from spark_checks.registry import CHECKS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "checks.md").read_text()
ROWS = {row.split("|")[1].strip(): row for row in PAGE.splitlines() if row.startswith("| ")}


def test_each_check_has_a_row_with_its_level() -> None:
    for name in CHECKS:
        assert f"`{name}" in ROWS[name], name


def test_each_anomaly_is_in_the_row_of_its_check() -> None:
    kinds = {"delivery": delivery.KINDS, "mirror": mirror.KINDS, "outputs": applications.KINDS}
    for name, own in kinds.items():
        assert [kind for kind in own if f"`{kind}`" not in ROWS[name]] == []


def test_no_anomaly_of_the_code_is_missing() -> None:
    code = "".join(path.read_text() for path in (ROOT / "spark_checks").rglob("*.py"))
    named = set(re.findall(r'"([a-z_]+)": Anomaly\(|anomalies\["([a-z_]+)"\] =', code))
    kinds = {one or other for one, other in named}
    assert len(kinds) >= 7
    assert sorted(kind for kind in kinds if f"`{kind}`" not in PAGE) == []
