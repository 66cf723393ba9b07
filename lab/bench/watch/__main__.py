"""What a watch of others' traffic costs: a broker, and the machine on which the watch runs.

    python -m lab.bench.watch [--groups 50] [--partitions 500] [--interval 1]     six minutes; prints JSON

A broker on this machine's loopback; each group has a topic, and a member that has committed and fetches
nothing: others cost the broker little then, so that the difference is seen. Times without and with the watch
take turns; processor time is the kernel's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from kedge.evidence.load_state import await_phase
from kedge.evidence.writing import write_json
from lab.bench.audit.kafka import cpu_s
from lab.bench.jars import broker_jars
from lab.services.broker_cluster import BrokerNode, running_nodes
from lab.services.brokers import KAFKA_VERSION
from verify.process import leave

_ROUNDS: Final = 3
#: Before what is measured, in which JVMs compile what is asked: no condition says when they have.
_SETTLE_S: Final = 10.0
_READY_S: Final = 90.0


def main(arguments: list[str] | None = None) -> int:
    """Measure in turns and print; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.watch", description=__doc__)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples")
    parser.add_argument("--seconds", type=float, default=45.0, help="of each turn (default: 45)")
    asked = parser.parse_args(arguments)
    topics = {f"theirs-{n}": asked.partitions // asked.groups for n in range(asked.groups)}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_nodes(broker_jars(), Path(folder) / "brokers", heap_mb=512) as (broker,),
    ):
        for topic, partitions in topics.items():
            broker.create_topic(topic, partitions)
        with others(broker, topics):
            found = turns(broker, [*topics], Path(folder), asked)
    print(json.dumps({"kafka": KAFKA_VERSION, "cores": os.cpu_count(), **vars(asked), **found}, indent=1))
    return 0


def turns(broker: BrokerNode, groups: list[str], folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Return shares of a core in percent, a median of the turns each: of the broker without and with it."""
    without, beside, own, written = [], [], [], []
    time.sleep(_SETTLE_S)
    for number in range(_ROUNDS):
        without.append(_share([broker.pid], asked.seconds)[0])
        run_dir = folder / f"run-{number}"
        with watch(run_dir, broker, groups, asked.interval) as pids:
            time.sleep(_SETTLE_S)
            with_it, *mine = _share([broker.pid, *pids()], asked.seconds)
        beside.append(with_it)
        own.append(sum(mine))
        written.append(sum(file.stat().st_size for file in (run_dir / "evidence").rglob("*.parquet")))
    return {
        "broker_percent": {"without": without, "with": beside},
        "broker_costs_percent": round(statistics.median(beside) - statistics.median(without), 2),
        "watch_percent": statistics.median(own),
        "evidence_bytes": statistics.median(written),
    }


@contextmanager
def watch(run_dir: Path, broker: BrokerNode, groups: list[str], interval_s: float) -> Iterator[Any]:
    """Run a watch of all that is there; gives a function that returns the ids of its processes."""
    (run_dir / "evidence").mkdir(parents=True)
    cluster = {"bootstrap_servers": broker.bootstrap_servers}
    options = {"interval_s": interval_s, "before_s": 3600, "most_groups": len(groups), "groups": groups}
    options["most_partitions"] = 10_000
    spec = {"run_id": "bench", "clusters": {"c": cluster}, "options": options}
    write_json(run_dir / "watch.json", spec)
    write_json(run_dir / "plan.json", {"hosts": {}})
    command = [sys.executable, "-m", "verify.watch", "--run-dir", str(run_dir), "--inventory", "none"]
    with (run_dir / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        await_phase(run_dir, "warming", _READY_S, lambda line: None, what="watch")
        yield lambda: _tree(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in _tree(int(child)))]


def _share(pids: list[int], seconds: float) -> list[float]:
    before, began = [cpu_s(pid) for pid in pids], time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    return [round(100 * (cpu_s(pid) - was) / passed, 2) for pid, was in zip(pids, before, strict=True)]


@contextmanager
def others(broker: BrokerNode, topics: dict[str, int]) -> Iterator[None]:
    """Have a group of one member own each topic, with commits, and fetch nothing until the block ends."""
    at = {"bootstrap.servers": broker.bootstrap_servers}
    end = threading.Event()
    consumers = []
    for topic in topics:
        consumer = Consumer({**at, "group.id": topic, "enable.auto.commit": False, "log_level": 0})
        consumer.subscribe([topic], on_assign=lambda member, mine: member.pause(mine))
        consumers.append(consumer)

    def live() -> None:
        while not end.wait(0.2):
            for consumer in consumers:
                consumer.poll(0)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        await_members(consumers, sum(topics.values()))
        for consumer in consumers:
            places = [TopicPartition(one.topic, one.partition, 0) for one in consumer.assignment()]
            consumer.commit(offsets=places, asynchronous=False)
        yield
    finally:
        end.set()
        thread.join()
        for consumer in consumers:
            consumer.close()


def await_members(consumers: list[Consumer], partitions: int) -> None:
    """Wait until members have all partitions; raises SystemExit after a minute and a half."""
    deadline = time.monotonic() + _READY_S
    while sum(len(consumer.assignment()) for consumer in consumers) < partitions:
        if time.monotonic() > deadline:
            raise SystemExit("groups did not get their partitions")
        time.sleep(0.2)


if __name__ == "__main__":
    leave(main())
