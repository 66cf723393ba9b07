#!/usr/bin/python
"""Takes a server out of a balancer's rotation without dropping a request, and puts it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: haproxy_drain
short_description: Drain a server of HAProxy through its runtime socket, or put it back
description:
  - C(drain) sends no new request to the server and waits until those in flight have been answered. Consumers
    whose home it is go on asking it; after C(drain_seconds) they are told that it is down, and the last
    request is waited for. When the task is done the server has no request and gets none.
  - Of a server that leaves its C(members) in their groups when it stops, they are deleted in between, so that
    the groups go on with those that its clients make elsewhere.
  - A server that is up is not drained while another of its backend is not. One that has been down for less
    than 30 s is waited for, since a busy machine fails a health check without being broken. A server that has
    been down for longer carries nothing and may be drained, so that what is broken can be replaced.
  - C(gone) drains a server for good, if one of C(others) is up to carry its requests. With none up it is left
    in rotation, until the balancer is reloaded with the others in its place. Of a server that the balancer
    does not know, it waits for the requests that a process from before its reload still has there.
  - C(ready) puts it back and waits until its health check holds. With C(BACKEND/*) it puts back every server
    that a run left out of rotation when it was killed, and does not wait.
options:
  socket: {type: path, required: true, description: "The runtime socket, level admin."}
  server: {type: str, required: true, description: "BACKEND/SERVER, or BACKEND/*."}
  service: {type: str, description: "Name of the service in the evidence."}
  instance: {type: str, description: "Name of the instance in the evidence."}
  host: {type: str, description: "The instance's host in the evidence."}
  state: {type: str, choices: [drain, gone, ready], required: true, description: "What becomes true."}
  drain_seconds: {type: int, default: 0, description: "How long consumers of the server may go on asking it."}
  members: {type: list, elements: dict, default: [], description: "Members of groups (group, name)."}
  proxy: {type: str, description: "URL of the server itself, where members are deleted."}
  others:
    type: list
    elements: str
    default: []
    description: "Servers that stay, asked for where one is to be gone."
  beside:
    type: list
    elements: str
    default: []
    description: "Hosts of which an instance each restarts at the same time, and may be out."
  whole:
    type: bool
    default: false
    description: "Whether all servers of its host go, so that one of another host has to be up."
  seconds:
    type: int
    default: 60
    description: "How long to wait for the last request, or to be up. With 0, C(ready) does not wait."
author: Kedge
"""

EXAMPLES = r"""
- name: Have the balancer send the instance no new request
  haproxy_drain:
    socket: /run/rest-balancer/haproxy/admin.sock
    server: rest/rest1:8082
    state: drain
    drain_seconds: 10
    seconds: 60
  delegate_to: lb1
"""

