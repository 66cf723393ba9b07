"""What to measure: the records, the client's choices, and how often."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from kedge.evidence.record_layout import PREFIX_BYTES

Client = dict[str, str | int | float | bool]
Phase = Literal["produce", "consume"]
#: What temporary topics begin with.
PREFIX: Final = "kedge-measure-"


class MeasureError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measurement(_Model):
    """One measurement; ``run_id`` (measure-...) also marks its records and names its topics.

    ``seconds`` is the measured window of each phase of a round, after ``warm_up_s``. ``partitions`` are the
    points of the curve; one of them is 1. ``clients`` producers, and as many consumers, run at the same time.
    """

    run_id: str
    cluster: str
    bootstrap_servers: str
    client: Client = {}
    record_bytes: Annotated[int, Field(ge=PREFIX_BYTES, le=10_000_000)] = 1000
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    acks: Literal["0", "1", "all"] = "all"
    replication: Annotated[int, Field(ge=1)] = 1
    partitions: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = (1, 2, 4, 8)
    repetitions: Annotated[int, Field(ge=1, le=100)] = 3
    seconds: Annotated[float, Field(gt=0)] = 4
    warm_up_s: Annotated[float, Field(ge=0)] = 1
    clients: Annotated[int, Field(ge=1, le=64)] = 1

    def topic(self, partitions: int, repetition: int) -> str:
        """Return the name of the temporary topic of a round."""
        return f"kedge-{self.run_id}-p{partitions}-r{repetition}"

    def producer_config(self) -> Client:
        """Return the producers' librdkafka keys; idempotent where ``acks`` allows it."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            **self.client,
            "acks": self.acks,
            "enable.idempotence": self.acks == "all",
            "compression.type": self.codec,
            # A partition's batches fill at full speed; the records of a load have 4,000 keys.
            "partitioner": "murmur2_random",
            "message.max.bytes": max(1_000_000, 2 * self.record_bytes),
        }

    def consumer_config(self) -> Client:
        """Return the consumers' librdkafka keys; nothing is committed."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            **self.client,
            "group.id": f"kedge-{self.run_id}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }


class ClientWork(_Model):
    """What one process does in one phase: client ``number`` of ``measurement.clients`` on ``topic``."""

    measurement: Measurement
    phase: Phase
    topic: str
    partitions: int
    repetition: int
    number: int
    evidence: Path

    @property
    def producer(self) -> int:
        """The number by which the ledger knows this client: a round's are unlike any other's."""
        points = self.measurement.partitions
        round_number = (self.repetition - 1) * len(points) + points.index(self.partitions)
        return round_number * self.measurement.clients + self.number
