"""Hosts of the group load_generator, as the parent of a load sees them: each runs some of its processes."""

from __future__ import annotations

import base64
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Final

from evidence.load import Load, LoadError
from evidence.secrets import from_environment
from verify.collect.clocks import Offset, RoundTrip, offset
from verify.collect.hosts import Access, ssh
from verify.load.actors import WATCH, workers
from verify.load.agent import CLOCK, CODE, END, FOLDER, code
from verify.load.board import Board
from verify.process import now_us

#: Where the role load_generator has the kit's code and the packages that it imports.
LIBRARY: Final = "/opt/kedge/load-generator"
_ROUND_TRIPS: Final = 15
_POLL_S: Final = 0.02
_LOST: Final = 255  # what ssh ends with


def spread(load: Load) -> dict[str, list[str]]:
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
    return ssh(
        replace(access, become=False), ["env", f"PYTHONPATH={LIBRARY}", "python3", "-m", "verify.load.agent"]
    )


def portable(value: Any, files: dict[str, str]) -> Any:
    """Return a part of load.json without paths of this machine; ``files`` gets what is there (base64).

    A file is what a key ``ca`` or one that ends in ``.location`` names.
    """
    if isinstance(value, Mapping):
        return {key: _moved(str(key), one, files) for key, one in value.items()}
    return [portable(one, files) for one in value] if isinstance(value, list) else value


def _moved(key: str, value: Any, files: dict[str, str]) -> Any:
    if not isinstance(value, str) or not (key == "ca" or key.endswith(".location")):
        return portable(value, files)
    if not (path := Path(value)).is_file():
        return value
    name = f"{len(files)}-{path.name}"
    files[name] = base64.b64encode(path.read_bytes()).decode()
    return f"{FOLDER}/{name}"


class Generator:
    """A host that runs processes of a load; what they count stands on this machine's board.

    Its clock's offset is known from the start, and its processes tell this machine's time.
    """

    def __init__(self, host: str, argv: Sequence[str], names: Sequence[str], run_dir: Path) -> None:
        self.host = host
        self.clock = Offset(0, 0)
        self._dir = run_dir
        self._statuses: dict[str, int] = {}
        self._over = threading.Event()
        self._log = run_dir / "logs" / f"generator-{host}.log"
        with self._log.open("ab") as log:
            self._ssh = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self._ssh.stdin is not None
        assert self._ssh.stdout is not None
        self._in: IO[bytes] = self._ssh.stdin
        self._out: IO[bytes] = self._ssh.stdout
        self._lock = threading.Lock()
        self.workers = {name: RemoteWorker(self, name) for name in names}

    def begin(self, document: Mapping[str, Any], board: Board) -> None:
        """Have the host begin; raises LoadError when it cannot."""
        self.clock = self._ask_clock()
        files: dict[str, str] = {}
        wanted = {
            "load": json.dumps(portable(document, files)),
            "files": files,
            "secrets": from_environment(),
            "ahead_us": self.clock.offset_us,
            "workers": list(self.workers),
        }
        self._send(json.dumps(wanted))
        threading.Thread(target=self._read, args=(board,), daemon=True).start()
        threading.Thread(target=self._lead, args=(board,), daemon=True).start()

    def _ask_clock(self) -> Offset:
        trips, said = [], {}
        for _ in range(_ROUND_TRIPS):
            asked = now_us()
            self._send(CLOCK)
            line = self._out.readline()
            try:
                said = json.loads(line)
                trips.append(RoundTrip(asked, said[CLOCK], now_us()))
            except (ValueError, LookupError, TypeError):
                self._give_up()
                raise LoadError(f"load_generator {self.host} does not begin: {self.last_line()}") from None
        if said[CODE] != code():
            self._give_up()
            raise LoadError(
                f"load_generator {self.host} has another version of the kit: deploy.yml brings this one"
            )
        return offset(trips)

    def _give_up(self) -> None:
        self._ssh.kill()
        self._ssh.wait()
        self._lose()

    def last_line(self) -> str:
        """Return what it last complained of, and what mends what most often ails it."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        if lines and "No module named" in lines[-1]:
            return f"{lines[-1]}; deploy.yml brings the kit's code there"
        return lines[-1] if lines else f"ssh ended with {self._ssh.poll()}"

    def _send(self, line: str) -> None:
        try:
            with self._lock:
                self._in.write(line.encode() + b"\n")
                self._in.flush()
        except OSError:
            pass  # it has ended, which its reader sees

    def _lead(self, board: Board) -> None:
        """Tell it what the parent tells its own processes."""
        told: list[int] = []
        while not self._over.is_set():
            now = board.head.tolist()
            if now != told:
                self._send(json.dumps(now))
                told = now
            time.sleep(_POLL_S)

    def _read(self, board: Board) -> None:
        over = False
        try:
            while not over and (line := self._out.readline()):
                said = json.loads(line)
                for actor, row in said["cells"].items():
                    board.cells(actor)[:] = row
                for name, text in said["said"].items():
                    (self._dir / "logs" / f"{name}.log").write_text(text + "\n", encoding="utf-8")
                over = said["over"]
                # One that ended in order has ended when its evidence is here.
                self._statuses |= {name: status for name, status in said["ended"].items() if status}
            if over:
                with tarfile.open(fileobj=self._out, mode="r|") as archive:
                    archive.extractall(self._dir, filter="data")
                self._statuses = dict.fromkeys(self.workers, 0) | self._statuses
            self._in.close()
        except (ValueError, LookupError, tarfile.TarError, OSError) as error:
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"what it says cannot be read: {error!r}\n")
        self._ssh.wait()
        self._lose()

    def _lose(self) -> None:
        """Say of processes of which nothing more will be heard that they are gone."""
        for name in self.workers.keys() - self._statuses.keys():
            self._statuses[name] = _LOST
            text = f"the connection to {self.host} ended: {self.last_line()}"
            (self._dir / "logs" / f"{name}.log").write_text(text + "\n", encoding="utf-8")
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


class RemoteWorker:
    """A process of a load on a generator, asked like one of this machine."""

    def __init__(self, generator: Generator, name: str) -> None:
        self._generator, self._name = generator, name

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
