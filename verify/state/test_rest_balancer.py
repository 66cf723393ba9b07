"""The balancer: it runs, listens where clients come, and sees every instance up."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from verify.state.conftest import Instances, opened, value

testinfra_hosts = ["ansible://rest_balancer"]
RUN = "/run/rest-balancer/haproxy"
Planned = Callable[[str], Instances]


def test_haproxy_runs_and_starts_with_the_host(host: Any) -> None:
    assert host.service("rest-balancer@haproxy").is_running
    assert host.service("rest-balancer@haproxy").is_enabled


def test_haproxy_listens_where_clients_come(host: Any, planned: Planned) -> None:
    for instance in planned("rest_balancer"):
        assert value(instance, "bind").replace("0.0.0.0:", "*:") in opened(host)


def test_every_planned_instance_is_up(host: Any, planned: Planned) -> None:
    ask = (
        f"import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect('{RUN}/admin.sock'); "
        "s.sendall(b'show stat\\n'); print(b''.join(iter(lambda: s.recv(65536), b'')).decode())"
    )
    text = host.check_output("python3 -c %s", ask)
    rows = csv.DictReader(io.StringIO(text.lstrip("# ")))
    status = {row["svname"]: row["status"] for row in rows if row["pxname"] == "rest"}
    for instance in planned("rest_balancer"):
        servers = [s["key"].split()[1] for s in instance["settings"] if s["key"].startswith("server ")]
        assert {name: status.get(name) for name in servers} == dict.fromkeys(servers, "UP")


def test_the_sockets_are_for_root_and_the_balancer_alone(host: Any) -> None:
    for name in ("admin", "peers"):
        socket = host.file(f"{RUN}/{name}.sock")
        assert (socket.user, socket.mode) == ("rest-balancer", 0o600)
