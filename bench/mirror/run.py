"""One repetition of one case: fresh target topic, fresh group, real MirrorMaker processes, samples."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.mirror.batches import batches_of
from bench.mirror.cases import Case
from bench.mirror.link import Link
from bench.mirror.steady import window
from local.brokers import Broker, end_process, log_tail

_SAMPLE_S: Final = 0.2
_GONE_S: Final = 30.0
_NO_LEADER_YET: Final = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True)
class Bench:
    """Where a repetition runs: both clusters, the link to the target, MirrorMaker's jars, a folder."""

    source: Broker
    target: Broker
    link: Link
    jars: Path
    folder: Path
    topic: str
    partitions: int
    records: int
    plain_bytes: int
    limit_s: float


def held(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """Return how many records a topic holds; a topic that has just been made may have no leader yet: 0."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)}
    try:
        return sum(future.result(10).offset for future in admin.list_offsets(asked).values())
    except KafkaException as error:
        if error.args[0].code() in _NO_LEADER_YET:
            return 0
        raise


def renew(broker: Broker, topic: str, partitions: int) -> None:
    """Make the topic empty: delete it and create it once it is gone.

    Raises:
        TimeoutError: when it is not gone within 30 s.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    if topic in admin.list_topics(timeout=10).topics:
        admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + _GONE_S
    while True:
        try:
            broker.create_topic(topic, partitions)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic} could not be made anew within {_GONE_S:.0f} s") from None
            time.sleep(0.1)


@contextmanager
def mirror_process(bench: Bench, case: Case, number: int, group: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one classic MirrorMaker until the block ends."""
    folder = bench.folder / f"{group}-{number}"
    folder.mkdir()
    consumer = {
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        **case.consumer,
        "bootstrap.servers": bench.source.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    producer = {
        **case.producer,
        "bootstrap.servers": f"127.0.0.1:{bench.link.port}",
        "client.id": f"{group}-{number}",
    }
    command = ["java", f"-Xmx{case.heap_mib}m", "-cp", f"{bench.jars}/*", "kafka.tools.MirrorMaker"]
    for name, properties in (("consumer", consumer), ("producer", producer)):
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command += [f"--{name}.config", str(file)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--include", bench.topic],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LOG_DIR": str(folder)},
        )
    try:
        yield process
    finally:
        end_process(process)


def repetition(bench: Bench, case: Case) -> dict[str, Any]:
    """Mirror all records once; return the figures of the steady state.

    Raises:
        RuntimeError: when a process ends before its time.
        ValueError: when no steady state was seen within the bench's limit.
    """
    group = f"bench-{uuid.uuid4().hex[:8]}"
    renew(bench.target, bench.topic, bench.partitions)
    samples: list[Mapping[str, float]] = []
    with ExitStack() as stack:
        processes = [
            stack.enter_context(mirror_process(bench, case, number, group))
            for number in range(case.processes)
        ]
        deadline = time.monotonic() + bench.limit_s
        while time.monotonic() < deadline:
            for number, process in enumerate(processes):
                if process.poll() is not None:
                    tail = log_tail(bench.folder / f"{group}-{number}" / "log")
                    raise RuntimeError(f"process {number} ended with status {process.returncode}:\n{tail}")
            records = held(bench.target.bootstrap_servers, bench.topic, bench.partitions)
            counted = bench.link.counted()
            samples.append(
                {
                    "at_s": time.monotonic(),
                    "records": records,
                    "out_bytes": counted.out_bytes,
                    "produce_requests": counted.produce_requests,
                }
            )
            if records >= bench.records:
                break
            time.sleep(_SAMPLE_S)
    found = batches_of(bench.target.data, bench.topic)
    return {
        "processes": case.processes,
        **window(samples, bench.records),
        **found.figures(bench.plain_bytes / bench.records),
    }
