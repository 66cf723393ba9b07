"""HAProxy with the file that the plan makes, in front of two processes that answer as REST proxies do."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from plugins.module_utils.haproxy import former_workers, in_flight, worker
from plugins.modules.haproxy_drain import await_up
from tests.answering import JsonHandler, Server
from tests.awaiting import await_that
from tests.balancers import Running, answers, files_of, free_port, placed, planned_balancer, running
from tests.kafka.modules import run_module
from tests.rest_inventories import rest

pytestmark = pytest.mark.process

UUID = "0b5f3c2e-8d4a-4a3e-9f67-1f2a3b4c5d6e"
OFFSET: dict[str, Any] = {"offsets": [{"partition": 0, "offset": 7, "error_code": None, "error": None}]}
ERROR_INSIDE: dict[str, Any] = {
    "offsets": [{"partition": None, "offset": None, "error_code": 50003, "error": "no broker"}]
}
LIMIT_S = 20
SERVERS = tuple(f"rest{host}:{port}" for host in (1, 2) for port in (8082, 8083))


class Proxy(Server):
    """Stands in for a REST proxy: it knows the consumers that it made, and what a produce is answered."""

    def __init__(self, identity: str) -> None:
        super().__init__(Handler)
        self.identity = identity
        self.consumers: set[str] = set()
        self.produced = OFFSET
        self.slow = threading.Event()
        self.slow.set()
        self.asked = threading.Event()
        self.keeps = True


class Handler(JsonHandler, BaseHTTPRequestHandler):
    server: Proxy
    zipped = False

    def do_POST(self) -> None:
        body = self.asked() or {}
        if self.path == "/topics/slow":
            self.server.asked.set()
            self.server.slow.wait(LIMIT_S)
        if self.path.startswith("/topics/"):
            return self.answer(200, self.server.produced)
        name = body.get("name") or f"rest-consumer-{self.server.identity}-{UUID}"
        self.server.consumers.add(f"{self.path}/instances/{name}")
        made = {"instance_id": name, "base_uri": f"{self.path}/instances/{name}"}
        # As kafka-rest does, however short the answer is.
        self.zipped = "gzip" in self.headers.get("Accept-Encoding", "")
        return self.answer(200, gzip.compress(json.dumps(made).encode()) if self.zipped else made)

    def do_GET(self) -> None:
        known = self.path.removesuffix("/records") in self.server.consumers
        self.answer(200 if known else 404, {"by": self.server.identity})

    def end_headers(self) -> None:
        if self.zipped:
            self.send_header("Content-Encoding", "gzip")
            self.zipped = False
        if not self.server.keeps:
            # Said and not only done: HAProxy would send another request over what closes a moment later.
            self.send_header("Connection", "close")
        super().end_headers()


def file_of_plan(hosts: int = 1, **role: Any) -> str:
    inventory = rest(hosts, groups={"rest_balancer": ("lb1",)}, instances_per_host=2, **role)
    return files_of(planned_balancer(inventory))["haproxy.cfg"]


@pytest.fixture
def proxies() -> Iterator[list[Proxy]]:
    started = [Proxy("rest1-8082"), Proxy("rest1-8083")]
    yield started
    for proxy in started:
        proxy.stop()


@contextlib.contextmanager
def running_balancer(proxies: list[Proxy], tmp_path: Path, mode: str) -> Iterator[Running]:
    """Run HAProxy, ``-db`` in one process and ``-W`` with a worker that a reload replaces."""
    ports = {proxy.identity.replace("-", ":"): proxy.server_port for proxy in proxies}
    port = free_port()
    text = placed(file_of_plan(len(proxies) // 2), ports, port, tmp_path)
    with running(text, port, tmp_path, mode) as found:
        await_that(lambda: all(found.status(server).startswith("UP") for server in ports), "all are in")
        yield found


@pytest.fixture
def balancer(proxies: list[Proxy], tmp_path: Path) -> Iterator[Running]:
    with running_balancer(proxies, tmp_path, "-db") as found:
        yield found


def test_every_number_of_the_file_is_the_plans() -> None:
    text = file_of_plan()
    for line in ("timeout server 60s", "timeout client 60s", "timeout connect 5s", "timeout check 5s"):
        assert f"    {line}\n" in text
    assert "size 200000 expire 10m" in text


def test_consumer_is_answered_by_its_home_whether_its_name_is_given_or_made(balancer: Running) -> None:
    assert "gzip" in balancer.client.headers["Accept-Encoding"]
    for group in ("g1", "g2", "g3", "g4"):
        for body in ({}, {"name": "mine"}):
            base = balancer.client.post(f"/consumers/{group}", json=body).json()["base_uri"]
            assert [balancer.client.get(f"{base}/records").status_code for _ in range(4)] == [200] * 4


def test_generated_name_finds_its_home_when_the_table_is_empty(balancer: Running) -> None:
    base = balancer.client.post("/consumers/g", json={}).json()["base_uri"]
    balancer.ask("clear table rest")
    assert [balancer.client.get(f"{base}/records").status_code for _ in range(4)] == [200] * 4


def test_home_that_is_down_is_said_to_be_down(balancer: Running) -> None:
    base = balancer.client.post("/consumers/g", json={}).json()["base_uri"]
    home = "rest1:8082" if "8082" in base else "rest1:8083"
    balancer.ask(f"set server rest/{home} state maint")
    answer = balancer.client.get(f"{base}/records")
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
    assert balancer.client.post("/topics/t", json={}).status_code == 200
    balancer.ask(f"set server rest/{home} state ready")
    await_that(lambda: balancer.client.get(f"{base}/records").status_code == 200, "its home answers")


def test_consumer_of_a_process_that_just_died_is_answered_by_no_other(
    balancer: Running, proxies: list[Proxy]
) -> None:
    for name in ("a", "b"):  # one in each process
        assert balancer.client.post("/consumers/g", json={"name": name}).status_code == 200
    proxies[0].stop()
    answers = [balancer.client.get(f"/consumers/g/instances/{name}/records") for name in ("a", "b")]
    assert sorted(a.status_code for a in answers) == [200, 503]
    assert next(a for a in answers if a.status_code == 503).json()["error_code"] == 50302
    # What was never sent goes to the other, also before a health check has noticed.
    assert [balancer.client.post("/topics/t", json={}).status_code for _ in range(4)] == [200] * 4


def test_a_host_whose_instances_all_refuse_costs_no_request(tmp_path: Path) -> None:
    proxies = [Proxy(f"rest{host}-{port}") for host in (1, 2) for port in (8082, 8083)]
    here, gone = proxies[:2], proxies[2:]
    for proxy in proxies:
        proxy.slow.clear()
    with running_balancer(proxies, tmp_path, "-db") as balancer, ThreadPoolExecutor() as pool:
        # Who still serves has requests; who refuses has none, and seems to be the one that is free.
        busy = [pool.submit(balancer.client.post, "/topics/slow", json={}) for _ in proxies]
        assert all(proxy.asked.wait(LIMIT_S) for proxy in proxies)
        for proxy in gone:
            proxy.stop()
            proxy.keeps = False
            proxy.slow.set()
        await_that(lambda: on_servers(balancer, *SERVERS) == [1, 1, 0, 0], "one host alone has requests")
        answers = [balancer.client.post("/topics/t", json={}).status_code for _ in range(8)]
        for proxy in here:
            proxy.slow.set()
        assert answers == [200] * 8
        assert [request.result().status_code for request in busy] == [200] * 4
    for proxy in here:
        proxy.stop()


def test_draining_home_still_answers_its_consumers(balancer: Running) -> None:
    base = balancer.client.post("/consumers/g", json={}).json()["base_uri"]
    home = "rest1:8082" if "8082" in base else "rest1:8083"
    balancer.ask(f"set server rest/{home} state drain")
    assert balancer.client.get(f"{base}/records").status_code == 200


def test_instance_whose_produce_fails_inside_a_200_is_taken_out(
    balancer: Running, proxies: list[Proxy]
) -> None:
    proxies[0].produced = ERROR_INSIDE
    await_that(lambda: balancer.status("rest1:8082").startswith("DOWN"), "it is out")
    assert balancer.status("rest1:8083").startswith("UP")
    proxies[0].produced = OFFSET
    await_that(lambda: balancer.status("rest1:8082").startswith("UP"), "it is in again")


def failed(msg: str) -> NoReturn:
    raise RuntimeError(msg)


def put_back(balancer: Running, seconds: int) -> None:
    """Put a server back that was in maintenance, as the module does."""
    params = {"socket": str(balancer.socket), "server": "rest/rest1:8082", "seconds": seconds}
    for state in ("maint", "ready"):
        balancer.ask(f"set server rest/rest1:8082 state {state}")
    await_up(SimpleNamespace(params=params, fail_json=failed), "rest", "rest1:8082")


def test_a_server_whose_check_fails_is_not_taken_for_put_back(
    balancer: Running, proxies: list[Proxy]
) -> None:
    proxies[0].produced = ERROR_INSIDE
    with pytest.raises(RuntimeError, match="is not up 2 s after it was put back: status DOWN"):
        put_back(balancer, 2)
    put_back(balancer, 0)


def test_a_server_is_put_back_when_a_check_has_passed(balancer: Running) -> None:
    put_back(balancer, LIMIT_S)
    assert balancer.status("rest1:8082") == "UP"


def test_a_process_from_before_a_reload_is_seen_until_its_last_request_is_answered(
    proxies: list[Proxy], tmp_path: Path
) -> None:
    with running_balancer(proxies, tmp_path, "-W") as balancer, ThreadPoolExecutor() as pool:
        path = str(balancer.socket)
        before = worker(path)
        assert former_workers(path) == []
        for proxy in proxies:
            proxy.slow.clear()
        answer = pool.submit(balancer.client.post, "/topics/slow", json={})
        await_that(lambda: any(on_servers(balancer)), "the request is with a proxy")
        os.kill(balancer.pid, signal.SIGUSR2)
        await_that(lambda: balancer.socket.exists() and worker(path) != before, "a new worker runs")
        assert former_workers(path) == [before]
        gone = {
            "socket": path,
            "server": "rest/rest9:8082",
            "state": "gone",
            "seconds": 1,
            "root": str(tmp_path),
        }
        refused = run_module("haproxy_drain", gone)
        assert refused["failed"]
        assert "HAProxy's process from before its reload still runs after 1 s" in refused["msg"]
        for proxy in proxies:
            proxy.slow.set()
        assert answer.result().status_code == 200
        await_that(lambda: former_workers(path) == [], "the worker from before is gone")


def sent(connection: socket.socket, path: str, body: str) -> str:
    """Send a request on a connection; return what is answered, empty where it was closed."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    connection.sendall(f"{head}\r\n\r\n{body}".encode())
    return connection.recv(65536).decode()