RETURN = r"""
servers:
  description: With C(BACKEND/*), the servers that were put back.
  returned: with C(BACKEND/*)
  type: list
  elements: str
found:
  description: With C(BACKEND/*), each server's status before.
  returned: with C(BACKEND/*)
  type: dict
kedge_actions:
  description: What was done, and when, for the evidence of a run.
  returned: always
  type: list
  elements: dict
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.haproxy import ask, former_workers, in_flight, servers
from ansible.module_utils.rest_members import delete_members

POLL_SECONDS = 0.05
OUT = ("DRAIN", "MAINT")
#: A server that is down for longer does not come back by itself.
BRIEF_SECONDS = 30


def out_of_rotation(found: dict[str, dict[str, str]]) -> list[str]:
    """Return the servers that somebody took out and did not put back."""
    return sorted(n for n, s in found.items() if s["status"].startswith(OUT))


def host_of(name: str) -> str:
    """Return the host of a server, HOST:PORT."""
    return name.rpartition(":")[0]


def lacking(
    name: str, found: dict[str, dict[str, str]], beside: Sequence[str] = (), *, whole: bool = False
) -> list[str]:
    """Return the other servers that are not up.

    Of each host that restarts ``beside`` one server may be out, which the plan has counted; with ``whole``
    all those of its own host.
    """
    down = sorted(n for n, s in found.items() if n != name and not s["status"].startswith("UP"))
    down = [n for n in down if not whole or host_of(n) != host_of(name)]
    counted = {host: next((n for n in down if host_of(n) == host), None) for host in beside}
    return [n for n in down if n not in counted.values()]


def refusal(
    state: str,
    name: str,
    found: dict[str, dict[str, str]],
    beside: Sequence[str] = (),
    *,
    whole: bool = False,
) -> str | None:
    """Return why a server must not be taken out, or None: the others have to carry its requests."""
    if name not in found:
        if state == "gone":
            return None
        return (
            f"Refusing to {state} {name}: the balancer has no such server. Nothing was stopped. Run "
            "deploy.yml, which adds it"
        )
    if whole and not any(
        s["status"].startswith("UP") for n, s in found.items() if host_of(n) != host_of(name)
    ):
        return (
            f"Refusing to drain {name}: no instance of another host is up. Nothing was stopped, and {name} "
            "serves. Start one on another host, then run the playbook again"
        )
    down = lacking(name, found, beside, whole=whole)
    if state == "drain" and down and not stays_down(found[name]):
        said = ", ".join(f"{other} is {found[other]['status']}" for other in down)
        return (
            f"Refusing to drain {name}: {said}. Nothing was stopped, and {name} serves. "
            f"{_restore(down[0], found[down[0]]['status'])}, then run the playbook again"
        )
    return None


def _restore(name: str, status: str) -> str:
    """Return what brings a server back: one that was taken out by hand, or one that fails its check."""
    if status.startswith(OUT):
        return f"Put {name} back (docs/runbook.md, Servers of a balancer)"
    host, _, instance = name.rpartition(":")
    return f"Restore it (`systemctl status kafka-rest@{instance}` on {host})"


def may_come_back(
    name: str, found: dict[str, dict[str, str]], beside: Sequence[str] = (), *, whole: bool = False
) -> bool:
    """Return whether all that lack have been down only briefly; one that was taken out stays out."""
    # Of one that is down itself it is not known yet whether it carries something.
    lack = lacking(name, found, beside, whole=whole)
    down = [found[name]] if is_down(found[name]) else [found[n] for n in lack]
    brief = [is_down(server) and not stays_down(server) for server in down]
    return bool(brief) and all(brief)


def is_down(server: dict[str, str]) -> bool:
    """Return whether a server's health check says that it is down."""
    return server["status"].startswith("DOWN")


def stays_down(server: dict[str, str]) -> bool:
    """Return whether a server has been down for so long that it carries nothing."""
    return is_down(server) and int(server["lastchg"] or 0) >= BRIEF_SECONDS


def carried(found: dict[str, dict[str, str]], others: list[str]) -> bool:
    """Return whether one of the servers that stay takes requests."""
    return any(found[name]["status"].startswith("UP") for name in others if name in found)


def change(module: AnsibleModule, state: str, server: str | None = None) -> None:
    """Tell the balancer; its answer is empty when it did as it was told."""
    server = server or module.params["server"]
    if answer := ask(module.params["socket"], f"set server {server} state {state}"):
        module.fail_json(
            msg=f"{server}: HAProxy refuses to set it to {state}: {answer}. It keeps its state, and was not "
            "stopped. See `journalctl -u rest-balancer@haproxy` there, then run the playbook again"
        )


