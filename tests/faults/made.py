"""Good evidence of small runs, laid out so that a fault is one change and what it must lead to is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kedge.evidence.record import encode, run_tag

RUN_ID: Final = "faults"
#: 2025-01-01T00:00:00Z, microseconds.
STARTED_US: Final = 1_735_689_600_000_000
SECOND_US: Final = 1_000_000
SECONDS: Final = 12
WARM_UP_S: Final = 1
PARTITIONS: Final = 4
RECORDS: Final = 240
KEYS: Final = 50
SAMPLING_US: Final = 100_000
MEMBERS: Final = 2
_STICKY: Final = 3  # consecutive records of one partition, as a batching producer sends them
_REQUEST: Final = 6  # records of one REST request
_EVERY_US: Final = SECONDS * SECOND_US // RECORDS

#: What the audit must say of one finding: kind and the fields by which it is known.
Finding = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass
class Record:
    """A record as it lies in a topic, with the time at which the broker appended it."""

    seq: int
    key: bytes | None
    value: bytes
    appended_us: int


@dataclass
class Slot:
    """A place in a partition: what lies there, whose acknowledgement names it, and when a consumer came by.

    ``gone``: the topic does not hold it. ``offset`` is known once all slots are in their places; ``touched``
    marks what a fault has used.
    """

    partition: int
    record: Record
    acked_seq: int | None
    passed_us: int
    gone: bool = False
    delivered: bool = True
    touched: bool = False
    offset: int = -1


@dataclass
class Row:
    """A ledger row; ``slot`` is the place that was acknowledged, None where there was no answer."""

    seq: int
    intended_us: int
    sent_us: int
    acked_us: int
    crc: int
    bytes: int
    slot: Slot | None
    outcome: str = "acked"


@dataclass
class Case:
    """One small run: a producer with its topic and group. ``expected`` is asked when all faults are in."""

    number: int
    via: str
    logs: list[list[Slot]]
    rows: dict[int, Row]
    records: int = RECORDS
    lacking: range = range(0)
    shifts: dict[int, int] = field(default_factory=dict)
    slept: list[tuple[int, int]] = field(default_factory=list)
    unstable: list[tuple[int, int]] = field(default_factory=list)
    members: int = MEMBERS
    piled_up: bool = False
    expected: list[Callable[[], Finding]] = field(default_factory=list)
    unacked: int = 0
    injected: list[str] = field(default_factory=list)

    @property
    def homes(self) -> tuple[str, ...]:
        """The instances of its members, each its own before the restart."""
        return tuple(f"10.0.0.{member}:8082" for member in range(MEMBERS))

    @property
    def topic(self) -> str:
        """The topic's name, which tells the case."""
        return f"t{self.number}"

    @property
    def group(self) -> str:
        """The group's name, which tells the case."""
        return f"g{self.number}"

    def settle(self) -> None:
        """Number the slots of each partition, from 100 on."""
        for log in self.logs:
            for offset, slot in enumerate(log, 100):
                slot.offset = offset


def value_of(producer: int, seq: int, intended_us: int, rng: random.Random) -> tuple[bytes, int]:
    """Return a value with its identity and 24 bytes of payload, and its checksum."""
    return encode(run_tag(RUN_ID), producer, seq, intended_us, rng.randbytes(24))


def key_of(producer: int, seq: int) -> bytes:
    """Return the key that the generators give a record."""
    return f"{producer}-{seq % KEYS}".encode()


def good_case(number: int, rng: random.Random, via: str) -> Case:
    """Return a run in which nothing went wrong: every record acknowledged, appended, delivered once."""
    logs: list[list[Slot]] = [[] for _ in range(PARTITIONS)]
    rows = {}
    for seq in range(RECORDS):
        intended = STARTED_US + seq * _EVERY_US + 1_000
        sent = intended + 500
        if via == "rest":
            # A request leaves when its last record is due, and the next one after its answer.
            last = seq // _REQUEST * _REQUEST + _REQUEST - 1
            sent = STARTED_US + last * _EVERY_US + 1_500
        value, crc = value_of(number, seq, intended, rng)
        partition = seq // _STICKY % PARTITIONS
        record = Record(seq, key_of(number, seq), value, sent + 4_000)
        slot = Slot(partition, record, seq, record.appended_us + 5_000)
        logs[partition].append(slot)
        rows[seq] = Row(seq, intended, sent, sent + 10_000, crc, len(value), slot)
    return Case(number, via, logs, rows)
