"""The watcher as a process of a load: one thread a group."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from verify.evidence import EvidenceWriter
from verify.load.board import Board, Cell, Head, State
from verify.load.config import WATCH, Load
from verify.load.process import Ending, cpu_us
from verify.watch.sampler import GroupWatcher


def run(load: Load, board: Board, evidence: Path, ending: Ending) -> None:
    """Watch the load's groups until the board says end; raises what ended a group's thread."""
    cells = board.cells(WATCH)
    admin = AdminClient({**load.client_config(), "client.id": WATCH})

    def worst(interval_us: int) -> None:
        if board.head[Head.GO] and not board.head[Head.STOP]:
            cells[Cell.WORST_SAMPLE_US] = max(int(cells[Cell.WORST_SAMPLE_US]), interval_us)

    watchers = []
    for group, (via, _, _) in load.groups().items():
        states = EvidenceWriter(evidence, "group_states", f"{WATCH}-{via}")
        owned: Any = EvidenceWriter(evidence, "assignments", f"{WATCH}-{via}") if via == "rest" else None
        watchers.append(GroupWatcher(admin, group, load.sampling_ms / 1000, states, owned, worst))
    for watcher in watchers:
        watcher.start()
    cells[Cell.STATE] = State.READY
    while not board.head[Head.END] and not ending and not any(w.failure for w in watchers):
        cells[Cell.CPU_US] = cpu_us()
        time.sleep(0.1)
    for watcher in watchers:
        watcher.stop()
    cells[Cell.STATE] = State.DONE
