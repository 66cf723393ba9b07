"""The runbook's entries are the code's messages, each met by a test that causes the fault."""

from __future__ import annotations

import ast
import contextlib
import http.client
import http.server
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from plugins.module_utils.haproxy import ask, servers
from tests.answering import JsonHandler, Server
from tests.awaiting import await_that
from tests.kafka.modules import run_module

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "runbook.md").read_text()
#: Headings, and first cells of tables, before the tasks.
ERRORS = re.findall(
    r"^(?:###|\|) (`[^|\n]*`)(?: \|.*)?$", TEXT.partition("\n## Tasks\n")[0], flags=re.MULTILINE
)
LINES = [line for heading in ERRORS for line in re.findall(r"`([^`]+)`", heading)]
#: What stands for a value in the runbook's lines.
EXAMPLES = re.compile(
    r"(?:rest/)?rest\d(?::\d+)?|mirror1|leaf1:9092|\b(?:1|3|60|120|150|3600|8082)\b|\bDOWN\b|\.\.\.|classic|mirror_maker_2|"
    r"kafka_rest(?= (?:8082|deployed))|\(10.0.0.3\)|(?<=deployed and )|/\S+/(?:kafka-rest/.lock|admin.sock)|"
    r"kafka_rest_archive(?:_checksum)?(?= is)|(?<=touched\.) (?=Clients)|verify/state(?= ended)|"
    r"(?<=taken out )by ann@control1 \(deploy.yml, since|kafka_rest(?= is held)|by ann@control1 \(deploy.yml, since|"
    r"rest_balancer(?= is held)"
)
#: Lines that other programs print.
OTHERS = {"UNREACHABLE!", "Missing sudo password", "No space left on device"}


def literals() -> str:
    """Return every piece of text of the code and of the playbooks, a line each."""
    pieces = []
    for package in ("plugins", "kedge", "verify"):
        for file in (ROOT / package).rglob("*.py"):
            pieces += [n.value for n in ast.walk(ast.parse(file.read_text()))
                       if isinstance(n, ast.Constant) and isinstance(n.value, str)]  # fmt: skip
    for file in [*ROOT.glob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]:
        pieces.append(" ".join(file.read_text().split()))
    return "\n".join(pieces)


def test_every_error_of_the_runbook_is_a_message_of_the_code() -> None:
    said = literals()
    assert len(LINES) >= 18
    for line in set(LINES) - OTHERS:
        pieces = [piece.strip(" :") for piece in EXAMPLES.split(line) if len(piece) > 5]
        assert pieces, line
        assert [piece for piece in pieces if piece not in said] == [], line


class Proxy(Server):
    """A double of a proxy: its health check holds while ``well``, and ``/slow`` is answered once ``go`` is set."""

    def __init__(self) -> None:
        proxy, self.well, self.go = self, True, threading.Event()

        class Handler(JsonHandler, http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/slow":
                    proxy.go.wait(60)
                self.answer(200 if proxy.well else 503, {})

        super().__init__(Handler)


class Balancer(SimpleNamespace):
    """A HAProxy with two servers: ``socket``, ``port`` and its ``proxies``."""

    def status(self, name: str) -> str:
        try:
            return servers(self.socket, "rest")[name]["status"]
        except OSError:
            return "the balancer starts"


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Balancer]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxies, runtime = [Proxy(), Proxy()], tmp_path / "admin.sock"
    (tmp_path / "haproxy.cfg").write_text(
        f"global\n stats socket {runtime} level admin\n"
        "defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        f"listen rest\n bind 127.0.0.1:{port}\n option httpchk GET /\n"
        + "".join(
            f" server rest1:{8082 + n} 127.0.0.1:{each.server_port} check inter 100ms fall 3 rise 1\n"
            for n, each in enumerate(proxies)
        )
    )
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/sbin")
    assert program is not None
    running = subprocess.Popen([program, "-db", "-f", tmp_path / "haproxy.cfg"])
    found = Balancer(socket=str(runtime), port=port, proxies=proxies, pid=running.pid)
    try:
        for name in ("rest1:8082", "rest1:8083"):
            await_that(lambda name=name: found.status(name).startswith("UP"), f"{name} is up")  # type: ignore[misc]
        yield found
    finally:
        running.terminate()
        running.wait()
        for proxy in proxies:
            proxy.go.set()
            proxy.stop()


