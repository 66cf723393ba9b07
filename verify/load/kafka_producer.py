"""An open-loop producer by the Kafka protocol, with the outcome of every record in the ledger.

Every few milliseconds the records that have become due are handed to librdkafka in one call; acknowledgements
are gathered by a callback that only appends, and settled as arrays. Measured on 2 cores at 55,000 records/s
of 100 bytes, before the ledger: such slices 2.5 s of CPU per million records, one call a record and waiting
in poll() instead of sleeping 4.5 s. The price is that an acknowledgement's time is that of the slice's end,
up to ``SLICE_S`` late. A producer of few records waits in poll() until the next is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaError, Producer

from kedge.evidence.load_options import Client, LoadSpec
from kedge.evidence.record import run_tag
from kedge.evidence.record_layout import SEQ
from kedge.evidence.writing import EvidenceWriter
from verify.load.actors import Lane
from verify.load.board import ActorState, Board, Cell, Head
from verify.load.ledger import ACKED, FAILED, UNKNOWN, Ledger
from verify.load.records import KEYS, Encoder, keys
from verify.load.schedule import SLICE_S, count_due, due_us, rest_s
from verify.process import Ending, begin_work, cpu_us, now_us

#: Records of the ledger that are settled together: a quarter of a second's, within these bounds.
_BLOCK_S: Final = 0.25
_BLOCKS: Final = (64, 8192)
#: Records handed over in one call while catching up; between two calls acknowledgements are served.
_AT_ONCE: Final = 4096
#: What may wait in librdkafka. At 55,000 records/s the first number is an outage of 36 s; beyond it the
#: producer waits, the schedule does not.
_QUEUE_RECORDS: Final = 2_000_000
_QUEUE_BYTES: Final = 1 << 30
#: How long a producer that was told to end at once still waits for answers.
_LAST_ANSWERS_S: Final = 1.0

#: Errors by which a record is certainly not in the topic. Any other, a time-out above all, may follow a
#: request that the broker did carry out: the outcome is unknown.
REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.POLICY_VIOLATION,
        KafkaError._UNKNOWN_PARTITION,
    }
)


def client_config(load: LoadSpec) -> Client:
    """Return the producer's librdkafka keys: acks of all replicas, idempotent, Java's partitioner."""
    own = load.kafka.producer if load.kafka else {}
    return {
        **load.client_config(),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": _QUEUE_RECORDS,
        "queue.buffering.max.kbytes": 2 * _QUEUE_BYTES // 1024,
        **own,
    }


def run(load: LoadSpec, lane: Lane, board: Board, writer: EvidenceWriter, ending: Ending) -> None:
    """Produce until the board says stop; the ledger is complete when this returns.

    Raises KafkaException when the client cannot be made or the topic cannot be looked up.
    """
    cells = board.cells(lane.actor)
    config = client_config(load)
    producer = Producer({**config, "client.id": lane.actor})
    producer.list_topics(lane.topic, timeout=10)
    queue = int(config["queue.buffering.max.messages"])
    sender = Sender(load.run_id, lane, producer, cells, writer, queue)
    cells[Cell.STATE] = ActorState.READY
    while not board.head[Head.GO] and not ending:
        time.sleep(0.02)
    start_us = int(board.head[Head.GO])
    begin_work()
    sender.ledger.count_late(start_us, load)
    if start_us:
        _produce(sender, board, start_us, ending)
    _answers(sender, board, ending)
    sender.ledger.close(sender.planned)
    writer.close()
    cells[Cell.CPU_US] = cpu_us()
    cells[Cell.STATE] = ActorState.DONE


def _produce(sender: Sender, board: Board, start_us: int, ending: Ending) -> None:
    """Hand over what becomes due, slice by slice on absolute ticks, until the last record due is away."""
    rate = sender.lane.rate
    tick = time.monotonic()
    while not ending:
        stop_us = int(board.head[Head.STOP])
        now = now_us()
        # What has left belongs to the load, however late it is told to stop.
        sender.planned = max(
            count_due(start_us, rate, min(now, stop_us) if stop_us else now), sender.handed_over
        )
        behind = sender.planned - sender.handed_over
        if behind > 0 and sender.room() > 0:
            sender.hand_over(min(behind, sender.room(), _AT_ONCE), start_us)
        elif behind > 0:
            sender.full_us = now
        sender.serve(0)
        if stop_us and now >= stop_us and sender.handed_over == sender.planned:
            return
        if board.head[Head.FLUSH_UNTIL] and now >= board.head[Head.FLUSH_UNTIL]:
            return
        if behind > _AT_ONCE and sender.room() > 0:
            continue
        rest = rest_s(start_us, rate, sender.handed_over, now_us())
        if rest == SLICE_S:
            tick = max(tick + SLICE_S, time.monotonic() - SLICE_S)
            time.sleep(max(0.0, tick - time.monotonic()))
        elif rest > SLICE_S:
            # An acknowledgement ends it, and is settled when it comes.
            sender.serve(rest)
        else:
            # Until a record is due. poll() counts in milliseconds: it would come back at once, many times.
            time.sleep(rest)


def _answers(sender: Sender, board: Board, ending: Ending) -> None:
    """Wait for the answers that are still out, then have librdkafka give up on the rest."""
    asked_to_end = 0.0
    while len(sender.producer):
        sender.serve(0.05)
        until = int(board.head[Head.FLUSH_UNTIL])
        if until and now_us() >= until:
            break
        if ending:
            asked_to_end = asked_to_end or time.monotonic()
            if time.monotonic() >= asked_to_end + _LAST_ANSWERS_S:
                break
    if len(sender.producer):
        sender.producer.purge()
        sender.serve(1.0)


class Sender:
    """The producer with its schedule, its ledger and the answers that came since the last slice.

    A lane of infinite rate has no schedule: a block's records are due when it is prepared.
    """

    def __init__(
        self,
        run_id: str,
        lane: Lane,
        producer: Producer,
        cells: Any,
        writer: EvidenceWriter,
        queue: int,
    ) -> None:
        self.lane = lane
        self.producer = producer
        self.planned = 0
        self.handed_over = 0
        self.full_us = 0  # when librdkafka last had no room
        self._block = int(max(_BLOCKS[0], min(_BLOCKS[1], lane.rate * _BLOCK_S)))
        self.ledger = Ledger(writer, lane, cells, self._block)
        self._cells = cells
        self._writer = writer
        self._most = min(queue, _QUEUE_BYTES // lane.record_bytes) * 9 // 10
        self._encoder = Encoder(run_tag(run_id), lane.producer, lane.record_bytes)
        self._keys = keys(lane.producer)
        self._values = b""
        self._first = 0
        self._answers: list[Any] = []
        answers = self._answers

        def note(_error: object, message: object) -> None:
            answers.append(message)

        self._note: Callable[[object, object], None] = note

    def room(self) -> int:
        """Return how many more records may wait in librdkafka."""
        return self._most - len(self.producer)

    def hand_over(self, count: int, start_us: int) -> None:
        """Hand over the next records, as many as asked for or as the block still has.

        ``start_us`` is when seq 0 is due; without a schedule, now.
        """
        first = self.handed_over
        if first % self._block == 0:
            seq = np.arange(first, first + self._block)
            intended = due_us(start_us, self.lane.rate, seq)
            self._values, crc = self._encoder.encode(seq, intended)
            self._first = first
            self.ledger.add(first, intended, crc)
            self._cells[Cell.CPU_US] = cpu_us()
        end = min(first + count, self._first + self._block)
        size, values, all_keys = self.lane.record_bytes, self._values, self._keys
        base = self._first
        batch = [
            {"value": values[(seq - base) * size : (seq - base + 1) * size], "key": all_keys[seq % KEYS]}
            for seq in range(first, end)
        ]
        self._cells[Cell.SENT] = end
        self.ledger.sent(first, end, now_us(), self.full_us)
        taken = self.producer.produce_batch(self.lane.topic, batch, on_delivery=self._note)
        self.handed_over = end
        if taken < len(batch):
            self._refused(first, batch)

    def _refused(self, first: int, batch: list[dict[str, Any]]) -> None:
        """Settle the records that librdkafka did not even take."""
        for number, message in enumerate(batch):
            if "_error" in message:
                self.ledger.settle(np.array([first + number]), FAILED, error=str(message["_error"]))

    def serve(self, wait_s: float) -> None:
        """Let callbacks come for at most that long, then settle what they brought."""
        self.producer.poll(wait_s)
        if not self._answers:
            self._writer.tick()
            return
        at_us = now_us()
        messages = self._answers.copy()
        self._answers.clear()
        values = b"".join([message.value()[SEQ] for message in messages])
        seq = np.frombuffer(values, ">i8").astype(np.int64)
        errors = [message.error() for message in messages]
        if any(errors):
            self._settle_errors(seq, errors)
            good = np.array([error is None for error in errors])
            messages = [message for message, error in zip(messages, errors, strict=True) if error is None]
            seq = seq[good]
        if len(seq):
            partition = np.array([message.partition() for message in messages], np.int32)
            offset = np.array([message.offset() for message in messages], np.int64)
            self.ledger.settle(seq, ACKED, partition, offset, at_us)

    def _settle_errors(self, seq: Any, errors: list[KafkaError | None]) -> None:
        told: dict[tuple[int, str], list[int]] = {}
        for number, error in zip(seq.tolist(), errors, strict=True):
            if error is not None:
                outcome = FAILED if error.code() in REFUSED else UNKNOWN
                told.setdefault((outcome, f"{error.name()}: {error.str()}"), []).append(number)
        for (outcome, text), numbers in told.items():
            self.ledger.settle(np.array(numbers), outcome, error=text)
