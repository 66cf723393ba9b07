"""A single KRaft broker on loopback for tests and benches that need the real thing.

``running_broker`` formats a fresh log folder, starts ``kafka.Kafka`` from a folder of jars on free loopback
ports, waits until it answers, and ends it by its own pid. The jars are those of the kit's cache
(``~/.cache/kedge/jars/kafka-<version>``, or the folder that ``KEDGE_KAFKA_JARS`` names).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from lab.services.serving import free_ports

KAFKA_VERSION: Final = "4.3.1"
CLUSTER_ID: Final = "a2VkZ2UtdGVzdHMtMDAwMQ"
_START_S: Final = 60.0
_STOP_S: Final = 20.0
_REQUEST_LOG: Final = """rootLogger.level=WARN
rootLogger.appenderRef.out.ref=OUT
appender.out.type=Console
appender.out.name=OUT
appender.req.type=File
appender.req.name=REQ
appender.req.fileName={file}
appender.req.layout.type=PatternLayout
appender.req.layout.pattern=%m%n
logger.req.name=kafka.request.logger
logger.req.level=DEBUG
logger.req.additivity=false
logger.req.appenderRef.req.ref=REQ
"""


@dataclass(frozen=True)
class Broker:
    """A running broker: where clients reach it, its process id, its log, and where its data lies."""

    bootstrap_servers: str
    pid: int
    log: Path
    data: Path

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until the broker confirms it; raises KafkaException when it exists."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([topic], operation_timeout=20)[name].result(timeout=30)


def kafka_jars() -> Path | None:
    """Return the folder of Kafka's jars, or None when it is not there or holds no broker."""
    default = Path.home() / ".cache" / "kedge" / "jars" / f"kafka-{KAFKA_VERSION}"
    folder = Path(os.environ.get("KEDGE_KAFKA_JARS", default))
    return folder if any(folder.glob("kafka_2.13-*.jar")) else None


def log_tail(log: Path, lines: int = 25) -> str:
    """Return the last lines of a log for an error message."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def end_process(process: subprocess.Popen[bytes], stop_s: float = _STOP_S) -> int:
    """End a child with SIGTERM, with SIGKILL after ``stop_s`` seconds, and return its exit status."""
    process.terminate()
    try:
        return process.wait(stop_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def running_broker(
    jars: Path,
    heap_mb: int = 384,
    config: Mapping[str, str] | None = None,
    far: tuple[int, int] | None = None,
    requests: Path | None = None,
    options: Iterable[str] = (),
) -> Iterator[Broker]:
    """Run one broker and controller in one process until the block ends.

    ``config`` adds to or overrides its properties. ``far`` (a port to listen on, the port to advertise there)
    is a second listener, for clients that reach it through something else. ``requests`` is a file that gets a
    line of JSON for each request; ``options`` are more flags of its JVM. Raises RuntimeError with the log's
    tail when it does not come up within a minute.
    """
    folder = Path(tempfile.mkdtemp(prefix="kedge-broker-"))
    log = folder / "broker.log"
    port, controller_port = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(
        "".join(
            f"{k}={v}\n"
            for k, v in (broker_properties(folder, port, controller_port, config or {}, far)).items()
        )
    )
    java = ["java", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", *options]
    if requests is not None:
        logging = folder / "log4j2.properties"
        logging.write_text(_REQUEST_LOG.format(file=requests), encoding="utf-8")
        java.append(f"-Dlog4j2.configurationFile={logging}")
    java += ["-cp", f"{jars}/*"]
    try:
        with log.open("wb") as output:
            format_folder = [
                *java,
                "kafka.tools.StorageTool",
                "format",
                "--standalone",
                "-t",
                CLUSTER_ID,
                "-c",
            ]
            # A failed format needs no check here: the broker refuses the folder and the log has both reasons.
            subprocess.run([*format_folder, str(properties)], check=False, stdout=output, stderr=output)
            process = subprocess.Popen(
                [*java, "kafka.Kafka", str(properties)], stdout=output, stderr=subprocess.STDOUT, cwd=folder
            )
        try:
            await_answer(process, f"127.0.0.1:{port}", log)
            yield Broker(f"127.0.0.1:{port}", process.pid, log, folder / "data")
        finally:
            end_process(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def broker_properties(
    folder: Path,
    port: int,
    controller_port: int,
    config: Mapping[str, str],
    far: tuple[int, int] | None = None,
) -> dict[str, str]:
    """Return the properties of a broker and controller in one; ``far`` as of :func:`running_broker`."""
    near = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    listens, advertises = (f",FAR://127.0.0.1:{p}" for p in far) if far else ("", "")
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": near + listens,
        "advertised.listeners": near + advertises,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A group of tests has nobody to wait for.
        "group.initial.rebalance.delay.ms": "0",
        **config,
    }


def await_answer(process: subprocess.Popen[bytes], bootstrap_servers: str, log: Path) -> None:
    """Wait until a broker answers; raises RuntimeError with the log's tail when it ends or takes a minute."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the broker ended with status {process.returncode}:\n{log_tail(log)}")
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            continue
    raise RuntimeError(f"the broker did not answer within {_START_S:.0f} s:\n{log_tail(log)}")
