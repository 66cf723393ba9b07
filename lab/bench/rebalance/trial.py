"""One trial: groups that differ only in how they share partitions, while their members are restarted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from kedge.evidence.load_options import read_load
from kedge.evidence.writing import EvidenceWriter, rows_to_columns, write_json, write_table
from verify.load.cluster import committed, offsets
from verify.process import now_us
from verify.watch.groups import GroupWatcher
from verify.watch.ownership import GroupSample

#: librdkafka's keys of each group; everything else is left as it comes.
PROTOCOLS: Final[dict[str, dict[str, str]]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
_WAIT_S: Final = 120.0
_END_S: Final = 20.0


@dataclass(frozen=True)
class TrialSize:
    """What a trial is: its size, and how long it is left alone before and between restarts (seconds)."""

    partitions: int = 12
    members: int = 3
    restarts: int = 3
    records_per_s: float = 2000
    warm_up_s: float = 3
    pause_s: float = 10
    sampling_ms: int = 50


class TrialError(Exception):
    """A trial that could not be brought to its end; one line."""


def run(servers: str, topic: str, folder: Path, asked: TrialSize) -> None:
    """Leave a whole run with its evidence in ``folder``; the topic is there, and empty.

    Raises:
        TrialError: when the load ends early, or something does not come about within two minutes.
    """
    folder.mkdir(parents=True)
    _write_load(servers, topic, folder, asked)
    with ExitStack() as stack:
        groups = {name: stack.enter_context(_group(name, servers, folder, asked)) for name in PROTOCOLS}
        for group in groups.values():
            group.await_whole()
        load = stack.enter_context(_load(folder))
        _await(lambda: _running(load, folder), "the load is running", 0.1)
        time.sleep(asked.pause_s)
        for number in range(asked.restarts):
            for group in groups.values():
                group.restart(number % asked.members)
                time.sleep(asked.pause_s)
        (folder / "stop").touch()
        if load.wait(_WAIT_S):
            raise TrialError(f"the load failed: {_state(folder).get('message')}")
        ends = offsets(AdminClient({"bootstrap.servers": servers}), topic, asked.partitions)
        for name in groups:
            _await(partial(_read_to, folder, name, topic, ends), f"group {name} has read all", 0.5)
        for group in groups.values():
            group.end()
    name_groups(folder, topic, PROTOCOLS)


@dataclass
class _Group:
    """The members of a group, each a process, and what the broker said last of it."""

    name: str
    folder: Path
    asked: TrialSize
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    seen: GroupSample | None = None
    seen_us: int = 0

    def start(self, number: int) -> None:
        member = f"{self.name}-{number}"
        self.processes[member] = start_member(self.folder, self.name, member)

    def tell(self, sample: GroupSample, at_us: int) -> None:
        """Note what the watcher saw."""
        self.seen, self.seen_us = sample, at_us

    def await_whole(self, since_us: int = 0) -> None:
        """Wait until it is Stable, with all its members and partitions, at a moment after ``since_us``."""

        def whole() -> bool:
            seen = self.seen
            return (
                seen is not None
                and self.seen_us > since_us
                and seen.state == "Stable"
                and len(seen.members) == self.asked.members
                and sum(len(owned) for owned in seen.members.values()) == self.asked.partitions
            )

        _await(whole, f"group {self.name} is whole")

    def restart(self, number: int) -> None:
        """Stop a member in order, start it again, wait until the group is whole; note each as an action."""
        member = f"{self.name}-{number}"
        times = [now_us()]
        process = self.processes[member]
        process.terminate()
        process.wait(_END_S)
        times.append(now_us())
        self.start(number)
        times.append(now_us())
        self.await_whole(times[-1])
        times.append(now_us())
        rows = [
            {"host": "127.0.0.1", "service": "consumers", "instance": member, "action": action}
            | {"started_us": begin, "ended_us": end, "ok": True}
            for action, begin, end in zip(("stop", "start", "ready"), times, times[1:], strict=False)
        ]
        write_table(self.folder / "evidence", "actions", member, rows_to_columns("actions", rows))

    def end(self) -> None:
        """End its members in order, so that what they have is on disk."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(_END_S)


@contextmanager
def _group(name: str, servers: str, folder: Path, asked: TrialSize) -> Iterator[_Group]:
    write_json(folder / "members" / f"{name}.json", PROTOCOLS[name])
    group = _Group(name, folder, asked)
    states = EvidenceWriter(folder / "evidence", "group_states", f"watch-{name}")
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    watcher = GroupWatcher(admin, name, asked.sampling_ms / 1000, states, None, group.tell, {})
    watcher.start()
    try:
        for number in range(asked.members):
            group.start(number)
        yield group
    finally:
        watcher.stop()
        for process in group.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def _write_load(servers: str, topic: str, folder: Path, asked: TrialSize) -> None:
    (folder / "members").mkdir()
    write_json(
        folder / "load.json",
        {
            "run_id": folder.name,
            "cluster": "local",
            "bootstrap_servers": servers,
            "sampling_ms": asked.sampling_ms,
            "warm_up_s": asked.warm_up_s,
            "min_s": 0,
            "max_s": 600,
            "kafka": {"topic": topic, "records_per_s": asked.records_per_s, "consumers": 0},
        },
    )


@contextmanager
def _load(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "load.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "verify.load", "--run-dir", str(folder)], stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(_END_S)


def _state(folder: Path) -> dict[str, Any]:
    path = folder / "load.state"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _running(load: subprocess.Popen[bytes], folder: Path) -> bool:
    if load.poll() is not None:
        raise TrialError(f"the load failed: {_state(folder).get('message')}")
    return _state(folder).get("phase") == "running"


def _read_to(folder: Path, group: str, topic: str, ends: Mapping[int, int]) -> bool:
    found = committed(read_load(folder), group, topic, len(ends))
    return all(found.get(partition, 0) >= end for partition, end in ends.items())


def start_member(folder: Path, group: str, name: str) -> subprocess.Popen[bytes]:
    """Start a member of a group of which ``members/GROUP.json`` tells the client's keys; it ends with us."""
    with (folder / "members" / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lab.bench.rebalance.member", str(folder), group, name, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def name_groups(folder: Path, topic: str, groups: Mapping[str, Mapping[str, Any]]) -> None:
    """Tell the audit of a run's groups with their clients' keys: the load does not know them."""
    file = folder / "evidence" / "run.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["groups"] = {
        name: {
            "via": "kafka",
            "topics": [topic],
            "protocol": config.get("group.protocol", "classic"),
            "assignor": config.get("partition.assignment.strategy", ""),
            "commits": "auto" if config.get("enable.auto.commit") else "after processing",
        }
        for name, config in groups.items()
    }
    write_json(file, document)


def _await(condition: Callable[[], bool], what: str, every_s: float = 0.02) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() >= deadline:
            raise TrialError(f"waited {_WAIT_S:.0f} s in vain until {what}")
        time.sleep(every_s)
