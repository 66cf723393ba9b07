"""One repetition of one case: fresh target topic, fresh group, real MirrorMaker processes, samples."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lab.bench.mirror.batches import Batches, batches_of
from lab.bench.mirror.cases import FLOW, Case
from lab.bench.mirror.steady import WINDOW_S, window
from lab.fleet.toxiproxy import Toxiproxy
from lab.services.brokers import Broker, log_tail
from lab.services.mirrors import start_classic, start_mm2

_SAMPLE_S: Final = 0.25
_GONE_S: Final = 30.0
_NOT_THERE_YET: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,
)


@dataclass(frozen=True)
class Bench:
    """Where a repetition runs.

    Attributes:
        source, target: brokers; the target's far listener has ``far_port``, and is reached by ``link_port``.
        requests: the log of the target's requests, a line each.
        plain_bytes: keys and values of all ``records`` in the source's ``topic``.
        limit_s: within which a repetition has to have come to its end.
    """

    source: Broker
    target: Broker
    link: Toxiproxy
    link_port: int
    far_port: int
    requests: Path
    folder: Path
    topic: str
    partitions: int
    records: int
    plain_bytes: int
    limit_s: float


def held(admin: AdminClient, topic: str, partitions: int) -> int | None:
    """Return how many records a topic holds; None where it has just been made and has no leaders yet."""
    asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)}
    try:
        answers = admin.list_offsets(asked)
        return sum(int(answer.result(10).offset) for answer in answers.values())
    except KafkaException as error:
        if error.args[0].code() in _NOT_THERE_YET:
            return None
        raise


def renew(admin: AdminClient, broker: Broker, topic: str, partitions: int) -> None:
    """Make the topic empty: delete it and create it once it is gone.

    Raises:
        TimeoutError: when it is not gone within 30 s.
    """
    if topic in admin.list_topics(timeout=10).topics:
        admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + _GONE_S
    made = False
    while not made or held(admin, topic, partitions) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"topic {topic} could not be made anew within {_GONE_S:.0f} s")
        try:
            if not made:
                broker.create_topic(topic, partitions)
                made = True
        except KafkaException:
            time.sleep(0.1)


def received_bytes(port: int) -> int:
    """Return how many bytes the open connections to a local port have received, as the kernel counts."""
    command = ["ss", "-Htin", "state", "established", f"( sport = :{port} )"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(count) for count in re.findall(r"bytes_received:(\d+)", found))


class RequestLog:
    """Counts the produce requests in a broker's request log, reading on from where it was."""

    def __init__(self, log: Path) -> None:
        self._file = log.open("rb")
        self._file.seek(0, 2)
        self.count = 0

    def read(self) -> int:
        """Return how many came since this was made."""
        # A name that a chunk cuts in two is not counted: one in many thousands.
        self.count += self._file.read().count(b'"requestApiKeyName":"PRODUCE"')
        return self.count


def properties(bench: Bench, case: Case, number: int, group: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return consumer's and producer's properties of one process of a case."""
    consumer = {
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        **case.consumer,
        "bootstrap.servers": bench.source.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    if "group.instance.id" in consumer:
        consumer["group.instance.id"] = f"{group}-{number}"
    producer = {
        **case.producer,
        "bootstrap.servers": f"127.0.0.1:{bench.link_port}",
        "client.id": f"{group}-{number}",
    }
    return consumer, producer


def start(bench: Bench, case: Case, number: int, group: str) -> subprocess.Popen[bytes]:
    """Start one process of a case: classic, or a worker that knows nothing of those before it."""
    folder = bench.folder / f"{group}-{number}"
    if not case.worker:
        consumer, producer = properties(bench, case, number, group)
        return start_classic(folder, bench.topic, consumer, producer, case.heap_mib)
    # Named after the flow, its group and topics would tell it how far the one before it came.
    own = {k: v if v == bench.topic else v.replace(FLOW, group) for k, v in case.worker.items()} | {
        "leaf.bootstrap.servers": bench.source.bootstrap_servers,
        "agg.bootstrap.servers": f"127.0.0.1:{bench.link_port}",
        "listeners": "http://127.0.0.1:0",
    }
    return start_mm2(folder, own, "agg", case.heap_mib)


@contextmanager
def on_cores(count: int | None) -> Iterator[None]:
    """Let what is started in the block run on so many of this machine's cores; on all of them for None."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_cores)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def repetition(bench: Bench, case: Case) -> dict[str, Any]:
    """Mirror for some seconds once all processes have joined; return the figures of the steady state.

    Raises:
        RuntimeError: when a process ends before its time.
        ValueError: when no steady state was seen within the bench's limit.
    """
    group = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bench.target.bootstrap_servers})
    near = AdminClient({"bootstrap.servers": bench.source.bootstrap_servers})
    partitions = case.partitions or bench.partitions
    renew(admin, bench.target, bench.topic, partitions)
    counted = RequestLog(bench.requests)
    samples: list[Mapping[str, float]] = []
    with ExitStack() as stack:
        processes = []
        for number in range(case.processes):
            with on_cores(case.cores):
                process = start(bench, case, number, group)
            # What it still holds goes to a topic that is thrown away: no time is spent on flushing it.
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append((bench.folder / f"{group}-{number}", process))
        deadline = time.monotonic() + bench.limit_s
        settle_records = case.settle_bytes * bench.records / bench.plain_bytes
        joined = settled = 0.0
        begun, before = 0, Batches(0, 0, 0)
        while time.monotonic() < deadline:
            for folder, process in processes:
                if process.poll() is not None:
                    tail = log_tail(folder / "log")
                    raise RuntimeError(f"{folder.name} ended with status {process.returncode}:\n{tail}")
            records = held(admin, bench.topic, partitions) or 0
            now = time.monotonic()
            if not joined and records and (case.worker or all_joined(near, group, case.processes)):
                joined, begun = now, records
            if joined and not settled and now >= joined + case.settle_s and records >= begun + settle_records:
                settled, before = now, batches_of(bench.target.data, bench.topic)
            if settled:
                samples.append(
                    {
                        "at_s": now,
                        "records": records,
                        "out_bytes": received_bytes(bench.far_port),
                        "produce_requests": counted.read(),
                    }
                )
            if records >= bench.records or (settled and now >= settled + WINDOW_S):
                break
            time.sleep(_SAMPLE_S)
        found = batches_of(bench.target.data, bench.topic).since(before)
    return {
        "processes": case.processes,
        "settled_s": round(settled - joined, 1),
        **window(samples, bench.records),
        **found.figures(bench.plain_bytes / bench.records),
    }


def all_joined(admin: AdminClient, group: str, processes: int) -> bool:
    """Return whether as many processes share the topic's partitions, and no more are on their way."""
    found = admin.describe_consumer_groups([group])[group].result(10)
    return found.state == ConsumerGroupState.STABLE and len(found.members) == processes
