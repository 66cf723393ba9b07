"""One client of a measurement: `python -m verify.measure.worker PARENT`, started by verify.measure alone.

Its work is a line of JSON on stdin; it answers ``ready``, waits for the time to start (microseconds since the
epoch) on the next line, works until its window is over, and answers with a line of JSON: ``busy``, the share
of the time that its own thread kept a core busy.

The producer is closed loop: it hands over as much as librdkafka takes, and the outcome of every record goes
into the ledger. The consumer reads its partitions from the start, again and again until the time is over:
what was written a moment ago lies in the broker's page cache either way.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any, Final

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kedge.evidence.record import identities, run_tag
from kedge.evidence.writing import EvidenceWriter
from verify.load.actors import Lane
from verify.load.board import Cell
from verify.load.kafka_producer import Sender
from verify.measure.config import ClientWork
from verify.process import Ending, die_with_parent, leave, now_us

#: What may wait in librdkafka: enough to fill batches of 8 partitions, little enough to be answered soon.
_QUEUE_BYTES: Final = 64 << 20
_QUEUE_RECORDS: Final = 200_000
_AT_ONCE: Final = 4096
_LAST_ANSWERS_S: Final = 10.0
_CONNECT_S: Final = 15


def main(parent: int) -> int:
    """Do one phase; return 0 when it ended in order."""
    ending = Ending()
    die_with_parent(parent)
    work = ClientWork.model_validate_json(sys.stdin.readline())
    try:
        busy = produce(work, ending) if work.phase == "produce" else consume(work, ending)
    except KafkaException as error:
        print(error.args[0].str(), file=sys.stderr, flush=True)
        return 1
    print(json.dumps({"busy": round(busy, 3)}), flush=True)
    return 0


def _start_us() -> int:
    print("ready", flush=True)
    return int(sys.stdin.readline() or 0)


def _end_us(work: ClientWork, start_us: int) -> int:
    return start_us + round((work.measurement.warm_up_s + work.measurement.seconds) * 1e6)


def _sleep_until(at_us: int) -> None:
    time.sleep(max(0.0, (at_us - now_us()) / 1e6))


def produce(work: ClientWork, ending: Ending) -> float:
    """Produce as fast as the cluster acknowledges; return the share of the time that the thread was busy."""
    asked = work.measurement
    lane = Lane(f"measure-{work.producer}", work.producer, "kafka", work.topic, math.inf,
                asked.record_bytes, 1)  # fmt: skip
    config = asked.producer_config()
    queue = min(_QUEUE_RECORDS, max(100, _QUEUE_BYTES // asked.record_bytes))
    producer = Producer({**config, "client.id": lane.actor, "queue.buffering.max.messages": 2 * queue,
                         "queue.buffering.max.kbytes": 4 * _QUEUE_BYTES // 1024})  # fmt: skip
    producer.list_topics(work.topic, timeout=_CONNECT_S)
    writer = EvidenceWriter(work.evidence, "ledger", lane.actor)
    cells: Any = np.zeros(len(Cell), np.int64)
    sender = Sender(asked.run_id, lane, producer, cells, writer, queue)
    start_us = _start_us()
    _sleep_until(start_us)
    end_us, began, cpu = _end_us(work, start_us), time.monotonic(), time.thread_time()
    while (now := now_us()) < end_us and not ending:
        if (room := sender.room()) > 0:
            sender.hand_over(min(room, _AT_ONCE), now)
            sender.serve(0)
        else:
            sender.serve(0.005)
    busy = (time.thread_time() - cpu) / max(time.monotonic() - began, 1e-6)
    deadline = time.monotonic() + _LAST_ANSWERS_S
    while len(producer) and time.monotonic() < deadline and not ending:
        sender.serve(0.05)
    if len(producer):
        producer.purge()
        sender.serve(1.0)
    sender.ledger.close(sender.handed_over)
    writer.close()
    return busy


def consume(work: ClientWork, ending: Ending) -> float:
    """Read until the window is over; return the share of the time that the thread was busy."""
    asked = work.measurement
    name = f"measure-{work.producer}"
    consumer = Consumer({**asked.consumer_config(), "client.id": name})
    mine = [n for n in range(work.partitions) if n % asked.clients == work.number]
    writer = EvidenceWriter(work.evidence, "deliveries", name)
    tag = run_tag(asked.run_id)
    start_us = _start_us()
    _sleep_until(start_us)
    if mine:
        consumer.assign([TopicPartition(work.topic, n, OFFSET_BEGINNING) for n in mine])
    end_us, began, cpu = _end_us(work, start_us), time.monotonic(), time.thread_time()
    while now_us() < end_us and not ending:
        messages = consumer.consume(10_000, 0.02)
        good = [m for m in messages if m.error() is None]
        if good:
            _note(work, name, good, writer, tag)
        for message in messages:
            _again(consumer, message)
        writer.tick()
    busy = (time.thread_time() - cpu) / max(time.monotonic() - began, 1e-6)
    consumer.close()
    writer.close()
    return busy


def _again(consumer: Consumer, message: Any) -> None:
    """Begin a partition anew at its end; raises KafkaException for what no retry mends."""
    error = message.error()
    if error is None:
        return
    if error.code() == KafkaError._PARTITION_EOF:
        consumer.seek(TopicPartition(message.topic(), message.partition(), OFFSET_BEGINNING))
    elif error.fatal() or not error.retriable():
        raise KafkaException(error)


def _note(work: ClientWork, name: str, messages: list[Any], writer: EvidenceWriter, tag: bytes) -> None:
    producer, seq, *_ = identities(tag, [message.value() for message in messages])
    writer.append(
        {
            "group": work.topic,
            "consumer": name,
            "topic": work.topic,
            "partition": np.array([message.partition() for message in messages], np.int32),
            "offset": np.array([message.offset() for message in messages], np.int64),
            "producer": producer,
            "seq": seq,
            "received_us": now_us(),
            "via": "kafka",
        }
    )


if __name__ == "__main__":
    leave(main(int(sys.argv[1])))