def drained(balancer: Balancer, state: str, seconds: int) -> dict[str, Any]:
    wanted = {"socket": balancer.socket, "server": "rest/rest1:8082", "state": state, "seconds": seconds}
    return run_module("haproxy_drain", wanted | {"root": str(Path(balancer.socket).parent)})


def blocks(heading: str) -> list[str]:
    """Return the commands that an entry says, line by line."""
    entry = TEXT.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", entry, re.DOTALL) for line in block.splitlines()]


def test_servers_are_shown_and_put_back_by_hand(balancer: Balancer, tmp_path: Path) -> None:
    hosts = {"rest_balancer": {"hosts": {"lb1": {"ansible_connection": "local"}}}}
    variables = {"ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts, "vars": variables}}))
    show, put_back = blocks("Servers of a balancer")
    drained(balancer, "drain", 5)
    assert balancer.status("rest1:8082") == "MAINT"

    def run(line: str) -> str:
        line = line.replace("server=", f"socket={balancer.socket} root={tmp_path} server=")
        words = shlex.split(line.replace("inventories/mine", str(tmp_path / "hosts.yml")))
        words[0] = str(Path(sys.executable).with_name("ansible"))
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    shown = run(show)
    assert re.search(r"rest1:8082\W+MAINT", shown), shown
    assert re.search(r"rest1:8082\W+taken out by hand, not by Kedge", shown), shown
    assert re.search(r"rest1:8083\W+UP", shown), shown
    assert balancer.status("rest1:8082") == "MAINT"
    run(put_back)
    await_that(lambda: balancer.status("rest1:8082").startswith("UP"), "it serves again")


def test_a_request_that_never_ends_keeps_its_server_in_rotation(balancer: Balancer) -> None:
    def asks() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", balancer.port)
            connection.request("GET", "/slow")
            connection.getresponse()

    # One for each server.
    asking = [threading.Thread(target=asks) for _ in balancer.proxies]
    for thread in asking:
        thread.start()
    for name in ("rest1:8082", "rest1:8083"):
        await_that(
            lambda name=name: servers(balancer.socket, "rest")[name]["scur"] == "1",  # type: ignore[misc]
            f"{name} has its request",
        )
    told = drained(balancer, "drain", 1)
    assert told["failed"]
    assert "1 requests are still in flight 1 s after the last was sent there" in told["msg"]
    assert balancer.status("rest1:8082").startswith("UP")
    for proxy in balancer.proxies:
        proxy.go.set()
    for thread in asking:
        thread.join()


def test_a_server_whose_check_fails_is_named_when_it_is_put_back(balancer: Balancer) -> None:
    # As a restart does: what is in maintenance is not checked, and HAProxy takes it for up when that ends.
    ask(balancer.socket, "set server rest/rest1:8082 state maint")
    balancer.proxies[0].well = False
    told = drained(balancer, "ready", 1)
    assert told["failed"]
    assert "rest/rest1:8082 is not up 1 s after it was put back: status " in told["msg"]
    # As the entry says: the balancer takes it back by itself.
    balancer.proxies[0].well = True
    await_that(lambda: balancer.status("rest1:8082").startswith("UP"), "it serves again")


@pytest.mark.parametrize(
    ("status", "verdicts", "said"),
    [
        (1, {"delivery": "fail", "gap": "pass", "spread": "unknown", "memory": "measured"},
         "The verdict of this run is fail: delivery is fail, spread is unknown. The services run"),
        (3, {"delivery": "measured"}, "The verdict of this run is measured: no check has a level. The services"),
    ],
)  # fmt: skip
def test_a_verdict_that_is_no_pass_ends_verify_with_what_failed_and_where_the_report_is(
    tmp_path: Path, status: int, verdicts: dict[str, str], said: str
) -> None:
    last = yaml.safe_load((ROOT / "verify.yml").read_text())[-1]["tasks"][-1]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [last]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "report").mkdir()
    checks = [{"name": name, "verdict": verdict} for name, verdict in verdicts.items()]
    document = {"verdict": "fail" if status == 1 else "measured", "checks": checks}
    (tmp_path / "report/verdicts.json").write_text(json.dumps(document))
    known = {"kedge_run_dir": str(tmp_path), "audited": {"rc": status}}
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,"]
    done = subprocess.run(
        [*command, "-e", json.dumps(known), tmp_path / "play.yml"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stdout, done.stdout
    assert f"See {tmp_path}/report/report.html" in done.stdout


def test_a_sudo_that_asks_ends_the_play_with_the_line_of_the_runbook(tmp_path: Path) -> None:
    stubs = {
        "ssh": 'for last; do :; done\nexec sh -c "$last"',
        "sudo": "echo sudo: a password is required >&2\nexit 1",
    }
    for name, script in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    host = {"ansible_ssh_executable": str(tmp_path / "ssh"), "ansible_become": True}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"rest1": host}}}))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible")), "all", "-i", tmp_path / "hosts.yml", "-m", "ping"],
        cwd=ROOT, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Missing sudo password" in done.stdout, done.stdout


