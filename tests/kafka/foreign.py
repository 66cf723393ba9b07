"""Clients that are none of kedge's: a producer, and consumers of their own processes that write down what came."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Producer

#: Prints a line a delivery: partition and microseconds.
_CONSUMER = """
import json, sys, time
from confluent_kafka import Consumer
config, topic = json.loads(sys.argv[1]), sys.argv[2]
consumer = Consumer(config)
consumer.subscribe([topic])
while True:
    for message in consumer.consume(100, 0.05):
        if message.error() is None:
            print(message.partition(), time.time_ns() // 1000, flush=True)
"""


@dataclass
class Member:
    """A consumer's process and the file that has what it got."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> int:
        """End it at once; return when, in microseconds."""
        os.kill(self.process.pid, signal.SIGKILL)
        at_us = time.time_ns() // 1000
        self.process.wait()
        return at_us

    def deliveries(self) -> list[tuple[int, int]]:
        """Return partition and time of what it got."""
        lines = (line.split() for line in self.log.read_text().splitlines())
        return [(int(words[0]), int(words[1])) for words in lines if len(words) == 2]

    def count(self) -> int:
        return len(self.deliveries())


@dataclass
class Foreign:
    """A group of others on a topic, which somebody fills at a steady rate."""

    group: str
    members: list[Member] = field(default_factory=list)

    def deliveries(self) -> int:
        return sum(member.count() for member in self.members)

    def gaps_us(self, from_us: int) -> dict[int, int]:
        """Return the longest time without a delivery of each partition after a moment, as the clients saw it."""
        times: dict[int, list[int]] = {}
        for member in self.members:
            for partition, at_us in member.deliveries():
                times.setdefault(partition, []).append(at_us)
        found = {}
        for partition, at in times.items():
            at.sort()
            found[partition] = max((b - a for a, b in pairwise(at) if b > from_us), default=0)
        return found


@contextmanager
def filled(bootstrap_servers: str, topic: str, per_s: int, partitions: int) -> Iterator[None]:
    """Have a producer write so many records a second, to one partition after the other, until the block ends."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    end = threading.Event()

    def fill() -> None:
        number, began = 0, time.monotonic()
        while not end.wait(0.02):
            while number < (time.monotonic() - began) * per_s:
                producer.produce(topic, b"x" * 100, partition=number % partitions)
                number += 1
            producer.poll(0)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        producer.flush(10)


@contextmanager
def members(folder: Path, topic: str, group: str, count: int, **config: object) -> Iterator[Foreign]:
    """Run consumers of a group, each a process, until the block ends."""
    found = Foreign(group)
    whole = {
        "group.id": group,
        "auto.offset.reset": "latest",
        **{k.replace("_", "."): v for k, v in config.items()},
    }
    try:
        for number in range(count):
            log = folder / f"{group}-{number}.log"
            with log.open("wb") as out:
                words = [sys.executable, "-c", _CONSUMER, json.dumps(whole), topic]
                found.members.append(Member(subprocess.Popen(words, stdout=out), log))
        yield found
    finally:
        for member in found.members:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()
