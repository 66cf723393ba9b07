"""The board: counters that a load's processes share through a file in the run's folder.

Each number has one writer. The file outlives a killed process, so that what it had sent is known afterwards.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

FILE: Final = "load.board"


class Head(IntEnum):
    """What the parent tells everyone; microseconds since the epoch, 0 until it is known."""

    GO = 0  # when the producers start
    STOP = 1  # no record due after this is sent
    FLUSH_UNTIL = 2  # producers give up waiting for answers
    END = 3  # consumers and watchers end


class Cell(IntEnum):
    """What an actor tells the parent."""

    STATE = 0
    SENT = 1  # records from seq 0 that may have left, written before they leave
    ACKED = 2
    FAILED = 3
    UNKNOWN = 4
    DELIVERED = 5
    RECREATED = 6
    WORST_SAMPLE_US = 7
    CPU_US = 8  # of the actor's process
    BYTES = 9  # sum of acked values
    STABLE = 10  # of a group: 1 while its state is Stable
    MEMBERS = 11
    ASSIGNED = 12
    SAMPLED_US = 13  # when the group last was
    OWN_US = 14  # sum over acked records: how long they waited for their generator alone
    TOOK_US = 15  # the same: from the intended time to the answer
    LATE = 16  # acked records, due after the warm-up, that took more than the load's late_ms
    COPIED = 17  # offsets by which a mirror's target has grown


class ActorState(IntEnum):
    """Where an actor is."""

    STARTING = 0
    READY = 1
    DONE = 2


#: Numbers of a row.
WIDTH: Final = max(len(Head), len(Cell))


class Board:
    """The shared counters; ``head`` is the parent's row, ``cells(actor)`` an actor's."""

    def __init__(self, run_dir: Path, actors: Sequence[str], create: bool = False) -> None:
        path = run_dir / FILE
        size = (len(actors) + 1) * WIDTH * 8
        if create:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), size)
        rows = np.frombuffer(memory, np.int64).reshape(-1, WIDTH)
        self.head: npt.NDArray[np.int64] = rows[0]
        self._rows = {actor: rows[number + 1] for number, actor in enumerate(actors)}

    def cells(self, actor: str) -> npt.NDArray[np.int64]:
        """Return an actor's row, indexed by :class:`Cell`."""
        row: npt.NDArray[np.int64] = self._rows[actor]
        return row

    def total(self, cell: Cell) -> int:
        """Return the sum of a cell over all actors."""
        return sum(int(row[cell]) for row in self._rows.values())

    def all_at_least(self, actors: Sequence[str], state: ActorState) -> bool:
        """Tell whether all these actors have come that far."""
        return all(self._rows[actor][Cell.STATE] >= state for actor in actors)