def await_true(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds; return whether it does."""
    deadline = time.monotonic() + seconds
    while not (true := holds()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return true


def drain(module: AnsibleModule, name: str) -> None:
    """Take the server out: first of new requests, then of its consumers' as well; it ends with none."""
    p = module.params

    def idle() -> bool:
        return bool(in_flight(p["socket"], name) == 0)

    change(module, "drain")
    await_true(idle, p["drain_seconds"])
    if p["members"]:
        delete_members({"url": p["proxy"]}, p["members"])
    # Also where it is idle now: a consumer's next request would be cut by the stop.
    change(module, "maint")
    if not await_true(idle, p["seconds"]):
        left = in_flight(p["socket"], name)
        change(module, "ready")
        module.fail_json(
            msg=f"{p['server']}: {left} requests are still in flight {p['seconds']} s after the last was "
            "sent there. It was not stopped and serves again. See in its journal what the requests wait for, "
            "then run the playbook again"
        )


def undrain(module: AnsibleModule, backend: str, name: str) -> None:
    """Put the server back and wait until a check of its health has passed since, unless for 0 seconds."""
    p = module.params

    def status() -> str:
        return str(servers(p["socket"], backend)[name]["status"])

    change(module, "ready")
    # HAProxy takes a server that leaves maintenance for up, as "UP 1/3", before it has checked it.
    if p["seconds"] and not await_true(lambda: status() == "UP", p["seconds"]):
        module.fail_json(
            msg=f"{p['server']} is not up {p['seconds']} s after it was put back: status {status()}. The "
            "other servers serve, and no further instance was touched. See its journal; the balancer takes "
            "it back as soon as its health check holds. Then run the playbook again"
        )


def await_former(module: AnsibleModule) -> None:
    """Wait until processes from before a reload have ended; they have what the server was asked by them."""
    p = module.params
    if not await_true(lambda: not former_workers(p["socket"]), p["seconds"]):
        module.fail_json(
            msg=f"{p['server']}: HAProxy's process from before its reload still runs after {p['seconds']} s, "
            "with requests that may be this server's. The server was not stopped, and serves those. Run "
            "deploy.yml again when that process has ended"
        )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "path", "required": True},
            "server": {"type": "str", "required": True},
            "service": {"type": "str"},
            "instance": {"type": "str"},
            "host": {"type": "str"},
            "state": {"type": "str", "choices": ["drain", "gone", "ready"], "required": True},
            "drain_seconds": {"type": "int", "default": 0},
            "members": {"type": "list", "elements": "dict", "default": []},
            "proxy": {"type": "str"},
            "beside": {"type": "list", "elements": "str", "default": []},
            "others": {"type": "list", "elements": "str", "default": []},
            "whole": {"type": "bool", "default": False},
            "seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    p: dict[str, Any] = module.params
    backend, name = p["server"].split("/", 1)
    began = time.time_ns() // 1000
    try:
        found = servers(p["socket"], backend)
        if name == "*":
            left = out_of_rotation(found)
            for server in left if not module.check_mode else []:
                change(module, "ready", f"{backend}/{server}")
            statuses = {each: row["status"] for each, row in found.items()}
            module.exit_json(changed=bool(left), servers=left, found=statuses, kedge_actions=[])
        deadline = time.monotonic() + p["seconds"]
        counted = {"beside": p["beside"], "whole": p["whole"]}
        while wrong := refusal(p["state"], name, found, **counted):
            if time.monotonic() > deadline or not may_come_back(name, found, **counted):
                module.fail_json(msg=f"{p['server']}: {wrong}")
            time.sleep(POLL_SECONDS)
            found = servers(p["socket"], backend)
        if module.check_mode:
            module.exit_json(changed=name in found, kedge_actions=[])
        if name not in found:
            await_former(module)
            module.exit_json(changed=False, kedge_actions=[])
        if p["state"] == "gone" and not carried(found, p["others"]):
            module.exit_json(changed=False, kedge_actions=[], msg="left, for no other is up to take over")
        if p["state"] == "ready":
            undrain(module, backend, name)
        else:
            drain(module, name)
    except OSError as error:
        if module.check_mode:
            module.exit_json(changed=False, msg=f"{p['socket']}: {error}", kedge_actions=[])
        module.fail_json(
            msg=f"{p['socket']}: {error}: HAProxy does not answer. {p['server']} was not stopped by this "
            "task. See `systemctl status rest-balancer@haproxy` there and start it, then run the playbook "
            "again"
        )
    action = {
        "host": p["host"],
        "service": p["service"],
        "instance": p["instance"],
        "action": "undrain" if p["state"] == "ready" else "drain",
        "started_us": began,
        "ended_us": time.time_ns() // 1000,
        "ok": True,
    }
    module.exit_json(changed=True, kedge_actions=[action])


if __name__ == "__main__":
    main()
