"""One run of one case: a fresh application, what it has committed and what it told of itself over time."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kedge.evidence.record import decode, run_tag
from lab.bench.streams.cases import JOINS, LEFT, OUTPUT, PARTITIONS, RECORD_BYTES, RIGHT, Case
from lab.services.application import StartedApplication, running_application
from lab.services.brokers import Broker
from verify.load.records import Encoder
from verify.process import now_us

_SAMPLE_S: Final = 0.5
_CHUNK: Final = 2_000
_GONE_S: Final = 30.0
_READY_S: Final = 90.0
_OUT_S: Final = 30.0
_CONSUMED_S: Final = 240.0


@dataclass(frozen=True)
class Bench:
    """Where runs happen: the broker, a folder, and how many records lie in both input topics together."""

    broker: Broker
    folder: Path
    records: int = 0


def prepare(broker: Broker) -> None:
    """Create the topics; the output keeps little, as nobody reads it later."""
    for name in (LEFT, RIGHT):
        broker.create_topic(name, PARTITIONS)
    limits = {"retention.bytes": str(32 << 20), "segment.bytes": str(16 << 20)}
    broker.create_topic(OUTPUT, PARTITIONS, {**limits, "message.timestamp.type": "LogAppendTime"})


def fill(broker: Broker, records: int, records_per_s: float) -> None:
    """Write a backlog into both topics that came at that rate until now, each record under its own key.

    Left and right hold different records of the same keys: they meet in every join, and no pair comes out.
    """
    start_us = now_us() - int(records * 1_000_000 / records_per_s)
    with _sender(broker) as send:
        encoders = {
            topic: Encoder(run_tag("bench"), number, RECORD_BYTES)
            for number, topic in enumerate((LEFT, RIGHT))
        }
        for first in range(0, records // 2, _CHUNK):
            seq = np.arange(first, min(first + _CHUNK, records // 2), dtype=np.int64)
            due = start_us + (seq * 2_000_000 / records_per_s).astype(np.int64)
            for topic, encoder in encoders.items():
                values, _ = encoder.encode(seq, due)
                for place, (number, at_us) in enumerate(zip(seq.tolist(), due.tolist(), strict=True)):
                    send(topic, number, values[place * RECORD_BYTES :][:RECORD_BYTES], at_us)


@contextmanager
def _sender(broker: Broker) -> Iterator[Callable[[str, int, bytes, int], None]]:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "batch.size": 262_144, "log_level": 3}
    )

    def send(topic: str, number: int, value: bytes, at_us: int) -> None:
        while True:
            try:
                producer.produce(topic, value, b"0-%d" % number, timestamp=at_us // 1000)
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.1)

    yield send
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records were not acknowledged within 60 s")


def throughput(bench: Bench, name: str, case: Case, seconds: float, after: int = 0) -> dict[str, Any]:
    """Run a case on the backlog, without changelogs: RocksDB at its most.

    It runs for ``seconds`` after it is RUNNING and has consumed ``after`` records: from ``counted_s`` on.

    Raises:
        RuntimeError: when the application ends before its time.
        TimeoutError: when it has not consumed ``after`` records in time.
    """
    commits: list[tuple[float, int]] = []
    with _application(bench, case, LEFT, RIGHT, changelogs=False) as (group, running):
        with closing(_asker(bench, group)) as asker:
            began_us = now_us()
            counted_s = None if after else 0.0
            while counted_s is None or (now_us() - began_us) / 1e6 < counted_s + seconds:
                _must_run(running, name)
                at_s = round((now_us() - began_us) / 1e6, 2)
                commits.append((at_s, _consumed(asker)))
                if commits[-1][1] >= bench.records:
                    break
                if counted_s is None and commits[-1][1] >= after:
                    counted_s = at_s
                if counted_s is None and at_s > _CONSUMED_S:
                    raise TimeoutError(f"{name}: {commits[-1][1]} of {after} records after {at_s:.0f} s")
                time.sleep(_SAMPLE_S)
        samples = running.samples()
    return {"commits": commits, "samples": _since(samples, began_us), "counted_s": counted_s}


def paced(bench: Bench, name: str, case: Case, seconds: float, records_per_s: float) -> dict[str, Any]:
    """Send records at a rate, with changelogs; return how long each took to its last output's append."""
    topic = f"bench-paced-{name.replace(' ', '-').replace(',', '')}"
    bench.broker.create_topic(topic, PARTITIONS)
    tag = run_tag(topic)
    latest: dict[int, tuple[float, int]] = {}
    stop = threading.Event()
    # Read from where the output ends now: an end that is asked for later may lie behind the first outputs.
    begin = [TopicPartition(OUTPUT, n, at) for n, at in _ends_of(bench, OUTPUT).items()]
    reader = threading.Thread(target=_read_outputs, args=(bench, tag, begin, latest, stop), daemon=True)
    with _application(bench, case, topic, topic, changelogs=True) as (_, running):
        reader.start()
        began_us = now_us()
        with _sender(bench.broker) as send:
            encoder = Encoder(tag, 0, RECORD_BYTES)
            for seq in range(int(seconds * records_per_s)):
                due_us = began_us + int(seq * 1_000_000 / records_per_s)
                time.sleep(max(0.0, (due_us - now_us()) / 1e6))
                values, _ = encoder.encode(np.array([seq], np.int64), np.array([due_us], np.int64))
                send(topic, seq, values, due_us)
                _must_run(running, name)
        deadline = time.monotonic() + _OUT_S
        due = int(seconds * records_per_s) * JOINS
        while sum(count for _, count in list(latest.values())) < due and time.monotonic() < deadline:
            time.sleep(0.1)
        stop.set()
        reader.join()
        samples = running.samples()
    forget(bench.broker, topic)
    return {
        "sent": int(seconds * records_per_s),
        "latency_ms": [round(ms, 1) for ms, _ in latest.values()],
        "samples": _since(samples, began_us),
    }


