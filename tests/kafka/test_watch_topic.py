"""The watching command against a real broker."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.kafka.crashable import CrashableBroker
from verify.watch.topic_growth import KafkaTopic, rates
from verify.watch_topic import main

pytestmark = pytest.mark.kafka


def test_rates_are_those_of_what_was_written(broker: CrashableBroker, topic: str) -> None:
    watched = KafkaTopic(broker.bootstrap_servers, {}, topic)
    before = watched.read()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(300):
        producer.produce(topic, b"v" * 90, b"k" * 10, partition=1 if number < 200 else 3)
    assert producer.flush(30) == 0
    after = watched.read()
    assert after.ends == {0: 0, 1: 200, 2: 0, 3: 100}
    assert watched.record_bytes(before, after) == 100
    found = rates(before, after, 100)
    seconds = (after.at_us - before.at_us) / 1e6
    assert [round((rate.records_per_s or 0) * seconds) for rate in found] == [0, 200, 0, 100]


def test_samples_go_into_a_runs_evidence(
    broker: CrashableBroker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evidence").mkdir()
    words = ["--bootstrap-servers", broker.bootstrap_servers, "--topic", topic, "--every", "0.1"]
    assert main([*words, "--samples", "1", "--by-partition", "--append", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert pq.read_table(tmp_path / "evidence" / "end_offsets").num_rows == 8


def test_missing_topic_is_named_and_not_made(
    broker: CrashableBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--bootstrap-servers", broker.bootstrap_servers, "--topic", "no-such-topic"]) == 2
    assert "error: topic no-such-topic" in capsys.readouterr().err
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert "no-such-topic" not in admin.list_topics(timeout=10).topics
