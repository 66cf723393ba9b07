"""The Java process that all cases run in: a phase is an order, its result an answer, both lines of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_SOURCE: Final = Path(__file__).with_name("ClientBench.java")
_END_S: Final = 20.0
DriverReply = dict[str, Any]


class DriverError(Exception):
    """The Java process ended, or said what no answer is; the text has its last lines."""


class Driver:
    """Orders phases from a running process."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors = process, errors

    def order(self, do: str, **how: Any) -> None:
        """Order a phase; its answer is read by :meth:`answer`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **how}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> DriverReply:
        """Return the next answer; raises DriverError."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: DriverReply = json.loads(line)
                return found
        said = self._errors.read_text(errors="replace").splitlines()[-5:]
        raise DriverError("the clients' process ended: " + " | ".join(said))

    def do(self, do: str, **how: Any) -> DriverReply:
        """Order a phase and return its answer; raises DriverError."""
        self.order(do, **how)
        return self.answer()

    def requests(self, pids: Sequence[int]) -> Mapping[str, int]:
        """Return how many requests the brokers took so far, by kind."""
        return self.do("requests", pids=list(pids))


@contextmanager
def running_driver(jars: Path, folder: Path) -> Iterator[Driver]:
    """Run the process until the block ends; the JDK compiles it from its source as it starts."""
    errors = folder / "clients.log"
    command = ["java", "-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", "-Dorg.apache.logging.log4j.level=OFF"]
    command += ["--add-modules", "jdk.attach,jdk.management.agent", "-cp", f"{jars}/*", str(_SOURCE)]
    with errors.open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield Driver(process, errors)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
