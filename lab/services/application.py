"""The sample Streams application as one process on loopback, run as the plan has it: for benches and tests.

Settings, classes and start command are those of a node; paths below /etc, /var/lib and /var/log lie in a
folder of the caller's. A memory limit is systemd's on a node, and nobody's here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from kedge.deploy.streams_jars import Wish, application_jars, build_kit
from kedge.plan.plan import PlannedInstance
from kedge.services.streams.properties import UNIT
from kedge.setup.paths import LOCKS, PROJECT, cache_root
from kedge.setup.unpacking import unpack

SAMPLE_JAR: Final = PROJECT / "lab" / "services" / "sample_streams" / "target" / "sample-streams-1.0.0.jar"
MAIN_CLASS: Final = "io.kedge.sample.SampleStreamsMain"
VERSION: Final = "4.3.1"
_LOCK: Final = LOCKS / f"kafka-streams-{VERSION}.lock"
_POLL_S: Final = 0.05
_STOP_S: Final = 110.0  # what the sample takes to close its stores, at most, and a little more


@dataclass(frozen=True)
class ApplicationInstance:
    """An instance as it is planned, and what of it this place says otherwise.

    ``properties`` go over the planned ones, None takes one out; ``environment`` goes to the process.
    ``bounded`` False leaves RocksDB as Kafka Streams sets it up. ``wrapper`` stands before the command.
    """

    instance: PlannedInstance
    properties: Mapping[str, str | None] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    bounded: bool = True
    wrapper: tuple[str, ...] = ()


class StartedApplication:
    """A started process: what it tells of itself, and its end."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self.pid = process.pid
        self.state_dir = folder / "state"
        self.log = folder / "output"
        self.samples_file = folder / "log" / "samples.jsonl"
        self._state_file = folder / "state.json"

    def ended(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._process.poll()

    def told(self) -> dict[str, Any]:
        """Return what it last told of its state; empty before it told anything."""
        try:
            found: dict[str, Any] = json.loads(self._state_file.read_text())
        except (OSError, ValueError):
            return {}
        return found if self.is_of(found) else {}

    def is_of(self, told: Mapping[str, Any]) -> bool:
        """Tell whether this process told that: an earlier one's file stays. A wrapper's child has its own."""
        pid = int(told.get("pid", 0))
        try:
            return pid == self.pid or os.getpgid(pid) == self.pid
        except ProcessLookupError:
            return False

    def samples(self) -> list[dict[str, Any]]:
        """Return its samples, one a second, those of earlier processes in the folder as well."""
        lines = self.samples_file.read_text().splitlines() if self.samples_file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def wait_until(
        self, holds: Callable[[dict[str, Any]], bool], seconds: float, what: str
    ) -> dict[str, Any]:
        """Wait until what it tells holds, and return it.

        Raises:
            RuntimeError: when the process ends before, with the end of its output.
            TimeoutError: when time is up.
        """
        deadline = time.monotonic() + seconds
        while not holds(told := self.told()):
            if self.ended() is not None:
                raise RuntimeError(f"it ended with status {self.ended()} before it {what}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds:.0f} s it did not {what}: {told}\n{self.tail()}")
            time.sleep(_POLL_S)
        return told

    def wait_running(self, seconds: float = 60) -> dict[str, Any]:
        """Wait until it tells that it is RUNNING."""
        return self.wait_until(lambda told: told.get("state") == "RUNNING", seconds, "be RUNNING")

    def tail(self, lines: int = 15) -> str:
        """Return the end of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """End it at once, with all that it started."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self, seconds: float = _STOP_S) -> int:
        """Have it close its stores and end; return its status. One that does not end in time is killed."""
        if self.ended() is None:
            os.killpg(self.pid, signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()


@contextmanager
def running_application(
    app: ApplicationInstance, bootstrap_servers: str, folder: Path
) -> Iterator[StartedApplication]:
    """Run it until the block ends; a second run in the same folder finds the state of the first.

    Raises:
        JarError: when its classes do not compile or load.
    """
    texts = _texts(app, bootstrap_servers, folder)
    for name in ("log", "state"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    properties = folder / "streams.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in texts["streams.properties"].items()))
    environment = texts["environment"]
    jars = application_jars([{"path": str(SAMPLE_JAR)}], _LOCK, cache_root(), fetch=True)
    class_path = ":".join([str(_kit_jar(app, jars, folder)), *map(str, jars)])
    options = [
        option
        for name in ("KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS")
        for option in environment.get(name, "").split()
    ]
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [*app.wrapper, "java", *options, "-cp", class_path, MAIN_CLASS, str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, **app.environment},
            start_new_session=True,
        )
    running = StartedApplication(process, folder)
    try:
        yield running
    finally:
        running.stop()


def _texts(app: ApplicationInstance, bootstrap_servers: str, folder: Path) -> dict[str, dict[str, str]]:
    """Return the planned settings by file name, with this place's folders, brokers and own values."""
    name = app.instance.name
    here = {
        f"/var/lib/{UNIT}/{name}/state.json": str(folder / "state.json"),
        f"/var/lib/{UNIT}/{name}": str(folder / "state"),
        f"/var/log/{UNIT}/{name}": str(folder / "log"),
    }
    found: dict[str, dict[str, str]] = {"streams.properties": {}, "environment": {}}
    for setting in app.instance.settings:
        value = setting.value
        for planned, actual in here.items():
            value = value.replace(planned, actual)
        found.setdefault(setting.file.rpartition("/")[2], {})[setting.key] = value
    own: dict[str, str | None] = {"bootstrap.servers": bootstrap_servers, **app.properties}
    if not app.bounded:
        own["rocksdb.config.setter"] = None
    properties = {**found["streams.properties"], **own}
    found["streams.properties"] = {key: value for key, value in properties.items() if value is not None}
    return found


def _kit_jar(app: ApplicationInstance, jars: list[Path], folder: Path) -> Path:
    rocksdb = [asdict(s) for s in app.instance.settings if s.file.endswith("/rocksdb.properties")]
    wish = Wish("joins", VERSION, MAIN_CLASS, jars, rocksdb, 17)
    unpack(build_kit(wish, cache_root(), write=True).tarball, folder / "kit")
    (jar,) = (folder / "kit").glob("*.jar")
    return jar
