"""A broker that a test may kill and start again on the same ports and log folder."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from local.brokers import CLUSTER_ID, end_process, free_ports, log_tail

_START_S = 60.0


class CrashableBroker:
    """One KRaft broker; ``bootstrap_servers`` stays the same over its lives."""

    def __init__(self, jars: Path, folder: Path) -> None:
        port, controller_port = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
        self._log = folder / "broker.log"
        self._properties = folder / "server.properties"
        self._properties.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
            f"log.dirs={folder / 'data'}\nauto.create.topics.enable=false\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n"
            "share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c").wait()
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                [*self._java, *command, str(self._properties)], stdout=output, stderr=subprocess.STDOUT
            )

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = self._run("kafka.Kafka")
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue
        raise RuntimeError(f"the broker did not answer:\n{log_tail(self._log)}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None and self._process.poll() is None:
            end_process(self._process)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until the broker confirms it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=20)[name].result(timeout=30)


@contextmanager
def crashable_broker(jars: Path, folder: Path) -> Iterator[CrashableBroker]:
    """Run a broker until the block ends, however often it was killed in between."""
    broker = CrashableBroker(jars, folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
