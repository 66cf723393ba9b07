"""Evidence that cannot be read is refused with one line that names the file and what is wrong with it."""

from __future__ import annotations

import json
import shutil
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import Levels, read_levels
from spark_checks.checks.latency import latencies
from spark_checks.command import main
from spark_checks.delivery import check as delivery
from spark_checks.engine import session
from spark_checks.engine.readers import open_evidence
from spark_checks.job import audit
from tests.faults.synthetic import write_evidence, write_file

pytestmark = pytest.mark.spark


@pytest.fixture
def good(tmp_path: Path) -> Path:
    write_evidence(tmp_path, 220)
    return tmp_path


def ledger_file(folder: Path) -> Path:
    return next((folder / "ledger").glob("*.parquet"))


def change(folder: Path, **changes: Any) -> None:
    file = folder / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refusal(spark: SparkSession, evidence: Path | str) -> str:
    """Return the one line that the command refuses evidence with; it gets the session that is up already."""
    with (
        TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
        redirect_stderr(StringIO()) as said,
    ):
        patch.setattr(session, "start", lambda *_, **__: spark)
        patch.setattr(spark, "stop", lambda: None)
        slo, out = Path(name) / "slo.yml", Path(name) / "out"
        slo.write_text("")
        assert main(["--evidence", str(evidence), "--slo", str(slo), "--out", str(out)]) == 2
        assert list(out.iterdir()) == []
    line = said.getvalue()
    assert line.startswith("error: ")
    assert line.count("\n") == 1
    return line.removeprefix("error: ").rstrip("\n")


def test_whole_evidence_opens(spark: SparkSession, good: Path) -> None:
    evidence = open_evidence(spark, str(good))
    assert evidence.run.run_id == "made-up"
    assert evidence.need("ledger").count() == 220
    assert evidence.tables["gc_pauses"] is None


