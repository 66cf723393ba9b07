"""docs/checks.md has the anomalies that reports name, with their levels and meanings."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

from kedge.evidence.levels import Levels, MemoryLevels
from spark_checks.delivery import check as delivery
from spark_checks.engine import application_outputs
from spark_checks.mirror import check as mirror

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "checks.md").read_text()
ANOMALIES = PAGE.partition("\n## Anomalies\n")[2]


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
