"""A standalone Spark cluster on loopback: a master and two workers of one core each."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from lab.services.brokers import end_process, log_tail
from tests.awaiting import await_that

WORKERS: Final = (1, 2)
SPARK: Final = Path(pyspark.__file__).parent


class Daemon:
    """A master or worker of Spark's own cluster manager, whose log says where it is."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.log = folder / f"{name}.log"
        kind = name.rstrip("0123456789")
        main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / name),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(SPARK / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log, env=environment)

    def says(self, pattern: str) -> re.Match[str]:
        """Wait for a line of its log."""

        def found() -> re.Match[str] | None:
            said = re.search(pattern, self.log.read_text(errors="replace"))
            assert said or self.process.poll() is None, f"it ended:\n{log_tail(self.log)}"
            return said

        said = await_that(found, f"{self.log.stem} says {pattern}")
        assert said is not None
        return said

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        end_process(self.process)


@contextmanager
def cluster(folder: Path, memory: str = "1g") -> Iterator[str]:
    """Run the cluster; yield the master's address. ``memory`` is a worker's, as Java writes it."""
    with ExitStack() as stack:
        leader = stack.enter_context(Daemon(folder, "master", "--port", "0"))
        address = leader.says(r"Starting Spark master at (spark://\S+)")[1]
        for number in WORKERS:
            worker = Daemon(folder, f"worker{number}", "--cores", "1", "--memory", memory, address)
            stack.enter_context(worker).says("Successfully registered with master")
        yield address