def test_a_file_cut_in_the_middle_is_named(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    file.write_bytes(file.read_bytes()[:1000])
    assert f"{file}: cannot be read as Parquet (1000 bytes" in refusal(spark, good)


def test_an_unfinished_file_is_left_alone(spark: SparkSession, good: Path) -> None:
    (good / "ledger" / ".kafka-9.parquet").write_bytes(b"half")
    assert open_evidence(spark, str(good)).need("ledger").count() == 220


def test_what_else_lies_beside_the_files_is_none_of_them(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    file.with_name(f"{file.name}.tmp").write_bytes(file.read_bytes()[:1000])
    file.with_name("README").write_text("copied by hand")
    evidence = open_evidence(spark, str(good))
    assert not evidence.lacking
    assert evidence.need("ledger").count() == 220


def test_a_folder_among_the_files_is_named(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    inner = file.parent / "date=2025-01-01"
    inner.mkdir()
    file.rename(inner / file.name)
    assert refusal(spark, good) == f"{inner}: is a folder, and a table is files alone: remove it"


def test_a_missing_table_is_named(spark: SparkSession, good: Path) -> None:
    shutil.rmtree(good / "ledger")
    change(good, files=None)
    assert f"{good}/ledger: no such table" in refusal(spark, good)


def test_a_column_of_another_type_is_named(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    table = pq.read_table(file)
    at = table.schema.get_field_index("seq")
    pq.write_table(table.set_column(at, "seq", table["seq"].cast(pa.string())), file)
    assert f"{file}: column seq is string; the contract wants int64" in refusal(spark, good)


def test_a_missing_column_is_named(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    pq.write_table(pq.read_table(file).drop_columns(["crc"]), file)
    assert f"{file}: column crc is missing" in refusal(spark, good)


def test_a_null_where_none_may_be_is_named(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    table = pq.read_table(file)
    nulls = pa.nulls(table.num_rows, pa.int64())
    pq.write_table(table.set_column(table.schema.get_field_index("seq"), "seq", nulls), file)
    assert f"{file}: column seq holds nulls" in refusal(spark, good)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"started_us": None}, "started_us"),
        ({"topics": [{"topic": "t"}]}, "topics.0.cluster"),
        ({"measured_until_us": 5}, "measured_until_us: the steady window is empty"),
    ],
)
def test_a_run_description_that_is_wrong_is_named(
    spark: SparkSession, good: Path, changes: dict[str, Any], words: str
) -> None:
    change(good, **changes)
    assert refusal(spark, good).startswith(f"{good / 'run.json'}: {words}")


def test_a_folder_without_a_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    assert f"{tmp_path}/run.json: no such file" in refusal(spark, tmp_path)


def test_a_load_that_did_not_end_properly_can_be_read(spark: SparkSession, good: Path) -> None:
    change(good, ended_us=None, measured_until_us=None)
    run = open_evidence(spark, str(good)).run
    assert not run.complete
    assert 17 < run.measured_s < 19


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deliverry: {lost: 0}", "deliverry: no such check; did you mean delivery?"),
        ("delivery: {lots: 0}", "delivery.lots: no such service level; did you mean lost?"),
        ("rebalance: {produce_gap_s: soon}", "rebalance.produce_gap_s:"),
        ("a: b: c", "is not YAML"),
        ("delivery: {lost: 0}\ndelivery: {lost: 9}", "line 2: delivery is there twice; keep one of them"),
        ("delivery: {lost: 0, lost: 9}", "line 1: lost is there twice; keep one of them"),
    ],
)
def test_service_levels_that_no_check_knows_are_refused_before_spark_starts(
    tmp_path: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    slo = tmp_path / "slo.yml"
    slo.write_text(text)
    assert main(["--evidence", str(tmp_path), "--slo", str(slo), "--out", str(tmp_path / "out")]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: {slo}: {words}")
    assert line.count("\n") == 1


def test_no_service_levels_are_service_levels_too(tmp_path: Path) -> None:
    slo = tmp_path / "slo.yml"
    slo.write_text("")
    assert read_levels(slo).delivery.lost == 0


def test_evidence_from_before_a_column_was_asked_for_is_read(spark: SparkSession, good: Path) -> None:
    for table, columns in {
        "records": ["value_hash", "intended_us", "key_ok"],
        "deliveries": ["intended_us"],
    }.items():
        for file in (good / table).glob("*.parquet"):
            pq.write_table(pq.read_table(file).drop_columns(columns), file)
    evidence = open_evidence(spark, str(good))
    assert delivery.check(evidence, Levels()).verdict == "pass"
    assert {stage for _, stage in latencies(evidence)} == {"ack"}


def test_mirrors_cannot_be_compared_without_the_content_of_records(spark: SparkSession, good: Path) -> None:
    place = {"cluster": "leaf", "topic": "kedge.kafka"}
    change(good, mirrors=[{"flow": "f", "source": place, "target": place}])
    file = next((good / "records").glob("*.parquet"))
    pq.write_table(pq.read_table(file).drop_columns(["value_hash"]), file)
    assert "column value_hash is missing" in refusal(spark, good)


@pytest.mark.parametrize("table", ["ledger", "group_states"])
def test_a_file_damaged_behind_a_whole_footer_gives_no_verdict(
    spark: SparkSession, good: Path, table: str
) -> None:
    file = next((good / table).glob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[100:700] = bytes(600)
    file.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        audit(spark, str(good), Levels())
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("table", "column"), [("ledger", "intended_us"), ("group_states", "at_us")])
def test_a_file_of_another_run_is_named(spark: SparkSession, good: Path, table: str, column: str) -> None:
    file = next((good / table).glob("*.parquet"))
    rows = pq.read_table(file)
    earlier = pc.subtract(rows[column], 3_600_000_000)
    other = file.with_name("other-0.parquet")
    write_file(
        other, rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), earlier)
    )
    line = refusal(spark, good)
    assert line.startswith(f"{other}: {column} 2024-12-31T23:00")
    assert "another run's file" in line


@pytest.fixture
def elsewhere(spark: SparkSession, good: Path) -> str:
    """The evidence by a URI that is no folder of this machine to the audit: Hadoop's own mount table."""
    name = good.name.replace("_", "-")
    spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{name}.link./run", good.as_uri())
    return f"viewfs://{name}/run"


