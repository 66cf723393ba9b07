"""Hosts of the group load_generator, as the parent of a load sees them: each runs some of its processes."""

from __future__ import annotations

import base64
import json
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from kedge.deploy.generator_bundle import code
from kedge.evidence.border.load_generator import (
    LINE_BYTES,
    LOG_BYTES,
    ClockReading,
    LoadProcess,
    clock,
    counted,
    take_files,
)
from kedge.evidence.border.untrusted import UntrustedError, read_line, shown
from kedge.evidence.load_options import LoadError, LoadSpec
from kedge.evidence.secrets import from_environment
from verify.collect.clocks import ROUND_TRIPS, ClockOffset, RoundTrip, offset
from verify.collect.hosts import Access, ssh
from verify.load.actors import WATCH, Lane, lanes, processes, workers
from verify.load.agent import CLOCK, END, FOLDER, REPEAT_S
from verify.load.board import WIDTH, Board, Cell, Head
from verify.load.schedule import count_due
from verify.process import last_line, now_us

#: What the role load_generator puts on a host: it runs the agent.
AGENT: Final = "/opt/kedge/load-agent"
_ANSWER_S: Final = 30.0
_POLL_S: Final = 0.02
_LOST: Final = 255  # what ssh ends with
#: How far a host's clock may go astray while it sends what is due.
_ASTRAY_US: Final = 10_000_000
#: What the rows of a record take at most, and what there is beside them.
_ROW_BYTES: Final = 400
_BESIDE_BYTES: Final = 1 << 28
#: What of load.json and of the secrets is the control machine's alone: it asks the other clusters itself.
_KEPT: Final = frozenset({"clusters", "mirrors", "applications"})
#: Keys of a client that name a file, beside those that end in .location.
_FILES: Final = ("ca", "sasl.kerberos.keytab")


def spread(load: LoadSpec) -> dict[str, list[str]]:
    """Return which processes run on each generator, in turn; without generators all run here.

    The watcher stays here: what it samples is told by this machine's clock.
    """
    found: dict[str, list[str]] = {host: [] for host in load.generators}
    names = [name for name in workers(load) if name != WATCH]
    for number, name in enumerate(names if found else ()):
        found[load.generators[number % len(found)]].append(name)
    return {host: names for host, names in found.items() if names}


def command(access: Access) -> list[str]:
    """Return the command that runs the agent on a host, without the rights of root: it needs none."""
    return ssh(replace(access, become=False), [AGENT])


