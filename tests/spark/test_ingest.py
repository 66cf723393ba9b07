"""Topics become the records table: decoded as the generators encode, and read from a real broker."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kedge.evidence.record import decode as decode_value
from kedge.evidence.record import encode, run_tag
from kedge.evidence.run import Application, Cluster, Run, parse_run
from kedge.plan.inventory.security import Security, librdkafka
from lab.services.brokers import running_broker
from spark_checks import topics
from spark_checks.engine.files import parquet_files
from spark_checks.ingest import client_of, ingest
from tests.faults.evidence import Message
from tests.kafka.secured_site import WAYS, secured_site

SHARE = topics.TopicRangeShare("leaf", "t", (), {}, run_tag("r1"), None)
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


def decode(
    values: list[bytes | None], keys: list[bytes | None], names: int | None = None
) -> list[dict[str, Any]]:
    messages = [
        Message(("t", 0, n), (key, value), 1_735_689_600_000_000)
        for n, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    return topics.decoded(messages, replace(SHARE, keys=names)).to_pylist()


def test_values_decode_as_the_generators_encode_them() -> None:
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
    for row, value in zip(decode(values, [b"k"] * len(values)), values, strict=True):
        identity = decode_value(tag, value) if value is not None else None
        found = None if row["producer"] is None else (row["producer"], row["seq"], row["crc"], row["crc_ok"])
        assert found == (
            None if identity is None else (identity.producer, identity.seq, identity.crc, identity.crc_ok)
        )
        held = identity is not None and identity.intended_us < 1 << 63
        assert row["intended_us"] == (identity.intended_us if identity is not None and held else None)
        assert row["bytes"] == len(value or b"")
        assert (row["timestamp_us"], row["timestamp_type"]) == (1_735_689_600_000_000, "append")
        assert row["key_ok"] is None


@pytest.mark.parametrize("names", [4000, 1 << 20])
def test_a_key_is_held_against_the_generators_rule(names: int) -> None:
    value, _ = encode(run_tag("r1"), 3, names + 1, 5, b"payload")
    found = decode([value] * 3, [b"3-1", b"3-2", None], names)
    assert [row["key_ok"] for row in found] == [True, False, False]


def test_a_cluster_that_cannot_be_reached_is_a_reason_not_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nothing else answers there meanwhile
        run = described(f"127.0.0.1:{taken.getsockname()[1]}", {"0": 1, "1": 1})
        found = ingest(spark, tmp_path.as_uri(), run)
    assert "cluster leaf cannot be reached" in found.reason
    assert not (tmp_path / "records").exists()


def test_equal_texts_alone_have_equal_hashes() -> None:
    found = topics.hashes([None, b"None", b"", b"a", b"b", b"a", None])
    assert found[3] == found[5]
    assert found[0] == found[6]
    assert len(set(found.tolist())) == 5


def test_headers_are_told_apart_by_where_names_and_values_end() -> None:
    headers = [None, [("a", b"bc")], [("ab", b"c")], [("a", b"bc"), ("a", None)], [("a", b"bc"), ("a", b"")]]
    assert len(set(topics._of_headers(headers).tolist())) == 5


def test_a_share_that_is_printed_shows_no_login_and_no_key() -> None:
    client = {"sasl.password": "planted-password", "ssl.key.pem": "planted-key"}
    assert "planted" not in repr(replace(SHARE, client=client))


def test_files_of_a_client_go_to_the_tasks_as_their_text_and_one_that_is_missing_is_named(
    tmp_path: Path,
) -> None:
    for name in ("ca", "kedge", "key"):
        (tmp_path / name).write_text(f"text of {name}")
    places = {"ssl.ca.location": "ca", "ssl.certificate.location": "kedge", "ssl.key.location": "key"}
    run = described("127.0.0.1:1", {"0": 1}).model_copy(
        update={
            "clusters": {
                "leaf": Cluster(
                    bootstrap_servers="127.0.0.1:1",
                    client={"security.protocol": "SSL"} | {k: str(tmp_path / v) for k, v in places.items()},
                )
            }
        }
    )
    assert client_of(run, "leaf") == {
        "security.protocol": "SSL",
        "ssl.ca.pem": "text of ca",
        "ssl.certificate.pem": "text of kedge",
        "ssl.key.pem": "text of key",
    }
    (tmp_path / "key").unlink()
    with pytest.raises(
        topics.CannotReadError, match=r"^ssl.key.location of cluster leaf, .*/key: No such file"
    ):
        client_of(run, "leaf")


def test_offsets_are_shared_out_evenly_with_few_cuts() -> None:
    one = replace(SHARE, ranges=(topics.Range(0, 10, 110), topics.Range(1, 0, 20)))
    other = replace(SHARE, topic="u", ranges=(topics.Range(0, 5, 85),))
    tasks = topics.cut([one, other], 4)
    assert [(task.topic, sum(end - start for _, start, end in task.ranges)) for task in tasks] == [
        ("t", 50),
        ("t", 50),
        ("t", 20),
        ("u", 30),
        ("u", 50),
    ]
    assert tasks[0].ranges == (topics.Range(0, 10, 60),)
    assert topics.cut([], 4) == []


@pytest.mark.kafka
def test_the_runs_range_is_read_from_a_broker_by_ranges_of_offsets(
    spark: SparkSession, tmp_path: Path, jars: Path
) -> None:
    with running_broker(jars) as broker:
        broker.create_topic("t", 2, {"message.timestamp.type": "LogAppendTime"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for seq in range(100):
            value, _ = encode(run_tag("r1"), 0, seq, 5, b"x" * 20)
            producer.produce("t", value, partition=seq % 2)
        assert producer.flush(30) == 0
        run = described(broker.bootstrap_servers, {"0": 50, "1": 40})
        found = ingest(spark, tmp_path.as_uri(), run)
    assert (found.reason, found.records) == ("", 90)
    # A checksum file beside would make a file that another tool rewrites unreadable.
    assert not list((tmp_path / "records").glob(".*.crc"))
    assert len(list((tmp_path / "records").glob("part-*.parquet"))) == 4
    rows = pq.read_table(tmp_path / "records").to_pylist()
    assert sorted(row["seq"] for row in rows) == [seq for seq in range(100) if seq % 2 == 0 or seq < 80]
    assert all(row["crc_ok"] and row["timestamp_type"] == "append" for row in rows)


@pytest.mark.kafka
@pytest.mark.parametrize("way", WAYS)
def test_topics_of_a_secured_cluster_are_read_as_the_load_reached_them(
    spark: SparkSession, tmp_path: Path, jars: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured_site(jars, tmp_path, way) as site:
        site.broker.create_topic("t", 2)
        seen, secret = librdkafka(Security(**site.security))
        producer = Producer({"bootstrap.servers": site.secured, **seen, **secret})
        for seq in range(100):
            value, _ = encode(run_tag("r1"), 0, seq, 5, b"x" * 20)
            producer.produce("t", value, partition=seq % 2)
        assert producer.flush(30) == 0
        reached = Cluster(bootstrap_servers=site.secured, client=seen)
        run = described(site.secured, {"0": 50, "1": 50}).model_copy(update={"clusters": {"leaf": reached}})
        monkeypatch.setenv("KEDGE_SECRETS", json.dumps({"clusters": {"leaf": secret}}))
        found = ingest(spark, tmp_path.as_uri(), run)
    assert (found.reason, found.records) == ("", 100)


@pytest.mark.kafka
def test_topics_that_hold_nothing_were_read_all_the_same(
    spark: SparkSession, tmp_path: Path, jars: Path
) -> None:
    with running_broker(jars) as broker:
        broker.create_topic("t", 2)
        found = ingest(spark, tmp_path.as_uri(), described(broker.bootstrap_servers, {"0": 0, "1": 0}))
    assert (found.reason, found.records) == ("", 0)
    assert parquet_files(spark, (tmp_path / "records").as_uri())


@pytest.mark.kafka
def test_what_an_aborted_transaction_left_is_no_output_of_an_application_that_promises_exactly_once(
    spark: SparkSession, tmp_path: Path, jars: Path
) -> None:
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
            found = ingest(spark, tmp_path.as_uri(), run)
            assert (found.reason, found.records) == ("", expected)


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_a_reason_and_leaves_no_records(
    spark: SparkSession, tmp_path: Path, jars: Path
) -> None:
    with running_broker(jars) as broker:
        run = described(broker.bootstrap_servers, {"0": 9, "1": 9})
        found = ingest(spark, tmp_path.as_uri(), run)
    assert "topic t of cluster leaf" in found.reason
    assert not list(tmp_path.iterdir())
