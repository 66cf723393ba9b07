"""Evidence that did not arrive whole is unknown: never a loss, never a pass, and what lacks is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import Levels
from kedge.evidence.listing import INGEST, note, writer_of
from spark_checks.delivery import check as delivery
from spark_checks.engine.readers import open_evidence
from spark_checks.job import audit
from spark_checks.registry import needs
from spark_checks.report import page
from spark_checks.report.subject import head
from spark_checks.results import Result
from tests.faults.synthetic import write_evidence, write_file

pytestmark = pytest.mark.spark

LEVELS = Levels.model_validate(
    {"latency": {"rest": {"ack_p99_ms": 1000}}, "throughput": {"rest": {"records_per_s": 1}}}
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    write_evidence(folder, 1_100)
    return folder


@pytest.fixture
def evidence(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "evidence")


def results(spark: SparkSession, folder: Path) -> dict[str, Result]:
    done = audit(spark, str(folder), LEVELS)
    page.render(done)
    return {result.name: result for result in done.results}


def delivered(spark: SparkSession, folder: Path) -> Result:
    return delivery.check(open_evidence(spark, str(folder)), LEVELS)


def files(folder: Path, table: str) -> list[Path]:
    return sorted((folder / table).glob("*.parquet"))


def halve(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.slice(0, rows.num_rows // 2), file)


def empty(file: Path) -> None:
    pq.write_table(pq.read_table(file).slice(0, 0), file)


BREAK: dict[str, Callable[[Path], None]] = {"half": halve, "empty": empty, "gone": Path.unlink}


@pytest.mark.parametrize("how", BREAK)
@pytest.mark.parametrize("table", ["records", "deliveries", "ledger", "group_states"])
def test_what_lacks_is_named(spark: SparkSession, evidence: Path, table: str, how: str) -> None:
    file = files(evidence, table)[-1]
    before = pq.read_metadata(file).num_rows
    of = sum(pq.read_metadata(one).num_rows for one in files(evidence, table))
    lost = before - before // 2 if how == "half" else before
    BREAK[how](file)
    lacks = f"{table} lacks {lost:,} of the {of:,} rows that were written ({file.name} {lost:,}): "
    assert open_evidence(spark, str(evidence)).lacking == {table: f"{lacks}copy the table again"}


@pytest.mark.parametrize(("table", "how"), [("records", "half"), ("deliveries", "gone"), ("ledger", "empty")])
def test_part_of_a_table_is_no_loss(spark: SparkSession, evidence: Path, table: str, how: str) -> None:
    BREAK[how](files(evidence, table)[-1])
    for name, result in results(spark, evidence).items():
        if name == "delivery" or table in needs(name, open_evidence(spark, str(evidence)).run):
            assert (result.verdict, f"{table} lacks" in result.because) == ("unknown", True), result
            assert not result.anomalies.keys() - {"unledgered"}
        else:
            assert result.verdict != "fail", result


def test_a_missing_partition_of_a_topic_is_named_with_its_records(
    spark: SparkSession, evidence: Path
) -> None:
    file = files(evidence, "records")[0]
    rows = pq.read_table(file)
    topic, partition = rows["topic"][0].as_py(), rows["partition"][0].as_py()
    cluster = rows["cluster"][0].as_py()
    ranges = evidence / "records" / INGEST
    at = {"cluster": cluster, "topic": topic, "partition": partition, "start": 1000, "end": 1030, "rows": 30}
    ranges.write_text(ranges.read_text() + "\n" + json.dumps(at))
    mine = pc.and_(pc.equal(rows["partition"], partition), pc.equal(rows["topic"], topic))
    everything = pc.and_(pc.equal(rows["cluster"], cluster), mine)
    pq.write_table(rows.filter(pc.invert(everything)), file)
    lack = open_evidence(spark, str(evidence)).lacking["records"]
    assert f"({cluster}/{topic}-{partition} 30)" in lack


def test_a_table_that_is_gone_is_unknown(spark: SparkSession, evidence: Path) -> None:
    shutil.rmtree(evidence / "ledger")
    shutil.rmtree(evidence / "group_states")
    found = results(spark, evidence)
    assert {name for name, result in found.items() if result.verdict == "pass"} == {"settings"}
    assert "fail" not in {result.verdict for result in found.values()}
    assert "ledger lacks 1,100 of the 1,100 rows" in found["delivery"].because


def test_the_hop_that_is_whole_is_still_judged(spark: SparkSession, evidence: Path) -> None:
    halve(files(evidence, "deliveries")[0])
    found = delivered(spark, evidence)
    verdicts = {figure.what: figure.verdict for figure in found.figures}
    assert (verdicts["lost"], verdicts["undelivered"], verdicts["mismatched"]) == (
        "pass",
        "unknown",
        "unknown",
    )
    assert "undelivered" not in found.measured
    topic = files(evidence, "records")[0]
    rows = pq.read_table(topic)
    write_file(topic, rows.slice(1))
    found = delivered(spark, evidence)
    assert found.verdict == "fail"
    assert found.anomalies["lost"].count == 1
    assert "deliveries lacks" in found.because


@pytest.mark.parametrize("recorded", [True, False])
def test_records_of_an_ingest_that_was_killed_do_not_count_as_read(
    spark: SparkSession, evidence: Path, recorded: bool
) -> None:
    """Spark had moved some of its files to their places."""
    (evidence / "records" / INGEST).unlink()
    for number, file in enumerate(files(evidence, "records")):
        file.rename(file.with_name(f"part-{number:05}-0c1d.c000.zstd.parquet"))
    if not recorded:
        forget(evidence)
    found = delivered(spark, evidence)
    last = INGEST if recorded else "_SUCCESS"
    assert (found.verdict, found.anomalies) == ("unknown", {})
    assert f"records has no {last}" in found.because


def forget(evidence: Path) -> None:
    """Leave the evidence as release 0.1.0 did."""
    for file in evidence.glob("*/_*.files"):
        file.unlink()
    run = json.loads((evidence / "run.json").read_text())
    (evidence / "run.json").write_text(json.dumps(run | {"files": None}))


def test_evidence_of_which_nothing_was_listed_is_judged_as_before(
    spark: SparkSession, evidence: Path
) -> None:
    forget(evidence)
    assert delivered(spark, evidence).verdict == "pass"
    about = dict(head(open_evidence(spark, str(evidence)).run))
    assert about["Evidence"] == ["how many rows each table was to hold: not recorded"]


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_writer_merged_or_wrote_after_the_load_is_known_from_its_own_list(
    spark: SparkSession, evidence: Path, recorded: bool
) -> None:
    one = files(evidence, "group_states")[0]
    rows = pq.read_table(one)
    more = one.with_name(one.name.replace("-0", "-7"))
    pq.write_table(rows.slice(0, 2), more)
    note(more.parent, writer_of(more.name), {more.name: 2})
    if not recorded:
        # The load was killed, and its lists are all there is.
        run = json.loads((evidence / "run.json").read_text())
        (evidence / "run.json").write_text(json.dumps(run | {"files": None}))
    assert not open_evidence(spark, str(evidence)).lacking


def test_a_file_that_nobody_listed_is_refused(spark: SparkSession, evidence: Path) -> None:
    file = files(evidence, "deliveries")[0]
    copy = file.with_name(f"Copy of {file.name}")
    shutil.copy(file, copy)
    with pytest.raises(EvidenceError, match=r"is it a copy, or another run's\? remove it") as caught:
        open_evidence(spark, str(evidence))
    assert str(copy) in str(caught.value)
