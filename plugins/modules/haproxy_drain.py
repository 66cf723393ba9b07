#!/usr/bin/python
"""Takes a server out of a balancer's rotation without dropping a request, and puts it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: haproxy_drain
short_description: Drain a server of HAProxy through its runtime socket, or put it back
description:
  - C(drain) sends no new request to the server and waits until those in flight have been answered.
  - A server is not drained while another of its backend is not up.
  - C(ready) puts it back and waits until its health check holds. With C(BACKEND/*) it puts back every server
    that a run left out of rotation when it was killed, and does not wait.
options:
  socket: {type: path, required: true, description: "The runtime socket, level admin."}
  server: {type: str, required: true, description: "BACKEND/SERVER, or BACKEND/*."}
  service: {type: str, description: "Name of the service in the evidence."}
  instance: {type: str, description: "Name of the instance in the evidence."}
  host: {type: str, description: "The instance's host in the evidence."}
  state: {type: str, choices: [drain, ready], required: true, description: "What becomes true."}
  seconds: {type: int, default: 60, description: "How long to wait."}
author: Kedge
"""

import csv
import io
import socket
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

POLL_SECONDS = 0.05
#: Rows of the statistics that are no server.
TOTALS = ("FRONTEND", "BACKEND")


def ask(path: str, command: str) -> str:
    """Send one command to the runtime socket and return the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        connection.sendall(command.encode() + b"\n")
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces).decode().strip()


def rows(path: str, backend: str) -> dict[str, dict[str, str]]:
    """Return the statistics of a backend's servers by name."""
    text = ask(path, "show stat").lstrip("# ")
    found = csv.DictReader(io.StringIO(text))
    return {r["svname"]: r for r in found if r["pxname"] == backend and r["svname"] not in TOTALS}


def reached(state: str, server: dict[str, str]) -> bool:
    """Return whether the server is where it should be: out of rotation without requests, or up."""
    if state == "drain":
        return server["status"].startswith(("DRAIN", "MAINT")) and server["scur"] == server["qcur"] == "0"
    return server["status"].startswith("UP")


def out_of_rotation(servers: dict[str, dict[str, str]]) -> list[str]:
    """Return the servers that somebody took out and did not put back."""
    return sorted(n for n, s in servers.items() if s["status"].startswith(("DRAIN", "MAINT")))


def refusal(state: str, name: str, servers: dict[str, dict[str, str]]) -> str | None:
    """Return why a server must not be taken out, or None: the others have to carry its requests."""
    if name not in servers:
        return "the balancer has no such server; deploy it first"
    down = sorted(n for n, s in servers.items() if n != name and not s["status"].startswith("UP"))
    if state == "drain" and down:
        return f"not drained, because {', '.join(down)} is not up; see what ails it first"
    return None


def change(module: AnsibleModule, server: str, state: str) -> None:
    """Tell the balancer; its answer is empty when it did as it was told."""
    path = module.params["socket"]
    if answer := ask(path, f"set server {server} state {state}"):
        module.fail_json(msg=f"{server}: HAProxy refuses to set it to {state}: {answer}")


def wait(module: AnsibleModule, backend: str, name: str) -> None:
    """Wait until the server is where it should be."""
    p = module.params
    deadline = time.monotonic() + p["seconds"]
    while not reached(p["state"], found := rows(p["socket"], backend)[name]):
        if time.monotonic() > deadline:
            module.fail_json(
                msg=f"{p['server']} is not {p['state']} after {p['seconds']} s: status {found['status']}, "
                f"requests in flight {found['scur']}"
            )
        time.sleep(POLL_SECONDS)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "path", "required": True},
            "server": {"type": "str", "required": True},
            "service": {"type": "str"},
            "instance": {"type": "str"},
            "host": {"type": "str"},
            "state": {"type": "str", "choices": ["drain", "ready"], "required": True},
            "seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    p: dict[str, Any] = module.params
    backend, name = p["server"].split("/", 1)
    began = time.time_ns() // 1000
    try:
        servers = rows(p["socket"], backend)
        if name == "*":
            left = out_of_rotation(servers)
            for server in left if not module.check_mode else []:
                change(module, f"{backend}/{server}", "ready")
            module.exit_json(changed=bool(left), servers=left, kedge_actions=[])
        if wrong := refusal(p["state"], name, servers):
            module.fail_json(msg=f"{p['server']}: {wrong}")
        if module.check_mode:
            module.exit_json(changed=not reached(p["state"], servers[name]), kedge_actions=[])
        change(module, p["server"], p["state"])
        wait(module, backend, name)
    except OSError as error:
        if module.check_mode:
            module.exit_json(changed=False, msg=f"{p['socket']}: {error}", kedge_actions=[])
        module.fail_json(msg=f"{p['socket']}: {error}; is HAProxy running?")
    action = {
        "host": p["host"],
        "service": p["service"],
        "instance": p["instance"],
        "action": "drain" if p["state"] == "drain" else "undrain",
        "started_us": began,
        "ended_us": time.time_ns() // 1000,
        "ok": True,
    }
    module.exit_json(changed=True, kedge_actions=[action])


if __name__ == "__main__":
    main()