def restored(bench: Bench, case: Case, records: int) -> dict[str, Any]:
    """Fill the stores through their changelogs with that many records, lose the disk, and time the restore.

    Returns:
        megabytes of the changelogs (records times their size), and seconds until RUNNING again from the first
        record that the application told of restoring.
    """
    folder = bench.folder / "restore"
    topic = "bench-restore"
    bench.broker.create_topic(topic, PARTITIONS)
    group = "bench-restore-app"
    app = case.application(group, topic, topic, changelogs=True)
    servers = bench.broker.bootstrap_servers
    tag = run_tag(topic)
    with running_application(app, servers, folder) as running:
        running.wait_running(_READY_S)
        with _sender(bench.broker) as send:
            encoder = Encoder(tag, 0, RECORD_BYTES)
            for seq in range(records):
                at_us = now_us()
                values, _ = encoder.encode(np.array([seq], np.int64), np.array([at_us], np.int64))
                send(topic, seq, values, at_us)
        with closing(_asker(bench, group)) as asker:
            deadline = time.monotonic() + _READY_S
            while _consumed(asker, (topic,)) < records and time.monotonic() < deadline:
                _must_run(running, "restore")
                time.sleep(_SAMPLE_S)
    written = _ends(bench, f"{group}-")
    shutil.rmtree(folder / "state")
    with running_application(app, servers, folder) as running:
        # A short restore may be over between two looks.
        running.wait_until(
            lambda told: told.get("restoring_records", 0) > 0 or told.get("state") == "RUNNING",
            _READY_S,
            "restore",
        )
        began = time.monotonic()
        running.wait_running(600)
        took = max(_SAMPLE_S, time.monotonic() - began)
    forget(bench.broker, f"{group}-")
    megabytes = written * RECORD_BYTES / 1e6
    return {
        "changelog_records": written,
        "changelog_mb": round(megabytes, 1),
        "restore_s": round(took, 1),
        "mb_per_s": round(megabytes / took, 1),
    }


@contextmanager
def _application(
    bench: Bench, case: Case, left: str, right: str, *, changelogs: bool
) -> Iterator[tuple[str, StartedApplication]]:
    """Run a case in a folder and a group of its own; afterwards its files and topics are gone.

    A group that is used again would resume at the positions that were committed before.
    """
    group = f"bench-{time.time_ns():x}"
    folder = bench.folder / group
    try:
        with running_application(
            case.application(group, left, right, changelogs=changelogs),
            bench.broker.bootstrap_servers,
            folder,
        ) as running:
            running.wait_running(_READY_S)
            yield group, running
            # The measurement is over: closing the stores properly would take longer than it.
            running.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        forget(bench.broker, f"{group}-")


def _must_run(running: StartedApplication, name: str) -> None:
    if running.ended() is not None:
        raise RuntimeError(f"{name} ended with status {running.ended()}:\n{running.tail()}")


def _asker(bench: Bench, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bench.broker.bootstrap_servers, "group.id": group, "log_level": 0})


def _consumed(asker: Consumer, topics: tuple[str, ...] = (LEFT, RIGHT)) -> int:
    """Return how many records of the topics the asker's group has committed."""
    asked = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    try:
        return sum(max(0, each.offset) for each in asker.committed(asked, timeout=10))
    except KafkaException:
        return 0


def _since(samples: list[dict[str, Any]], began_us: int) -> list[dict[str, Any]]:
    return [{**sample, "at_s": round((sample["at_us"] - began_us) / 1e6, 1)} for sample in samples]


def _read_outputs(
    bench: Bench,
    tag: bytes,
    begin: list[TopicPartition],
    latest: dict[int, tuple[float, int]],
    stop: threading.Event,
) -> None:
    """Note for each record of the run how long after its intended time its last output was appended."""
    consumer = Consumer(
        {
            "bootstrap.servers": bench.broker.bootstrap_servers,
            "group.id": "bench-outputs",
            "enable.auto.commit": False,
            "log_level": 3,
        }
    )
    with closing(consumer):
        consumer.assign(begin)
        while not stop.is_set():
            for message in consumer.consume(500, 0.2):
                _note(message, tag, latest)


def _note(message: Message, tag: bytes, latest: dict[int, tuple[float, int]]) -> None:
    identity = decode(tag, message.value() or b"") if message.error() is None else None
    if identity is not None:
        took = message.timestamp()[1] - identity.intended_us / 1000
        before, count = latest.get(identity.seq, (0.0, 0))
        latest[identity.seq] = (max(before, took), count + 1)


def _ends(bench: Bench, prefix: str) -> int:
    """Return how many records the topics with that prefix hold."""
    admin = AdminClient({"bootstrap.servers": bench.broker.bootstrap_servers})
    names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    return sum(sum(_ends_of(bench, name).values()) for name in names)


def _ends_of(bench: Bench, topic: str) -> dict[int, int]:
    """Return the end offset of each partition; of a topic that has just come, once its leaders are there.

    Raises:
        KafkaException: when they are not after 30 s.
    """
    admin = AdminClient({"bootstrap.servers": bench.broker.bootstrap_servers})
    asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(PARTITIONS)}
    deadline = time.monotonic() + _GONE_S
    while True:
        try:
            found = admin.list_offsets(asked).items()
            return {at.partition: answer.result(_GONE_S).offset for at, answer in found}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SAMPLE_S)


def forget(broker: Broker, prefix: str) -> None:
    """Delete the topics with that prefix: their bytes would be in the next case's way."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    for answer in admin.delete_topics(names).values() if names else ():
        answer.result(_GONE_S)
