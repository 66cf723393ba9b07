"""A real HAProxy on loopback with a planned file, and stand-ins for the proxies behind it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx

from kedge.deploy.rendering import render_instance
from kedge.plan.hosts import Inventory
from kedge.services.balancer.health_checks import while_proxies_change
from kedge.services.balancer.security import token
from kedge.services.planning import make_plan
from plugins.module_utils.haproxy import keep_down, servers, worker
from tests.answering import JsonHandler, Server
from tests.awaiting import await_that

LIMIT_S = 20
HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/sbin")


@dataclass(frozen=True)
class Speech:
    """What a stand-in answers: as which distribution, by which login, to which path of its own health."""

    distribution: str = "confluent"
    users: tuple[tuple[str, str], ...] = ()
    ill: bool = False
    page: str = ""

    @property
    def health(self) -> str:
        return "/ready" if self.distribution == "strimzi" else ""


class StandIn(Server):
    """Stands in for a proxy: it speaks the language of its distribution, which may change while it is drained."""

    def __init__(self, speech: Speech) -> None:
        super().__init__(Speaker)
        self.speech = speech
        self.served = 0
        #: Of the same, each topic's: checks produce too, to a topic of their own.
        self.topics: Counter[str] = Counter()
        self.hosts: set[str | None] = set()

    def handle_error(self, *_: object) -> None:
        """Say nothing of a check that hung up."""


class Speaker(JsonHandler, BaseHTTPRequestHandler):
    server: StandIn

    def refuses(self) -> bool:
        speech = self.server.speech
        logins = {f"Basic {token(*user)}" for user in speech.users}
        self.server.hosts.add(self.headers.get("Host"))
        if speech.page:
            self.answer(400, speech.page.encode())
        elif speech.ill:
            self.answer(500, {"error_code": 500, "message": "no.such.Class"})
        elif logins and self.headers.get("Authorization") not in logins:
            self.answer(401, {"error_code": 401, "message": "Unauthorized"})
        else:
            return False
        return True

    def do_POST(self) -> None:
        self.asked()
        if self.refuses():
            return None
        if self.path.startswith("/consumers/") and self.server.speech.distribution == "strimzi":
            # As HttpSinkBridgeEndpoint has it, which heeds neither header alone.
            asked = [str(self.headers.get(f"X-Forwarded-{name}", "")) for name in ("Proto", "Host")]
            scheme, host = asked if all(asked) else ("http", str(self.headers["Host"]))
            return self.answer(
                200, {"instance_id": "i", "base_uri": f"{scheme}://{host}{self.path}/instances/i"}
            )
        if not self.path.startswith("/topics/"):
            return self.answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})
        self.server.served += 1
        self.server.topics[self.path.rpartition("/")[2]] += 1
        more = {} if self.server.speech.distribution == "strimzi" else {"error_code": None, "error": None}
        return self.answer(200, {"offsets": [{"partition": 0, "offset": 7, **more}]})

    def do_GET(self) -> None:
        if not self.refuses():
            self.answer(200 if self.path == self.server.speech.health else 404, {})


@dataclass(frozen=True)
class Running:
    """A running HAProxy: a client of it, its runtime socket, its process, the file that it reads."""

    client: httpx.Client
    socket: Path
    pid: int
    file: Path

    def ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def status(self, server: str) -> str:
        return servers(str(self.socket), "rest")[server]["status"]

    def statuses(self) -> dict[str, str]:
        return {name: row["status"] for name, row in servers(str(self.socket), "rest").items()}

    def reload(self, text: str, seen: str = "") -> None:
        """Have it take another file, as the unit's reload does, and wait for the process that has it.

        ``seen`` is what a trial saw of servers that are new to it.
        """
        before = worker(str(self.socket))
        keep_down(str(self.socket), "rest", seen)
        self.file.write_text(text)
        os.kill(self.pid, signal.SIGUSR2)
        await_that(lambda: answers(self.socket) not in (None, before), "a new worker runs")


def answers(runtime: Path) -> str | None:
    """Return the process that answers at a runtime socket; None for none."""
    try:
        return worker(str(runtime)) or None
    except OSError:
        return None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def planned_balancer(inventory: Inventory) -> dict[str, Any]:
    """Return the planned balancer of lb1, in its JSON form."""
    (instance,) = make_plan(inventory).to_json()["hosts"]["lb1"]["services"]["rest_balancer"]["instances"]
    return dict(instance)


def files_of(balancer: Mapping[str, Any], *, changing: bool = False) -> dict[str, str]:
    """Return the files of a balancer's release, by their paths in it."""
    return render_instance("rest-balancer", while_proxies_change(balancer) if changing else balancer)


def placed(text: str, ports: Mapping[str, int], port: int, folder: Path) -> str:
    """Return a planned file for loopback: its servers at these ports, its sockets in a folder."""
    for server, at in ports.items():
        text, times = re.subn(rf"( server {server}) \S+", rf"\1 127.0.0.1:{at}", text)
        assert times == 2, server
        text = re.sub(rf"( server {server} \S+ id \d+) port \d+", rf"\1 port {at}", text)
    text = re.sub(r"bind 0\.0\.0\.0:\d+", f"bind 127.0.0.1:{port}", text)
    text = text.replace("\n    log /dev/log local0 notice", "")
    return text.replace("/run/rest-balancer/haproxy/", f"{folder}/")


@contextlib.contextmanager
def running(text: str, port: int, folder: Path, mode: str = "-W") -> Iterator[Running]:
    """Run HAProxy, ``-db`` in one process and ``-W`` with a worker that a reload replaces."""
    assert HAPROXY is not None
    file, runtime = folder / "haproxy.cfg", folder / "admin.sock"
    file.write_text(text)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([HAPROXY, mode, "-f", file], stdout=log, stderr=log)
    try:
        await_that(lambda: answers(runtime) or process.poll() is not None, "the balancer runs")
        assert process.poll() is None, (folder / "log").read_text()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LIMIT_S) as client:
            yield Running(client, runtime, process.pid, file)
    finally:
        process.terminate()
        process.wait()


def changed(stand_in: StandIn, **how: Any) -> None:
    """Have a stand-in speak otherwise."""
    stand_in.speech = replace(stand_in.speech, **how)
