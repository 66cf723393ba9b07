"""docs/checks.md has every check of the registry, and every anomaly with its level and its meaning."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import Final

from evidence.levels import Levels, MemoryLevels
from spark_checks.delivery import check as delivery
from spark_checks.engine import application_outputs
from spark_checks.mirror import check as mirror
from spark_checks.registry import CHECKS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "checks.md").read_text()
CHECK_ROWS, _, ANOMALIES = PAGE.partition("\n## Anomalies\n")
ROWS = {row.split("|")[1].strip(): row for row in CHECK_ROWS.splitlines() if row.startswith("| ")}
#: Where a check names an anomaly: in its result, or in a row that it finds.
NAMED: Final = re.compile(
    r'"([a-z_]+)": Anomaly\(|anomalies\["([a-z_]+)"\]|"kind": "([a-z_]+)"|else "([a-z_]+)"\}|_found\("([a-z_]+)"'
)


def entries() -> dict[tuple[str, str], tuple[str, str]]:
    """Return level and meaning of each anomaly of the table, by check and anomaly."""
    table = ANOMALIES.partition("| check | anomaly | level | meaning |\n")[2].splitlines()[1:]
    found, check = {}, ""
    for row in takewhile(lambda line: line.startswith("|"), table):
        named, kinds, level, meaning = (cell.strip() for cell in row.strip("|").split("|"))
        check = named.partition(",")[0] or check
        for kind in re.findall(r"`([a-z_]+)`", kinds):
            found[check, kind] = level, meaning
    return found


def test_each_check_has_a_row_with_its_level() -> None:
    for name in CHECKS:
        assert f"`{name}" in ROWS[name], name


def test_each_anomaly_of_a_check_has_an_entry_with_a_meaning() -> None:
    kinds = {
        "delivery": delivery.KINDS,
        "mirror": mirror.KINDS,
        "outputs": application_outputs.KINDS,
        "memory": tuple(f"{name.removesuffix('_percent')}_over" for name in MemoryLevels.model_fields),
    }
    due = {(check, kind) for check, own in kinds.items() for kind in own}
    assert due - entries().keys() == set()
    assert [entry for entry, (_, meaning) in entries().items() if len(meaning) < 15] == []


def test_no_anomaly_that_the_code_names_lacks_an_entry() -> None:
    paths = [path for path in (ROOT / "spark_checks").rglob("*.py") if path.parent.name != "report"]
    code = "".join(path.read_text() for path in paths)
    named = {name for found in NAMED.findall(code) for name in found if name}
    assert {"clock_shifted", "not_ready", "not_acknowledged", "zombie", "sampler_slept", "unread"} <= named
    assert named - {kind for _, kind in entries()} == set()


def test_the_page_has_the_default_level_of_each_anomaly() -> None:
    models = {
        name: getattr(Levels(), name).model_dump() for name in ("delivery", "mirror", "outputs", "settings")
    }
    models["memory"] = {
        f"{key.removesuffix('_percent')}_over": v for key, v in Levels().memory.model_dump().items()
    }
    for (check, kind), (level, _) in entries().items():
        if kind in models.get(check, {}):
            default = models[check][kind]
            unit = " %" if check == "memory" else ""
            assert level == ("-" if default is None else f"{default:g}{unit}"), (check, kind)