def test_evidence_elsewhere_is_read_as_it_is_here(spark: SparkSession, good: Path, elsewhere: str) -> None:
    here, there = open_evidence(spark, str(good)), open_evidence(spark, elsewhere)
    assert there.run == here.run
    for name in here.tables:
        table, found = here.tables[name], there.tables[name]
        assert (found is None) == (table is None), name
        if table is not None and found is not None:
            assert found.schema.simpleString() == table.schema.simpleString()
            assert found.count() == table.count()
    assert there.rows("settings") == here.rows("settings")
    assert delivery.check(there, Levels()) == delivery.check(here, Levels())


def another_run(rows: pa.Table) -> pa.Table:
    earlier = pc.subtract(rows["intended_us"], 3_600_000_000)
    return rows.set_column(rows.schema.get_field_index("intended_us"), "intended_us", earlier)


def below_zero(rows: pa.Table) -> pa.Table:
    negative = pa.repeat(pa.scalar(-5, pa.int64()), rows.num_rows)
    return rows.set_column(rows.schema.get_field_index("seq"), "seq", negative)


def without_seq(rows: pa.Table) -> pa.Table:
    none = pa.nulls(rows.num_rows, pa.int64())
    return rows.set_column(rows.schema.get_field_index("seq"), "seq", none)


@pytest.mark.parametrize(
    ("change_rows", "words"),
    [
        (without_seq, "other-0.parquet: column seq holds nulls"),
        (below_zero, "other-0.parquet: column seq holds -5; none is below 0"),
        (another_run, "other-0.parquet: intended_us 2024-12-31T23:00"),
        (lambda rows: rows.drop_columns(["crc"]), "other-0.parquet: column crc is missing"),
        (
            lambda rows: rows.set_column(
                rows.schema.get_field_index("seq"), "seq", rows["seq"].cast(pa.string())
            ),
            "other-0.parquet: column seq is string; the contract wants int64",
        ),
    ],
    ids=["nulls", "below zero", "another run", "a column missing", "another type"],
)
def test_a_file_elsewhere_is_held_against_the_contract_row_by_row(
    spark: SparkSession, good: Path, elsewhere: str, change_rows: Any, words: str
) -> None:
    file = ledger_file(good)
    write_file(file.with_name("other-0.parquet"), change_rows(pq.read_table(file)))
    line = refusal(spark, elsewhere)
    assert words in line
    assert line.startswith(("viewfs://", "file:"))


def test_a_file_elsewhere_that_is_cut_off_is_named(spark: SparkSession, good: Path, elsewhere: str) -> None:
    file = ledger_file(good)
    file.write_bytes(file.read_bytes()[:1000])
    line = refusal(spark, elsewhere)
    assert f"ledger/{file.name}: cannot be read as Parquet" in line


def test_a_ledger_that_holds_a_record_twice_gives_no_verdict(spark: SparkSession, good: Path) -> None:
    file = ledger_file(good)
    again = file.with_name("other-0.parquet")
    write_file(again, pq.read_table(file).slice(20, 2))
    with pytest.raises(EvidenceError, match="in the ledger twice") as caught:
        delivery.check(open_evidence(spark, str(good)), Levels())
    assert str(file) in str(caught.value)
    assert str(again) in str(caught.value)


def test_a_copied_file_of_deliveries_gives_no_verdict(spark: SparkSession, good: Path) -> None:
    """Also where nobody listed the files; what came twice at two times, or in one batch, came twice."""
    file = next((good / "deliveries").glob("kafka-*.parquet"))
    again = file.with_name("kafka-copy.parquet")
    write_file(again, pq.read_table(file))
    with pytest.raises(EvidenceError, match="at the same time; is one a copy") as caught:
        delivery.check(open_evidence(spark, str(good)), Levels())
    assert f"{file} and {again}: " in str(caught.value)


def test_a_topic_landed_twice_gives_no_verdict(spark: SparkSession, good: Path) -> None:
    file = next((good / "records").glob("*.parquet"))
    again = file.with_name("other-0.parquet")
    write_file(again, pq.read_table(file).slice(7, 3))
    with pytest.raises(EvidenceError, match="is there twice") as caught:
        delivery.check(open_evidence(spark, str(good)), Levels())
    assert str(again) in str(caught.value)
