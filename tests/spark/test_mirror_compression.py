"""How well a mirror's batches compress: filled as a producer fills them, measured, and taken by the plan."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from kedge.evidence.levels import Levels
from kedge.services.planning import make_plan
from spark_checks.job import Audit
from spark_checks.mirror import check as mirror
from spark_checks.mirror.batch_advice import bound, recommendations
from spark_checks.mirror.batches import CODECS, SAMPLE_BYTES, filled, middle, serialized
from spark_checks.report import documents
from spark_checks.topics import Range
from tests.planned import instances, mirrors, value
from tests.spark.frames import Row, evidence, frame
from tests.spark.test_mirror import about, copies, placed, source

NOISE = random.Random(1)


def rows(values: list[bytes]) -> pa.Table:
    count = len(values)
    columns: dict[str, Any] = {
        "offset": pa.array(range(10, 10 + count), pa.int64()),
        "timestamp_ms": pa.array([1_000 * n for n in range(count)], pa.int64()),
        "key": pa.array([b"key"] * count, pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    return pa.table(columns)


REDUNDANT = rows(
    [f"{NOISE.getrandbits(32):08x}".encode() + b"always the same text " * 10 for _ in range(9000)]
)
RANDOM = rows([NOISE.randbytes(200) for _ in range(9000)])


def test_a_record_is_laid_out_as_in_a_batch() -> None:
    (first, second) = serialized(rows([b"ab", b"c"]))
    # Length, attributes, two deltas, key and value with their lengths (zigzag), no headers.
    assert first == bytes([22, 0, 0, 0, 6]) + b"key" + bytes([4]) + b"ab" + bytes([0])
    assert second == bytes([22, 0, 0xD0, 0x0F, 2, 6]) + b"key" + bytes([2]) + b"c" + bytes([0])


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_takes_as_many_raw_bytes_as_fill_it_compressed(codec: str) -> None:
    found = list(filled(REDUNDANT, codec, 20_000))
    assert found[0]["raw_bytes"] <= 20_000
    # From the second on the ratio is known, and a batch is nearly full once compressed.
    assert all(15_000 < batch["compressed_bytes"] < 25_000 for batch in found[1:])
    assert found[1]["first_offset"] == 10 + found[0]["records"]


def test_what_does_not_compress_fills_a_batch_with_what_it_is() -> None:
    assert all(batch["raw_bytes"] <= 21_000 for batch in filled(RANDOM, "gzip", 20_000))


def test_the_last_batch_that_is_not_full_is_left_out() -> None:
    assert list(filled(rows([b"a"] * 10), "gzip", 20_000)) == []


def test_gzip_is_what_everyone_calls_gzip() -> None:
    raw = b"".join(serialized(REDUNDANT)[:90])
    assert CODECS["gzip"](raw) == len(zlib.compress(raw, wbits=31))


@pytest.mark.spark
def test_a_sample_lies_in_the_middle_and_holds_no_more_than_its_bytes(spark: SparkSession) -> None:
    records = [source(n, topic="t0", bytes=SAMPLE_BYTES // 4) for n in range(10)]
    assert middle(frame(spark, "records", records), "leaf", "t0") == [Range(0, 3, 7)]
    assert middle(frame(spark, "records", []), "leaf", "t0") == []


def batch(raw: int, compressed: int, codec: str = "gzip") -> Row:
    return {
        "cluster": "leaf", "topic": "t0", "partition": 0, "codec": codec, "first_offset": 0, "records": 5,
        "raw_bytes": raw, "compressed_bytes": compressed,
    }  # fmt: skip


def audited(spark: SparkSession, batches: list[Row], codec: str = "gzip") -> Audit:
    run = about(1)
    named = run.mirrors[0].model_copy(update={"flow": "metrics", "codec": codec})
    tables = evidence(
        spark,
        run.model_copy(update={"mirrors": [named]}),
        records=placed(0, [source(n) for n in range(5)], copies()),
        batches=batches,
    )
    return Audit("r", "pass", (mirror.check(tables, Levels()),), tables, (), None, {})


@pytest.mark.spark
def test_the_plan_takes_the_best_compression_for_its_bound(spark: SparkSession) -> None:
    many = [batch(1000, 100)] * 99 + [batch(1000, 62)] + [batch(1000, 10, "zstd")] * 200
    audit = audited(spark, many)
    figures = audit.results[0].measured["batches_of"]["metrics"]["times_smaller"]["gzip"]
    assert figures == {"sampled_batches": 100, "median": 10.0, "best": 16.13, "all": 10.04}
    assert audit.results[0].series["compression"]["batches"]["metrics by gzip"][7:9] == [99, 0]
    recommended = yaml.safe_load(documents.recommendations(audit))
    assert recommended == {
        "recommended": {"mirror_maker_flows": {"metrics": {"max_compression_ratio": 0.062}}}
    }
    before, after = (
        value(instances(make_plan(mirrors(1, common=common)), "mirror_maker")["mm1"][0], "batch.size")
        for common in ({}, recommended)
    )
    assert (before, after) == ("50000", "62000")


def recommended(batches: int, codec: str) -> list[Any]:
    compressed = {"metrics": {"gzip": SparkRow(batches=batches, best=0.062)}}
    (mirror,) = about(1).mirrors
    named = mirror.model_copy(update={"flow": "metrics", "codec": codec})
    found = recommendations({}, compressed, [named])
    return [one.value for one in found]


def test_few_batches_or_those_of_another_codec_recommend_nothing() -> None:
    assert recommended(100, "gzip") == [{"metrics": {"max_compression_ratio": 0.062}}]
    assert recommended(99, "gzip") == recommended(200, "zstd") == recommended(200, "none") == []


@pytest.mark.parametrize(("best", "said"), [(0.06219, 0.0621), (0.5, 0.5), (1.01, 1.0), (0.00129, 0.00129)])
def test_a_bound_is_rounded_to_the_safe_side(best: float, said: float) -> None:
    assert bound(best) == pytest.approx(said)
    assert bound(best) <= max(1.0, best)
