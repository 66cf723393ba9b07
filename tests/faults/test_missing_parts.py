"""Evidence of which a part is missing is unknown: never a loss, never a pass.

``python -m tests.faults`` audits without each of all parts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.job import Audit, audit
from tests.faults.parts import misjudged, parts, unnoticed, without
from tests.faults.synthetic import write_evidence

pytestmark = [pytest.mark.slow, pytest.mark.spark]
TABLES = [
    "actions",
    "assignments",
    "balancer",
    "deliveries",
    "end_offsets",
    "group_offsets",
    "group_states",
    "ledger",
    "records",
    "settings",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("whole")
    write_evidence(made, 1_100, mirrored=True, per_record=1, watched=True)
    return made


@pytest.fixture(scope="module")
def whole(spark: SparkSession, folder: Path) -> Audit:
    return audit(spark, str(folder), Levels())


def test_others_that_were_watched_beside_a_load_pass(whole: Audit) -> None:
    (traffic,) = (result for result in whole.results if result.name == "traffic")
    assert traffic.verdict == "pass", traffic.because


def test_each_part_that_is_missing_is_noticed(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    found = parts(folder)
    assert {part.table for part in found} == {*TABLES}
    lines = [
        line
        for number, part in enumerate(found)
        for line in unnoticed(spark, without(folder, part, tmp_path / str(number)), part)
    ]
    assert lines == []


@pytest.mark.parametrize(
    "table",
    # An audit each: those of records are for each change, the others for the night.
    [
        pytest.param(one, marks=() if one in ("deliveries", "ledger", "records") else pytest.mark.long)
        for one in TABLES
    ],
)
def test_without_a_part_of_a_table_what_needs_it_is_unknown(
    spark: SparkSession, folder: Path, whole: Audit, tmp_path: Path, table: str
) -> None:
    """Each table in another way, gone among them."""
    of_table = [part for part in parts(folder) if part.table == table]
    part = of_table[TABLES.index(table) % len(of_table)]
    assert misjudged(spark, without(folder, part, tmp_path / "copy"), part, whole, Levels()) == []
