"""The watcher as a process of a load: one thread a group.

librdkafka aborts its process when a connection breaks while a group is being described (its issue 4605, so
still in 2.16.0). Hence only this process describes groups; it tells the parent through the board, and can be
started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient

from kedge.evidence.load_options import LoadSpec
from kedge.evidence.writing import EvidenceWriter
from verify.load.actors import WATCH, group_actor, mirror_actor, workers
from verify.load.board import ActorState, Board, Cell, Head
from verify.load.cluster import partitions
from verify.process import Ending, cpu_us
from verify.watch.end_offsets import EndWatcher
from verify.watch.groups import GroupWatcher
from verify.watch.ownership import GroupSample, Owners, OwnershipChange, Partition, owners_from

#: No more than this is lost when librdkafka aborts.
_ROTATE_S: Final = 1.0


def run(load: LoadSpec, board: Board, evidence: Path, ending: Ending) -> None:
    """Watch the load's groups and mirrors until the board says end; raises what ended a watcher's thread."""
    cells = board.cells(WATCH)
    admin = AdminClient({**load.client_config(), "client.id": WATCH})
    watchers: list[GroupWatcher | EndWatcher] = _end_watchers(load, board, evidence)
    for group, (via, _, _) in load.groups().items():
        name = f"{WATCH}-{via}"
        states = EvidenceWriter(evidence, "group_states", name, _ROTATE_S)
        by_rest = via == "rest"
        owned = EvidenceWriter(evidence, "assignments", name, _ROTATE_S) if by_rest else None
        owners = _owners_so_far(evidence, name) if by_rest else {}
        tell = _teller(board, group_actor(via))
        watchers.append(GroupWatcher(admin, group, load.sampling_ms / 1000, states, owned, tell, owners))
    # Flows and applications have consumers of their own, whose callbacks nobody sees either.
    for group in load.groups_of_others():
        states = EvidenceWriter(evidence, "group_states", f"{WATCH}-{group}", _ROTATE_S)
        owned = EvidenceWriter(evidence, "assignments", f"{WATCH}-{group}", _ROTATE_S)
        owners = _owners_so_far(evidence, f"{WATCH}-{group}")
        watchers.append(GroupWatcher(admin, group, load.sampling_ms / 1000, states, owned, _nobody, owners))
    rows = [board.cells(actor) for actor in workers(load)[WATCH]]
    for watcher in watchers:
        watcher.start()
    for row in rows:
        row[Cell.STATE] = ActorState.READY
    while not board.head[Head.END] and not ending and not any(w.failure for w in watchers):
        cells[Cell.CPU_US] = cpu_us()
        time.sleep(0.1)
    for watcher in watchers:
        watcher.stop()
    for row in rows:
        row[Cell.STATE] = ActorState.DONE


def _end_watchers(load: LoadSpec, board: Board, evidence: Path) -> list[GroupWatcher | EndWatcher]:
    """Return a watcher for each cluster that a mirror's source or target is on."""
    topics: dict[str, set[str]] = {}
    for place in (end for mirror in load.mirrors for end in (mirror.source, mirror.target)):
        topics.setdefault(place.cluster, set()).add(place.topic)
    found: list[GroupWatcher | EndWatcher] = []
    for name, wanted in sorted(topics.items()):
        admin = AdminClient({**load.client_config(name), "client.id": WATCH})
        counts = {topic: partitions(admin, topic) for topic in sorted(wanted)}
        ends = EvidenceWriter(evidence, "end_offsets", f"{WATCH}-{name}", _ROTATE_S)
        report = copied_reporter(load, board, name)
        found.append(EndWatcher(admin, name, counts, load.sampling_ms / 1000, ends, report))
    return found


def copied_reporter(load: LoadSpec, board: Board, cluster: str) -> Callable[[Mapping[Partition, int]], None]:
    """Return what reports to the board by how many offsets the targets on a cluster have grown."""
    rows = {
        mirror.target.topic: board.cells(mirror_actor(place))
        for place, mirror in enumerate(load.mirrors)
        if mirror.target.cluster == cluster
    }
    before: dict[Partition, int] = {}

    def report(ends: Mapping[Partition, int]) -> None:
        for (topic, partition), end in ends.items():
            if topic in rows:
                last = before.get((topic, partition), end)
                # A topic that was made anew begins at 0.
                rows[topic][Cell.COPIED] += end - last if end >= last else end
                before[topic, partition] = end

    return report


def _nobody(_: GroupSample, __: int) -> None:
    """Tell nobody: the load does not wait for the group of another, only the audit looks at it."""


def _teller(board: Board, actor: str) -> Callable[[GroupSample, int], None]:
    cells = board.cells(actor)

    def tell(sample: GroupSample, at_us: int) -> None:
        cells[Cell.STABLE] = sample.state == "Stable"
        cells[Cell.MEMBERS] = len(sample.members)
        cells[Cell.ASSIGNED] = sum(len(owned) for owned in sample.members.values())
        if cells[Cell.SAMPLED_US] and board.head[Head.GO] and not board.head[Head.STOP]:
            interval_us = at_us - int(cells[Cell.SAMPLED_US])
            cells[Cell.WORST_SAMPLE_US] = max(int(cells[Cell.WORST_SAMPLE_US]), interval_us)
        cells[Cell.SAMPLED_US] = at_us

    return tell


def _owners_so_far(evidence: Path, name: str) -> Owners:
    """Return who owned what when an earlier watcher of the run last wrote."""
    rows = [
        row
        for path in (evidence / "assignments").glob(f"{name}-*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    # Revocations of a sample come before its assignments, as they were written.
    rows.sort(key=lambda row: (row["at_us"], row["event"] == "assigned"))
    return owners_from(
        OwnershipChange(row["consumer"], row["topic"], row["partition"], row["event"]) for row in rows
    )
