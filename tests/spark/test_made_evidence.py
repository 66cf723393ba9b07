"""Whole audits of made evidence: good, and with a fault in a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from spark_checks.job import Audit, audit
from tests.faults.synthetic import write_evidence, write_file

pytestmark = pytest.mark.spark


def audited(spark: SparkSession, folder: Path) -> Audit:
    return audit(spark, str(folder), Levels())


def test_good_evidence_passes_and_what_came_again_or_never_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_evidence(tmp_path, 11_000)
    good = audited(spark, tmp_path)
    assert {result.verdict for result in good.results} <= {"pass", "measured", "unknown"}
    assert good.results[0].verdict == "pass"
    file = next((tmp_path / "deliveries").glob("rest-*.parquet"))
    rows = pq.read_table(file)
    later = pc.add(rows["received_us"], 1_000_000)
    again = rows.set_column(rows.schema.get_field_index("received_us"), "received_us", later).slice(7, 3)
    write_file(file, pa.concat_tables([rows, again.cast(rows.schema)]))
    topic = next((tmp_path / "records").glob("kafka-*.parquet"))
    table = pq.read_table(topic)
    write_file(topic, table.filter(pc.not_equal(table["seq"], 123)))
    # A delivery of what the topic lacks is explained by the loss.
    got = next((tmp_path / "deliveries").glob("kafka-*.parquet"))
    kept = pq.read_table(got)
    write_file(got, kept.filter(pc.not_equal(kept["seq"], 123)))
    found = audited(spark, tmp_path).results[0]
    assert {kind: one.count for kind, one in found.anomalies.items() if kind in ("lost", "redelivered")} == {
        "lost": 1,
        "redelivered": 3,
    }


def test_a_mirror_that_agrees_passes_with_its_delays(spark: SparkSession, tmp_path: Path) -> None:
    write_evidence(tmp_path, 11_000, mirrored=True)
    (found,) = (result for result in audited(spark, tmp_path).results if result.name == "mirror")
    assert (found.verdict, found.measured["source_records"]) == ("pass", 10_000)
    seen = found.measured["copies kedge.kafka"]
    # A record was there at the sample after it, a second later at most and the 0.06 s that a copy takes; what
    # goes to a partition at once, 20 records, makes that 0.2 s more.
    assert seen["delay_records"] == 10_000
    assert 450 < seen["delay_p50_ms"] < 650
    assert 1_000 < seen["delay_max_ms"] < 1_260


def test_an_output_that_an_application_did_not_make_is_found(spark: SparkSession, tmp_path: Path) -> None:
    write_evidence(tmp_path, 11_000, per_record=2)
    (found,) = (result for result in audited(spark, tmp_path).results if result.name == "outputs")
    assert (found.verdict, found.measured["copies"]["output_records"]) == ("pass", 20_000)
    file = next((tmp_path / "records").glob("made-1-*.parquet"))
    table = pq.read_table(file)
    write_file(file, table.filter(pc.not_equal(table["seq"], 123)))
    (found,) = (result for result in audited(spark, tmp_path).results if result.name == "outputs")
    assert (found.verdict, found.anomalies["missing"].count) == ("fail", 1)
    assert found.anomalies["missing"].examples[0]["seq"] == 123
