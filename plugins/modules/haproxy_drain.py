#!/usr/bin/python
"""Takes a server out of a balancer's rotation without dropping a request, and puts it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: haproxy_drain
short_description: Drain a server of HAProxy through its runtime socket, or put it back
description:
  - C(drain) sends no new request to the server and waits until those in flight have been answered.
  - C(ready) puts it back and waits until its health check holds.
options:
  socket: {type: path, required: true, description: "The runtime socket, level admin."}
  server: {type: str, required: true, description: "BACKEND/SERVER."}
  service: {type: str, required: true, description: "Name of the service in the evidence."}
  instance: {type: str, required: true, description: "Name of the instance in the evidence."}
  host: {type: str, required: true, description: "The instance's host in the evidence."}
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


def ask(path: str, command: str) -> str:
    """Send one command to the runtime socket and return the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        connection.sendall(command.encode() + b"\n")
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces).decode().strip()


def row(path: str, server: str) -> dict[str, str] | None:
    """Return the statistics of a server, or None when the balancer has none of that name."""
    backend, name = server.split("/", 1)
    text = ask(path, "show stat").lstrip("# ")
    rows = csv.DictReader(io.StringIO(text))
    return next((r for r in rows if r["pxname"] == backend and r["svname"] == name), None)


def reached(state: str, server: dict[str, str]) -> bool:
    """Return whether the server is where it should be: without requests, or up."""
    if state == "drain":
        return server["scur"] == "0" and server["qcur"] == "0"
    return server["status"].startswith("UP")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "path", "required": True},
            "server": {"type": "str", "required": True},
            "service": {"type": "str", "required": True},
            "instance": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drain", "ready"], "required": True},
            "seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    p: dict[str, Any] = module.params
    if module.check_mode:
        module.exit_json(changed=True, kedge_actions=[])
    began = time.time_ns() // 1000
    try:
        found = row(p["socket"], p["server"])
        if found is None:
            module.fail_json(msg=f"{p['server']}: the balancer has no such server; deploy it first")
        answer = ask(p["socket"], f"set server {p['server']} state {p['state']}")
        deadline = time.monotonic() + p["seconds"]
        while not (found := row(p["socket"], p["server"])) or not reached(p["state"], found):
            if time.monotonic() > deadline:
                module.fail_json(
                    msg=f"{p['server']} is not {p['state']} after {p['seconds']} s: status "
                    f"{found and found['status']}, requests in flight {found and found['scur']}"
                )
            time.sleep(POLL_SECONDS)
    except OSError as error:
        module.fail_json(msg=f"{p['socket']}: {error}; is HAProxy running?")
    action = {
        "host": p["host"],
        "service": p["service"],
        "instance": p["instance"],
        "action": "drain" if p["state"] == "drain" else "undrain",
        "started_us": began,
        "ended_us": time.time_ns() // 1000,
        "ok": not answer,
    }
    module.exit_json(changed=True, kedge_actions=[action])


if __name__ == "__main__":
    main()
