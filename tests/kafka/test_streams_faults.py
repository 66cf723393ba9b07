"""What becomes of the sample application's state and outputs when its process or its disk fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kedge.plan.plan import PlannedInstance
from kedge.services.planning import make_plan
from lab.services.application import SAMPLE_JAR, ApplicationInstance, StartedApplication, running_application
from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.planned import instances, streams

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not SAMPLE_JAR.is_file(), reason="the sample is not built: make setup"),
]
PARTITIONS = 2
JOIN = {"name": "joins", "kind": "join", "partitions": PARTITIONS, "window_ms": 600_000}


class Fed:
    """An application of one join with topics of its own."""

    def __init__(self, broker: CrashableBroker, folder: Path) -> None:
        name = f"f-{uuid.uuid4().hex[:8]}"
        self._broker, self._folder = broker, folder
        self._left, self._right, self.output = f"{name}-left", f"{name}-right", f"{name}-out"
        for topic in (self._left, self._right, self.output):
            broker.create_topic(topic, PARTITIONS)
        self._properties: dict[str, str | None] = {
            "application.id": name,
            "replication.factor": "1",
            "main.consumer.auto.offset.reset": "earliest",
            "commit.interval.ms": "200",
        }

    def send(self, side: str, count: int, size: int = 200) -> None:
        """Write records 0 to ``count`` to one side; a record's partner on the other side is equal."""
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers})
        for number in range(count):
            value = b"%036d" % number + b"x" * (size - 36)
            producer.produce(self._left if side == "left" else self._right, value, b"%d" % number)
            producer.poll(0)
        assert producer.flush(60) == 0

    def run(
        self, wrapper: tuple[str, ...] = (), **properties: str
    ) -> AbstractContextManager[StartedApplication]:
        instance = planned()
        environment = {
            "SAMPLE_LEFT": self._left,
            "SAMPLE_RIGHT": self._right,
            "SAMPLE_OUTPUT": self.output,
            "SAMPLE_JOINS": "1",
            "SAMPLE_WINDOW_MS": "600000",
            "SAMPLE_GRACE_MS": "60000",
        }
        app = ApplicationInstance(instance, self._properties | properties, environment, wrapper=wrapper)
        return running_application(app, self._broker.bootstrap_servers, self._folder)

    def outputs(self, until: int, seconds: float = 60, settled: bool = True) -> Counter[int]:
        """Return how often each record came out, committed, once so many did (and nothing more comes)."""
        found: Counter[int] = Counter()
        deadline = time.monotonic() + seconds
        servers = {"bootstrap.servers": self._broker.bootstrap_servers}
        consumer = Consumer({**servers, "group.id": "x", "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(self.output, n, 0) for n in range(PARTITIONS)])
        try:
            while time.monotonic() < deadline:
                got = consumer.consume(500, 1.0)
                found.update(int((m.value() or b"")[:36]) for m in got if not m.error())
                if len(found) >= until and not (settled and got):
                    break
        finally:
            consumer.close()
        return found


def planned() -> PlannedInstance:
    small = {"write.buffer.bytes": 1 << 20}
    inventory = streams(
        stores=[JOIN], rocksdb=small, rocksdb_mib=64, heap_mib=256, threads=1, memory_mib=4096
    )
    (instance,) = instances(make_plan(inventory), "streams_app")["st1"]
    return instance


@pytest.fixture
def fed(broker: CrashableBroker, tmp_path: Path) -> Iterator[Fed]:
    yield Fed(broker, tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.long
def test_a_process_killed_in_the_middle_of_a_restore_restores_all_when_it_starts_again(
    fed: Fed, tmp_path: Path
) -> None:
    count = 2000
    with fed.run() as running:
        running.wait_running()
        fed.send("left", count)
        # Nothing comes out of one side alone: that it was read is seen by what waits to be restored.
        fed.send("right", 1)
        assert fed.outputs(1) == {0: 1}
        running.kill()
    shutil.rmtree(tmp_path / "state")
    # A record a fetch: slow enough to be killed in the middle.
    slow = {"restore.consumer.max.partition.fetch.bytes": "300", "restore.consumer.max.poll.records": "1"}
    with fed.run(**slow) as running:
        told = running.wait_until(lambda told: 0 < told.get("restoring_records", 0) < count, 60, "restore")
        assert told["state"] == "REBALANCING"
        running.kill()
    with fed.run() as running:
        running.wait_running()
        fed.send("right", count)
        assert set(fed.outputs(count)) == set(range(count))


@pytest.mark.long
def test_a_full_disk_ends_the_application_and_space_lets_it_go_on_without_a_loss(
    fed: Fed, tmp_path: Path
) -> None:
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    count = 6000
    state = tmp_path / "state"
    small = f'mount -t tmpfs -o size=16m small {state} && exec "$@"'
    fed.send("left", count, 6000)
    with fed.run(("unshare", "--mount", "sh", "-c", small, "small")) as running:
        await_that(lambda: running.ended() is not None, "it ends")
        assert running.ended() == 1
        assert "No space left on device" in running.log.read_text(errors="replace")
    with fed.run() as running:
        running.wait_running()
        fed.send("right", count, 6000)
        assert set(fed.outputs(count, 120)) == set(range(count))


def test_exactly_once_holds_over_a_kill_while_outputs_are_written(fed: Fed) -> None:
    count = 3000
    once = {"processing.guarantee": "exactly_once_v2"}
    fed.send("left", count)
    with fed.run(**once) as running:
        running.wait_running()
        fed.send("right", count)
        assert 1 <= len(fed.outputs(1, settled=False)) < count
        running.kill()
    with fed.run(**once) as running:
        running.wait_running()
        assert fed.outputs(count) == dict.fromkeys(range(count), 1)