def test_a_balancer_that_does_not_run_is_named(tmp_path: Path) -> None:
    told = run_module(
        "haproxy_drain", {"socket": str(tmp_path / "none"), "server": "rest/rest1:8082", "state": "drain"}
    )
    assert told["failed"]
    assert "HAProxy does not answer. rest/rest1:8082 was not stopped" in told["msg"]


def test_the_runbook_has_the_seconds_that_a_run_waits_for_the_lock() -> None:
    def constant(file: str, name: str) -> str:
        found = re.search(rf"^{name} = (\d+)$", (ROOT / "plugins" / file).read_text(), re.MULTILINE)
        assert found, name
        return found[1]

    seconds = constant("module_utils/node_lock.py", "WAIT_SECONDS")
    assert f".lock is held by another run after {seconds} s.`" in TEXT
    entry = " ".join(TEXT.partition("### A lock that another run holds\n")[2].partition("\n### ")[0].split())
    assert f"waits up to {seconds} s for the lock" in entry
    assert f"{constant('module_utils/probes.py', 'MOST_TIMES')} times `ready_seconds`" in entry


def test_an_instance_is_drained_and_put_back_by_hand_where_the_control_machine_is_gone(
    balancer: Balancer,
) -> None:
    by_hand = [line for line in blocks("Force a rollback") if line.startswith("ask")]
    define, drain, show, put_back = (
        line.replace("/run/rest-balancer/haproxy/admin.sock", balancer.socket) for line in by_hand
    )

    def run(line: str) -> str:
        command = ["sh", "-c", f"{define}\n{line}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    run(drain)
    assert run(show).splitlines() == ["rest,rest1:8082,0,MAINT"]
    assert balancer.status("rest1:8083").startswith("UP")
    run(put_back)
    await_that(lambda: balancer.status("rest1:8082").startswith("UP"), "it serves again")


def test_the_commands_of_a_rollback_by_hand_put_an_earlier_release_and_its_unit_back(tmp_path: Path) -> None:
    home, etc, systemd, tools = (
        tmp_path / name for name in ("kedge/kafka-rest/8082", "kafka-rest", "systemd", "tools")
    )
    for folder in (home / "releases" / "old", home / "releases" / "bad", etc, systemd, tools):
        folder.mkdir(parents=True)
    # It became ready, and is bad all the same.
    (home / "good").write_text("bad\n")
    (home / "releases" / "old" / ".probe").write_text("{}")
    (home / "releases" / "old" / "unit.service").write_text("of old\n")
    (systemd / "kafka-rest@.service").write_text("of bad\n")
    (etc / "8082").symlink_to(home / "releases" / "bad")
    stub = tools / "systemctl"
    stub.write_text(
        f'#!/bin/sh\necho "$@" $(basename $(readlink {etc}/8082)) $(cat {systemd}/*) >> {tmp_path}/called\n'
    )
    stub.chmod(0o755)
    places = {"/var/lib/kedge": tmp_path / "kedge", "/etc/kafka-rest": etc, "/etc/systemd/system": systemd}
    for line in [line for line in blocks("Force a rollback")[2:] if not line.startswith("ask")]:
        here = line.replace("RELEASE", "old")
        for place, there in places.items():
            here = here.replace(place, str(there))
        environment = {"PATH": f"{tools}:/usr/bin:/bin"}
        subprocess.run(["sh", "-c", here], env=environment, check=True, capture_output=True)
    assert (tmp_path / "called").read_text().splitlines() == [
        "daemon-reload old of old",
        "restart kafka-rest@8082 old of old",
    ]
