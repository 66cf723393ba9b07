"""Brokers on loopback that may be killed and started again: one alone, or several that replicate.

Each node is broker and controller in one process with a log folder of its own, so that a killed one comes
back with what it had. Ports and node ids stay the same over a node's lives.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from lab.services.brokers import CLUSTER_ID, await_answer, broker_properties
from lab.services.serving import free_ports


@dataclass
class BrokerNode:
    """A node: where clients reach it, and its process, which may be killed and started again."""

    number: int
    bootstrap_servers: str
    jars: Path
    folder: Path
    heap_mb: int = 384
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        """The id of its process; raises RuntimeError before the first start."""
        if self.process is None:
            raise RuntimeError(f"node {self.number} was not started")
        return self.process.pid

    @property
    def log(self) -> Path:
        """What it and its forerunners printed."""
        return self.folder / "broker.log"

    def format(self, *more: str) -> None:
        """Format its log folder; a failure shows when it starts, and the log has the reason."""
        self._run("kafka.tools.StorageTool", "format", *more, "-t", CLUSTER_ID, "-c").wait()

    def start(self, wait: bool = True) -> None:
        """Start it; with ``wait``, until it answers. Raises RuntimeError with the log's tail."""
        self.process = self._run("kafka.Kafka")
        if wait:
            self.await_answer()

    def await_answer(self) -> None:
        """Wait until it answers; raises RuntimeError with the log's tail."""
        assert self.process is not None
        await_answer(self.process, self.bootstrap_servers, self.log)

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def create_topic(
        self, name: str, partitions: int = 1, copies: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until the broker confirms it; raises KafkaException when it exists."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = NewTopic(name, partitions, copies, config=dict(config or {}))
        admin.create_topics([topic], operation_timeout=20)[name].result(timeout=30)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        java = ["java", f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC", "-cp", f"{self.jars}/*"]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*java, *command, str(self.folder / "server.properties")],
                stdout=output, stderr=subprocess.STDOUT, cwd=self.folder,
            )  # fmt: skip


@contextmanager
def running_nodes(
    jars: Path,
    folder: Path,
    count: int = 1,
    heap_mb: int = 384,
    config: Mapping[str, str] | None = None,
    far: tuple[int, int] | None = None,
) -> Iterator[Sequence[BrokerNode]]:
    """Run a cluster of that many nodes until the block ends, however often one was killed in between.

    ``config`` adds to or overrides each node's properties; ``far`` is the other listener of a node alone, as
    of :func:`lab.services.brokers.running_broker`. Raises RuntimeError when one does not come up.
    """
    ports = free_ports(2 * count)
    own, controllers = ports[:count], ports[count:]
    voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(controllers, 1))
    # A quorum of several is known beforehand; a single node makes one of itself when it is formatted.
    several = {"controller.quorum.voters": voters} if count > 1 else {}
    nodes = []
    try:
        for number, (port, controller) in enumerate(zip(own, controllers, strict=True), 1):
            node = BrokerNode(number, f"127.0.0.1:{port}", jars, folder / f"node-{number}", heap_mb)
            node.folder.mkdir(parents=True)
            values = broker_properties(
                node.folder, port, controller, {"node.id": str(number), **several, **(config or {})}, far
            )
            if several:
                del values["controller.quorum.bootstrap.servers"]
            lines = "".join(f"{key}={value}\n" for key, value in values.items())
            (node.folder / "server.properties").write_text(lines)
            node.format(*(() if several else ("--standalone",)))
            nodes.append(node)
        for node in nodes:
            node.start(wait=False)
        for node in nodes:
            node.await_answer()
        yield nodes
    finally:
        for node in nodes:
            if node.process is not None:  # in order, the last one would wait for a controller that has left
                node.kill()