def test_an_idle_connection_is_answered_once_more_after_a_reload(
    proxies: list[Proxy], tmp_path: Path
) -> None:
    with running_balancer(proxies, tmp_path, "-W") as balancer, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", balancer.client.base_url.port)
        first, second = (stack.enter_context(socket.create_connection(address)) for _ in range(2))
        for connection in (first, second):
            assert " 200 " in sent(connection, "/topics/t", "{}")
        before = worker(str(balancer.socket))
        os.kill(balancer.pid, signal.SIGUSR2)
        await_that(lambda: answers(balancer.socket) not in (None, before), "a new worker runs")
        produced = sent(first, "/topics/t", "{}")
        assert " 200 " in produced and "connection: close" in produced.lower()
        # The new process would not know where this consumer lives.
        made = sent(second, "/consumers/g", '{"name": "mine"}')
        assert " 503 " in made and "Create the consumer again" in made
        assert not any(proxy.consumers for proxy in proxies)
        await_that(lambda: former_workers(str(balancer.socket)) == [], "the worker from before is gone")
        assert balancer.client.post("/consumers/g", json={"name": "mine"}).status_code == 200


def on_servers(balancer: Running, *servers: str) -> list[int]:
    return [in_flight(str(balancer.socket), server) for server in servers or SERVERS[:2]]


def bridges(version: str) -> str:
    """Return the balancer's file before two bridges of a host."""
    return file_of_plan(distribution="strimzi", version=version)


def test_a_proxy_that_makes_a_producer_for_each_check_is_asked_how_it_is() -> None:
    text = bridges("0.33.1")
    assert "http-check send meth GET uri /ready " in text
    assert "http-check expect status 200-299" in text
    assert "POST" not in text.partition("option httpchk")[2].partition("timeout check")[0]
    assert " port " not in text.partition("backend rest\n")[2]


def test_a_bridge_with_a_port_of_its_own_for_health_is_asked_there() -> None:
    servers = re.findall(r"server rest1:(\d+) rest1:\d+ id \d+ port (\d+)", bridges("1.1.0"))
    assert servers == [("8082", "9082"), ("8083", "9083")]
