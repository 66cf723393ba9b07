"""The ledger of one producer: what became of each record that it meant to send.

Rows are kept in blocks of consecutive sequence numbers and written when the outcome of a whole block is
known, or at the end, when what is still open becomes unknown (it may have left) or failed (it never did).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kedge.evidence.load_options import LoadSpec
from kedge.evidence.writing import EvidenceWriter
from verify.load.actors import Lane
from verify.load.board import Cell
from verify.load.schedule import Longs

OPEN: Final = 0
ACKED: Final = 1
FAILED: Final = 2
UNKNOWN: Final = 3
_OUTCOMES: Final = pa.array(["open", "acked", "failed", "unknown"])
_CELLS: Final = {ACKED: Cell.ACKED, FAILED: Cell.FAILED, UNKNOWN: Cell.UNKNOWN}
NO_ANSWER: Final = "no answer before the end of the load"
NEVER_SENT: Final = "not sent before the end of the load"


#: Different errors, or instances, that a ledger tells from one another: they come from others.
_NAMES: Final = 10_000
OTHERS: Final = "another, after 10,000 different ones"


class Names:
    """Texts that repeat, as numbers; 0 is no text."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {None: 0}

    def number(self, name: str | None) -> int:
        """Return the number of a text, a new one when it has none yet; beyond 10,000 they share one."""
        if name not in self._numbers and len(self._numbers) > _NAMES:
            name = OTHERS
        return self._numbers.setdefault(name, len(self._numbers))

    def texts(self, numbers: npt.NDArray[np.int16]) -> Any:
        """Return the texts of numbers as a pyarrow array."""
        return pa.array(list(self._numbers), pa.string()).take(pa.array(numbers))


@dataclass
class LedgerBlock:
    """Some consecutive records, from ``first`` on, and what is known of each."""

    first: int
    intended_us: Longs
    crc: Longs
    sent_us: Longs = field(init=False)
    acked_us: Longs = field(init=False)
    partition: npt.NDArray[np.int32] = field(init=False)
    offset: Longs = field(init=False)
    own_us: Longs = field(init=False)
    outcome: npt.NDArray[np.int8] = field(init=False)
    error: npt.NDArray[np.int16] = field(init=False)
    instance: npt.NDArray[np.int16] = field(init=False)
    open: int = field(init=False)

    def __post_init__(self) -> None:
        """Start with all records open and not sent."""
        size = len(self.crc)
        self.open = size
        self.sent_us, self.acked_us, self.offset, self.own_us = (np.zeros(size, np.int64) for _ in range(4))
        self.partition = np.zeros(size, np.int32)
        self.outcome = np.zeros(size, np.int8)
        self.error, self.instance = np.zeros(size, np.int16), np.zeros(size, np.int16)


class Ledger:
    """All open blocks of a producer; a block has ``block`` records and starts at a multiple of it.

    ``cells`` is the producer's row of the board, where outcomes are counted.
    """

    def __init__(self, writer: EvidenceWriter, lane: Lane, cells: Longs, block: int) -> None:
        self._writer = writer
        self._lane = lane
        self._cells = cells
        self._size = block
        self._late: tuple[float, float] | None = None
        self._blocks: dict[int, LedgerBlock] = {}
        self._errors = Names()
        self._instances = Names()

    def count_late(self, start_us: int, load: LoadSpec) -> None:
        """Count acknowledgements that take more than the load allows, of records due after its warm-up."""
        if load.late_ms is not None:
            self._late = (start_us + load.warm_up_s * 1e6, load.late_ms * 1e3)

    def add(self, first: int, intended_us: Longs, crc: Longs) -> None:
        """Open a block of records."""
        self._blocks[first // self._size] = LedgerBlock(first, intended_us, crc)

    def sent(self, first: int, end: int, at_us: int, free_us: int = 0) -> None:
        """Note when the records [first, end) were handed over; they lie in one block.

        ``free_us`` is until when the service kept them from being sent. What is later than that, and than
        they were due, is the generator's own time.
        """
        block = self._blocks[first // self._size]
        rows = slice(first - block.first, end - block.first)
        block.sent_us[rows] = at_us
        block.own_us[rows] = np.maximum(at_us - np.maximum(block.intended_us[rows], free_us), 0)

    def settle(
        self,
        seq: Longs,
        outcome: int,
        partition: npt.NDArray[np.int32] | None = None,
        offset: Longs | None = None,
        at_us: int = 0,
        error: str | None = None,
        instance: str | None = None,
    ) -> None:
        """Note what became of records (each seq once); partition, offset and time count for acked ones only.

        What is told about a record whose outcome is known already is ignored.
        """
        numbers = seq // self._size
        for number in np.unique(numbers).tolist():
            block = self._blocks.get(number)
            if block is None:
                continue
            told = np.flatnonzero(numbers == number)
            told = told[block.outcome[seq[told] - block.first] == OPEN]
            rows = seq[told] - block.first
            block.outcome[rows] = outcome
            if partition is not None and offset is not None:
                block.partition[rows] = partition[told]
                block.offset[rows] = offset[told]
            block.acked_us[rows] = at_us
            block.error[rows] = self._errors.number(error)
            block.instance[rows] = self._instances.number(instance)
            self._cells[_CELLS[outcome]] += len(rows)
            if outcome == ACKED:
                self._cells[Cell.BYTES] += len(rows) * self._lane.record_bytes
                self._cells[Cell.OWN_US] += int(block.own_us[rows].sum())
                took_us = at_us - block.intended_us[rows]
                self._cells[Cell.TOOK_US] += int(took_us.sum())
                if self._late is not None:
                    after_us, late_us = self._late
                    late = (took_us > late_us) & (block.intended_us[rows] >= after_us)
                    self._cells[Cell.LATE] += int(late.sum())
            block.open -= len(rows)
            if not block.open:
                self._writer.append(self._columns(self._blocks.pop(number)))

    def close(self, end: int) -> None:
        """Settle what is still open of the records [0, end), and drop what was prepared beyond them."""
        for number in sorted(self._blocks):
            block = self._blocks[number]
            size = min(len(block.crc), end - block.first)
            if size <= 0:
                continue
            seq = np.arange(block.first, block.first + size)
            left = block.sent_us[:size] > 0
            self.settle(seq[left], UNKNOWN, error=NO_ANSWER)
            self.settle(seq[~left], FAILED, error=NEVER_SENT)
            if number in self._blocks:
                self._writer.append(self._columns(self._blocks.pop(number), size))
        self._blocks.clear()

    def _columns(self, block: LedgerBlock, size: int | None = None) -> dict[str, Any]:
        rows = slice(size)
        outcome = block.outcome[rows]
        not_acked = outcome != ACKED
        seq = np.arange(block.first, block.first + len(outcome))
        return {
            "producer": self._lane.producer,
            "seq": seq,
            "topic": self._lane.topic,
            "partition": np.ma.MaskedArray(block.partition[rows], not_acked),
            "offset": np.ma.MaskedArray(block.offset[rows], not_acked),
            "crc": block.crc[rows],
            "bytes": self._lane.record_bytes,
            "intended_us": block.intended_us[rows],
            "sent_us": np.ma.MaskedArray(block.sent_us[rows], block.sent_us[rows] == 0),
            "acked_us": np.ma.MaskedArray(block.acked_us[rows], not_acked),
            "outcome": _OUTCOMES.take(pa.array(outcome)),
            "error": self._errors.texts(block.error[rows]),
            "via": self._lane.via,
            "instance": self._instances.texts(block.instance[rows]),
        }
