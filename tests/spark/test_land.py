"""Topics become the records table: decoded as the generators encode, and read from a real broker."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from evidence.record import decode as decode_value
from evidence.record import encode, run_tag
from evidence.run import Application, Run, parse_run
from local.services.brokers import kafka_jars, running_broker
from spark_checks import landing as landing_module
from spark_checks import topics
from spark_checks.engine.session import connector_jars
from spark_checks.landing import decode, land

RAW = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
pytestmark = pytest.mark.spark


def described(bootstrap: str, ends: dict[str, int]) -> Run:
    document = {
        "run_id": "r1",
        "started_us": 1_000_000,
        "ended_us": 9_000_000,
        "measured_until_us": 8_000_000,
        "clusters": {"leaf": {"bootstrap_servers": bootstrap}},
        "topics": [
            {
                "cluster": "leaf",
                "topic": "t",
                "partitions": 2,
                "start_offsets": dict.fromkeys(ends, 0),
                "end_offsets": ends,
            }
        ],
        "producers": {"0": {"via": "kafka", "topic": "t"}},
    }
    return parse_run(json.dumps(document), "run.json")


def test_values_decode_as_the_generators_encode_them(spark: SparkSession) -> None:
    tag = run_tag("r1")
    good, _ = encode(tag, 3, 1 << 40, 5, b"payload")
    values = [
        good,
        encode(tag, 4_000_000, 0, 5, b"")[0],
        good[:-1] + b"!",
        encode(run_tag("another"), 3, 4, 5, b"payload")[0],
        b"short",
        None,
    ]
    at = datetime(2025, 1, 1, tzinfo=UTC)
    rows = [(b"k", value, "t", 0, n, at, 0, None) for n, value in enumerate(values)]
    found = decode(spark.createDataFrame(rows, RAW), "leaf", "r1").orderBy("offset").collect()
    for row, value in zip(found, values, strict=True):
        identity = decode_value(tag, value) if value is not None else None
        expected = (
            None if identity is None else (identity.producer, identity.seq, identity.crc, identity.crc_ok)
        )
        assert (
            None if row["producer"] is None else (row["producer"], row["seq"], row["crc"], row["crc_ok"])
        ) == (expected)
        assert row["intended_us"] == (None if identity is None else identity.intended_us)
        assert row["bytes"] == len(value or b"")
    assert [row["crc_ok"] for row in found] == [True, True, False, None, None, None]
    assert {row["key_ok"] for row in found} == {None}
    assert found[0]["timestamp_us"] == 1_735_689_600_000_000
    assert found[0]["timestamp_type"] == "create"


def test_a_key_is_held_against_the_generators_rule(spark: SparkSession) -> None:
    value, _ = encode(run_tag("r1"), 3, 4001, 5, b"payload")
    at = datetime(2025, 1, 1, tzinfo=UTC)
    keys = [b"3-1", b"3-2", None]
    rows = [(key, value, "t", 0, n, at, 0, None) for n, key in enumerate(keys)]
    found = decode(spark.createDataFrame(rows, RAW), "leaf", "r1", 4000).orderBy("offset").collect()
    assert [row["key_ok"] for row in found] == [True, False, False]


def test_a_cluster_that_cannot_be_reached_is_a_reason_not_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nothing else answers there meanwhile
        run = described(f"127.0.0.1:{taken.getsockname()[1]}", {"0": 1, "1": 1})
        by_spark, here = (land(lambda: spark, str(tmp_path), run, cores) for cores in (0, 2))
    if connector_jars():
        assert "cluster leaf cannot be reached" in by_spark.reason
    assert "cluster leaf cannot be reached" in here.reason
    assert not (tmp_path / "records").exists()


def test_this_machines_processes_decode_as_spark_does(spark: SparkSession) -> None:
    tag = run_tag("r1")
    good, _ = encode(tag, 3, 4001, 5, b"payload")
    values = [
        good,
        encode(tag, 4_000_000, 1 << 40, 5, b"")[0],
        good[:-1] + b"!",
        # Numbers that no column holds: of the producer, of the sequence, of the time.
        good[:12] + b"\xff" + good[13:],
        good[:16] + b"\xff" + good[17:],
        good[:24] + b"\xff" + good[25:],
        encode(run_tag("another"), 3, 4, 5, b"payload")[0],
        b"short",
        b"",
        None,
    ]
    keys = [b"3-1", b"3-2", None, b"3-1", b"3-1", b"3-1", b"", b"3-1", b"None", None]
    at = datetime(2025, 1, 1, tzinfo=UTC)
    rows = [(k, v, "t", 0, n, at, 1, None) for n, (k, v) in enumerate(zip(keys, values, strict=True))]
    names = ("producer", "seq", "intended_us", "crc", "crc_ok", "key_ok")
    for round_of in (4000, None):
        frame = decode(spark.createDataFrame(rows, RAW), "leaf", "r1", round_of).orderBy("offset")
        wanted = frame.select(*names).toArrow().to_pylist()
        sizes = np.array([len(value or b"") for value in values])
        found = topics.identities(values, sizes, keys, tag, round_of)
        assert pa.table({name: found[name] for name in names}).to_pylist() == wanted
    assert [row["key_ok"] for row in wanted] == [None] * len(values)


def test_a_text_that_is_not_there_is_told_from_every_text() -> None:
    found = topics.hashes([None, b"None", b"", b"a", b"b", b"a", None])
    assert len(set(found.tolist())) == 5
    assert found[3] == found[5]
    assert found[0] == found[6]


def test_headers_are_told_apart_by_where_names_and_values_end() -> None:
    headers = [None, [("a", b"bc")], [("ab", b"c")], [("a", b"bc"), ("a", None)], [("a", b"bc"), ("a", b"")]]
    assert len(set(topics._of_headers(headers).tolist())) == 5


def test_offsets_are_shared_out_evenly_with_few_cuts() -> None:
    ranges = [(0, topics.Piece(0, 10, 110)), (0, topics.Piece(1, 0, 20)), (1, topics.Piece(0, 5, 85))]
    tasks = topics.cut(ranges, 4)
    assert [sum(end - start for _, (_, start, end) in task) for task in tasks] == [50, 50, 50, 50]
    assert tasks[0] == [(0, topics.Piece(0, 10, 60))]
    assert tasks[2] == [(0, topics.Piece(1, 0, 20)), (1, topics.Piece(0, 5, 35))]
    assert topics.cut([], 4) == []


def test_topics_that_hold_nothing_were_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_shares", lambda *_: [])
    assert topics.land_here(tmp_path, described("127.0.0.1:1", {"0": 0}), lambda *_: {}, 2) == 0
    (file,) = (tmp_path / "records").iterdir()
    assert pq.read_table(file).num_rows == 0


@pytest.mark.kafka
@pytest.mark.parametrize(("cores", "most", "tasks"), [(0, 10, 9), (0, 1_000, 6), (2, 10, 4)])
def test_the_runs_range_is_landed_from_a_broker_by_ranges_of_offsets(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, most: int, tasks: int
) -> None:
    monkeypatch.setattr(landing_module, "_RANGE_RECORDS", most)
    jars = kafka_jars()
    if jars is None or not connector_jars():
        pytest.skip("the jars of Kafka or of Spark's Kafka source are not cached: make setup")
    with running_broker(jars) as broker:
        broker.create_topic("t", 2, {"message.timestamp.type": "LogAppendTime"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for seq in range(100):
            value, _ = encode(run_tag("r1"), 0, seq, 5, b"x" * 20)
            producer.produce("t", value, partition=seq % 2)
        assert producer.flush(30) == 0
        run = described(broker.bootstrap_servers, {"0": 50, "1": 40})
        landing = land(lambda: spark, str(tmp_path), run, cores)
    assert (landing.reason, landing.records) == ("", 90)
    assert not (tmp_path / ".landing").exists()
    # A checksum file beside would make a file that another tool rewrites unreadable.
    assert not list((tmp_path / "records").glob(".*.crc"))
    assert len(list((tmp_path / "records").glob("part-*.parquet"))) >= tasks
    rows = pq.read_table(tmp_path / "records").to_pylist()
    assert sorted(row["seq"] for row in rows) == [seq for seq in range(100) if seq % 2 == 0 or seq < 80]
    assert all(row["crc_ok"] and row["timestamp_type"] == "append" for row in rows)


@pytest.mark.kafka
@pytest.mark.parametrize("cores", [0, 2])
def test_what_an_aborted_transaction_left_is_no_output_of_an_application_that_promises_exactly_once(
    spark: SparkSession, tmp_path: Path, cores: int
) -> None:
    jars = kafka_jars()
    if jars is None or not connector_jars():
        pytest.skip("the jars of Kafka or of Spark's Kafka source are not cached: make setup")
    with running_broker(jars) as broker:
        broker.create_topic("t", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
        producer.init_transactions(30)
        for first, commit in ((0, True), (10, False), (20, True)):
            producer.begin_transaction()
            for seq in range(first, first + 10):
                value, _ = encode(run_tag("r1"), 0, seq, 5, b"x" * 20)
                producer.produce("t", value, partition=0)
            # Aborting takes back what is not sent yet.
            assert producer.flush(30) == 0
            (producer.commit_transaction if commit else producer.abort_transaction)(30)
        # Each transaction ends with a marker, which takes an offset.
        place = {"cluster": "leaf", "topic": "t"}
        for exactly_once, expected in ((True, 20), (False, 30)):
            app = Application.model_validate(
                {"name": "a", "input": place, "output": place, "exactly_once": exactly_once}
            )
            run = described(broker.bootstrap_servers, {"0": 33}).model_copy(update={"applications": [app]})
            landing = land(lambda: spark, str(tmp_path), run, cores)
            assert (landing.reason, landing.records) == ("", expected)


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_a_reason_and_leaves_no_records(tmp_path: Path) -> None:
    jars = kafka_jars()
    if jars is None:
        pytest.skip("the jars of Kafka are not cached: make setup")
    with running_broker(jars) as broker:
        landing = land(pytest.fail, str(tmp_path), described(broker.bootstrap_servers, {"0": 9, "1": 9}), 2)
    assert "topic t of cluster leaf" in landing.reason
    assert not list(tmp_path.iterdir())
