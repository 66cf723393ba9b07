"""A consumer by the Kafka protocol that commits only what is in the evidence.

Records are taken in batches; what a batch says is read as arrays. Offsets are committed when the deliveries
have been written to disk, so that a consumer that dies is seen to read again, never to have skipped. With
``enable.auto.commit`` set in the load's consumer keys, librdkafka commits on its own, and the audit shows
what that costs.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kedge.evidence.load_options import Client, LoadSpec
from kedge.evidence.record import identities, run_tag
from kedge.evidence.writing import EvidenceWriter
from verify.load.board import ActorState, Board, Cell, Head
from verify.process import Ending, cpu_us, now_us

_AT_ONCE: Final = 10_000
#: A batch is gathered this long after its first record: a delivery's time is late by no more than that.
_GATHER_S: Final = 0.004
_IDLE_S: Final = 0.1


def client_config(load: LoadSpec) -> Client:
    """Return the consumer's librdkafka keys; the load's own win."""
    own = load.kafka.consumer if load.kafka else {}
    return {
        **load.client_config(),
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        **own,
    }


def run(
    load: LoadSpec,
    actor: str,
    board: Board,
    deliveries: EvidenceWriter,
    assignments: EvidenceWriter,
    ending: Ending,
) -> None:
    """Consume until the board says end; raises KafkaException when the client fails for good."""
    if load.kafka is None:
        raise ValueError("the load has no part by the Kafka protocol")
    config = client_config(load)
    group = load.kafka.group
    consumer = Consumer({**config, "group.id": group, "client.id": actor})
    member = _Member(load, actor, group, consumer, board.cells(actor), deliveries, assignments)
    member.commits = not config["enable.auto.commit"]
    consumer.subscribe(
        [load.kafka.topic], on_assign=member.assigned, on_revoke=member.revoked, on_lost=member.lost
    )
    cells = board.cells(actor)
    cells[Cell.STATE] = ActorState.READY
    while not board.head[Head.END] and not ending:
        member.take()
        cells[Cell.CPU_US] = cpu_us()
    member.write_and_commit()
    consumer.close()
    deliveries.close()
    assignments.close()
    cells[Cell.CPU_US] = cpu_us()
    cells[Cell.STATE] = ActorState.DONE


class _Member:
    """A member of the group with what it has got and not yet committed."""

    def __init__(
        self,
        load: LoadSpec,
        actor: str,
        group: str,
        consumer: Consumer,
        cells: Any,
        deliveries: EvidenceWriter,
        assignments: EvidenceWriter,
    ) -> None:
        self.commits = True
        self._tag = run_tag(load.run_id)
        self._topic = load.kafka.topic if load.kafka else ""
        self._actor = actor
        self._group = group
        self._consumer = consumer
        self._cells = cells
        self._deliveries = deliveries
        self._assignments = assignments
        #: Next offsets by partition: those just got, and those to commit once a file of evidence is on disk.
        self._positions: dict[int, int] = {}
        self._writing: dict[int, int] = {}
        self._file = 0

    def take(self) -> None:
        """Take one batch, or wait a moment for its first record."""
        messages = self._consumer.consume(1, _IDLE_S)
        if messages:
            time.sleep(_GATHER_S)
            messages += self._consumer.consume(_AT_ONCE, 0)
            self._note(messages, now_us())
            self._deliveries.tick()
        elif self._positions or self._writing:
            self._deliveries.rotate()
        else:
            self._deliveries.tick()
        self._assignments.tick()
        self._commit_written()

    def _commit_written(self) -> None:
        if self._writing and self._deliveries.durable(self._file):
            self._commit(self._writing, asynchronous=True)
            self._writing = {}
        if self._positions and not self._writing:
            self._writing, self._positions = self._positions, {}
            self._file = self._deliveries.newest()

    def write_and_commit(self) -> None:
        """Put everything that was got on disk and commit it, now."""
        self._deliveries.flush()
        self._commit(self._writing | self._positions, asynchronous=False)
        self._writing, self._positions = {}, {}

    def _commit(self, positions: dict[int, int], asynchronous: bool) -> None:
        if not self.commits or not positions:
            return
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=asynchronous)
        except KafkaException as error:
            # Whoever has the partitions next reads these records again; the audit counts them.
            print(f"{self._actor}: commit: {error.args[0].str()}", file=sys.stderr, flush=True)

    def assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Note the partitions that the member now has."""
        self._changed("assigned", partitions)

    def revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Commit what was got, then note the partitions that the member gives away."""
        self.write_and_commit()
        self._changed("revoked", partitions)

    def lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Note the partitions that were taken from the member; it may no longer commit them."""
        for partition in partitions:
            self._positions.pop(partition.partition, None)
            self._writing.pop(partition.partition, None)
        self._changed("lost", partitions)

    def _changed(self, event: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._assignments.append(
                {
                    "group": self._group,
                    "consumer": self._actor,
                    "topic": [partition.topic for partition in partitions],
                    "partition": [partition.partition for partition in partitions],
                    "event": event,
                    "at_us": now_us(),
                }
            )

    def _note(self, messages: list[Any], at_us: int) -> None:
        errors = [message for message in messages if message.error() is not None]
        if errors:
            self._complain(errors)
            messages = [message for message in messages if message.error() is None]
        if not messages:
            return
        partitions = [message.partition() for message in messages]
        offsets = [message.offset() for message in messages]
        who = identities(self._tag, [message.value() for message in messages])
        self._positions |= dict(zip(partitions, [offset + 1 for offset in offsets], strict=True))
        self._cells[Cell.DELIVERED] += len(messages)
        self._deliveries.append(
            {
                "group": self._group,
                "consumer": self._actor,
                "topic": self._topic,
                "partition": np.array(partitions, np.int32),
                "offset": np.array(offsets, np.int64),
                "producer": who.producer,
                "seq": who.seq,
                "intended_us": who.intended_us,
                "received_us": at_us,
                "via": "kafka",
            }
        )

    def _complain(self, messages: list[Any]) -> None:
        for message in messages:
            error: KafkaError = message.error()
            print(f"{self._actor}: {error.name()}: {error.str()}", file=sys.stderr, flush=True)
            if error.fatal():
                raise KafkaException(error)