def part_of(document: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return of load.json what these processes need: no other cluster, and no client that they do not run."""
    found = {key: value for key, value in document.items() if key not in _KEPT}
    if "kafka" not in _ways(names):
        found["client"] = {}
        if kafka := found.get("kafka"):
            found["kafka"] = {**kafka, "producer": {}, "consumer": {}}
    return found


def secrets_of(secrets: Mapping[str, Any], cluster: str, names: Iterable[str]) -> dict[str, Any]:
    """Return of a run's secrets the logins of these processes: to the loaded cluster, or to proxies."""
    ways = _ways(names)
    found = {way: secrets[way] for way in sorted(ways & secrets.keys())}
    login = secrets.get("clusters", {}).get(cluster)
    return found | ({"clusters": {cluster: login}} if login and "kafka" in ways else {})


def _ways(names: Iterable[str]) -> set[str]:
    """Return by which ways processes send and read: kafka, rest."""
    return {name.partition("-")[0] for name in names}


def portable(value: Any, files: dict[str, str]) -> Any:
    """Return a part of load.json without paths of this machine; ``files`` gets what is there (base64).

    Raises:
        LoadError: for a path that cannot go along.
    """
    if isinstance(value, Mapping):
        return {key: _moved(str(key), one, files) for key, one in value.items()}
    return [portable(one, files) for one in value] if isinstance(value, list) else value


def _moved(key: str, value: Any, files: dict[str, str]) -> Any:
    if not isinstance(value, str) or not (key in _FILES or key.endswith(".location")):
        return portable(value, files)
    path = Path(value)
    name = f"{len(files)}-{path.name}"
    try:
        files[name] = base64.b64encode(path.read_bytes()).decode()
    except FileNotFoundError:
        return value  # it may be there
    except OSError as error:
        raise LoadError(
            f"{key} is {value}, which cannot go to the hosts that make load: {error.strerror}; name a file"
        ) from None
    return f"{FOLDER}/{name}"


class Generator:
    """A host that runs processes of a load; what they count stands on this machine's board.

    Its clock's offset is known from the start, and its processes tell this machine's time. ``refused`` says
    why what it sends is no longer taken, empty for one that does as it should.
    """

    def __init__(
        self, host: str, argv: Sequence[str], load: LoadSpec, names: Sequence[str], run_dir: Path
    ) -> None:
        self.host = host
        self.clock = ClockOffset(0, 0)
        self.refused = ""
        self._logs = run_dir / "logs"
        self._dir = run_dir
        of_load = processes(load)
        self._processes: Mapping[str, LoadProcess] = {name: of_load[name] for name in names}
        self._lanes: list[Lane] = [lane for lane in lanes(load) if lane.actor in names]
        self._most = most_bytes(load)
        self._cluster = load.cluster
        self._statuses: dict[str, int] = {}
        self._over = threading.Event()
        self._began = (now_us(), time.monotonic())
        self._log = self._logs / f"generator-{host}.log"
        with self._log.open("ab") as log:
            self._ssh = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        # What it says on its standard error must not fill the disk.
        resource.prlimit(self._ssh.pid, resource.RLIMIT_FSIZE, (LOG_BYTES, LOG_BYTES))
        assert self._ssh.stdin is not None
        assert self._ssh.stdout is not None
        self._in: IO[bytes] = self._ssh.stdin
        self._out: IO[bytes] = self._ssh.stdout
        self._lock = threading.Lock()
        self.workers = {name: RemoteWorker(self, name) for name in names}

    def begin(self, document: Mapping[str, Any], board: Board) -> None:
        """Have the host begin; raises LoadError when it cannot."""
        try:
            self.clock = self._ask_clock()
            files: dict[str, str] = {}
            wanted = {
                "load": json.dumps(portable(part_of(document, self.workers), files)),
                "files": files,
                "secrets": secrets_of(from_environment(), self._cluster, self.workers),
                "ahead_us": self.clock.offset_us,
                "workers": list(self.workers),
            }
            self._send(json.dumps(wanted))
        except BaseException:
            self._ssh.kill()
            self._ssh.wait()
            self._lose("it did not begin")
            raise
        threading.Thread(target=self._read, args=(board,), daemon=True).start()
        threading.Thread(target=self._lead, args=(board,), daemon=True).start()

    def _ask_clock(self) -> ClockOffset:
        trips, own = [], code()
        for _ in range(ROUND_TRIPS):
            asked = now_us()
            self._send(CLOCK)
            said = self._answer()
            trips.append(RoundTrip(asked, said.clock, now_us()))
            if said.code != own:
                raise LoadError(
                    f"load_generator {self.host} has another version of the kit: deploy.yml brings this one"
                )
        return offset(trips)

    def _answer(self) -> ClockReading:
        line = b""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._ssh.kill()

        # A line that never ends would be waited for.
        overdue = threading.Timer(_ANSWER_S, give_up)
        overdue.start()
        try:
            line = read_line(self._out, LINE_BYTES)
            if line.endswith(b"\n"):
                return clock(line)
            why = f"it ended after {shown(line)!r}" if line else "it ended"
            if late.is_set():
                why = f"it ends no line within {_ANSWER_S:g} s"
        except UntrustedError as error:
            why = f"it says {shown(line)!r}" if line else str(error)
        finally:
            overdue.cancel()
        raise LoadError(f"load_generator {self.host} does not begin: {self._complaint(why)}")

    def _complaint(self, otherwise: str) -> str:
        """Return what it last complained of, and what mends what most often ails it."""
        said = last_line(self._log)
        if AGENT in said:
            return f"{said}; deploy.yml brings it there"
        return f"{otherwise}; it said last: {said}" if said else otherwise

    def _send(self, line: str) -> None:
        try:
            with self._lock:
                self._in.write(line.encode() + b"\n")
                self._in.flush()
        except (OSError, ValueError):
            pass  # it has ended, which its reader sees

    def _lead(self, board: Board) -> None:
        """Tell it what the parent tells its own processes, and that somebody still leads."""
        told: list[int] = []
        due = 0.0
        while not self._over.is_set():
            now = board.head.tolist()
            if now != told or time.monotonic() >= due:
                self._send(json.dumps(now))
                told, due = now, time.monotonic() + REPEAT_S
            time.sleep(_POLL_S)

    def _read(self, board: Board) -> None:
        why = "the connection ended"
        try:
            while line := read_line(self._out, LINE_BYTES):
                if self._told(line, board):
                    break
        except UntrustedError as error:
            self.refused = why = f"what it sent cannot be taken: {error}"
        except OSError as error:
            why = f"what it sent cannot be kept: {error}"
        finally:
            # It ends by itself after its last byte; where that was not read, nobody will.
            if self.workers.keys() - self._statuses.keys():
                self._ssh.kill()
            self._ssh.wait()
            self._lose(why)

    def _told(self, line: bytes, board: Board) -> bool:
        """Note what its processes count, and at their end take their files; return whether that is all."""
        said = counted(line, self._processes, WIDTH)
        go = int(board.head[Head.GO])
        for lane in self._lanes:
            sent = said.cells.get(lane.actor, [0] * WIDTH)[Cell.SENT]
            due = count_due(go, lane.rate, self._latest_us() + _ASTRAY_US, lane.per_request) if go else 0
            if not 0 <= sent <= due:
                raise UntrustedError(f"{lane.actor} says that it sent {sent:,} records, and {due:,} are due")
        for actor, row in said.cells.items():
            board.cells(actor)[:] = row
        for name, text in said.said.items():
            (self._logs / f"{name}.log").write_text(text + "\n", encoding="utf-8")
        if said.over:
            self._take_files()
            self._statuses = dict.fromkeys(self.workers, 0) | said.ended
        else:
            # One that ended in order has ended when its evidence is here.
            self._statuses |= {name: status for name, status in said.ended.items() if status}
        return said.over

    def _latest_us(self) -> int:
        """Return how late it may be: a clock that somebody sets back makes nobody send too early."""
        began_us, began = self._began
        return max(now_us(), began_us + int((time.monotonic() - began) * 1_000_000))

    def _take_files(self) -> None:
        """Have all files of the host in their places, or none: who sends one that is none is not believed."""
        with tempfile.TemporaryDirectory(prefix=".from-generator-", dir=self._dir) as name:
            for path in take_files(self._out, self._processes, Path(name), self._most):
                place = self._dir / path
                place.parent.mkdir(parents=True, exist_ok=True)
                (Path(name) / path).replace(place)

    def _lose(self, why: str) -> None:
        """Say of processes of which nothing more will be heard that they are gone."""
        for name in self.workers.keys() - self._statuses.keys():
            text = f"load_generator {self.host} is lost: {self._complaint(why)}"
            (self._logs / f"{name}.log").write_text(text + "\n", encoding="utf-8")
            self._statuses[name] = _LOST
        self._over.set()

    def status(self, name: str) -> int | None:
        """Return what a process ended with, None while it runs or its evidence is on its way."""
        return self._statuses.get(name)

    def end(self) -> None:
        """Have its processes end as soon as they can, and their evidence come."""
        self._send(END)

    def wait(self, seconds: float | None) -> None:
        """Wait until it has ended; raises subprocess.TimeoutExpired."""
        if not self._over.wait(seconds):
            raise subprocess.TimeoutExpired(self._ssh.args, seconds or 0)

    def kill(self) -> None:
        """End the connection, with which its processes end."""
        self._ssh.kill()


def most_bytes(load: LoadSpec) -> int:
    """Return what one host may send: what two rows of each record take that the load can have."""
    records = sum(lane.rate for lane in lanes(load)) * (load.max_s + load.drain_s)
    return int(records * _ROW_BYTES) + _BESIDE_BYTES


class RemoteWorker:
    """A process of a load on a generator, asked like one of this machine."""

    def __init__(self, generator: Generator, name: str) -> None:
        self._generator, self._name = generator, name

    @property
    def host(self) -> str:
        """Where it runs."""
        return self._generator.host

    @property
    def refused(self) -> str:
        """Why nothing of its host is taken any more; empty for one that does as it should."""
        return self._generator.refused

    @property
    def returncode(self) -> int | None:
        """What it ended with."""
        return self._generator.status(self._name)

    def poll(self) -> int | None:
        """Return what it ended with, or None."""
        return self.returncode

    def terminate(self) -> None:
        """Have all of its host end."""
        self._generator.end()

    def kill(self) -> None:
        """Give its host up."""
        self._generator.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for its host's end; raises subprocess.TimeoutExpired."""
        self._generator.wait(timeout)
        return self.returncode
