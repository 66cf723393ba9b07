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
  - A playbook that drains holds the balancer (M(kedge_lease)), and notes on its host what it takes out. What
    another run took out that still runs, or somebody by hand, it does not put back, and names. An instance
    that somebody took out by hand is out again when its restart has ended. C(ready) by hand, of one server,
    also puts back what was taken out by hand.
options:
  socket:
    type: path
    default: /run/rest-balancer/haproxy/admin.sock
    description: "The runtime socket, level admin."
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
  root: {type: path, default: /var/lib/kedge, description: "Where the record of what is out is kept."}
  run: {type: dict, default: {}, description: "Set by Kedge: the run of the playbook (id, who, playbook)."}
  reason: {type: str, default: "", description: "Set by Kedge: what the server is taken out for."}
  ended: {type: list, elements: str, default: [], description: "Set by Kedge: runs that have ended."}
author: Kedge
"""

EXAMPLES = r"""
- name: Have the balancer send the instance no new request
  haproxy_drain:
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
left:
  description: With C(BACKEND/*), who took those out that were left out.
  returned: with C(BACKEND/*)
  type: dict
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.drain_record import Drain, new_drain, read, told, whose, write
from ansible.module_utils.haproxy import SOCKET, ask, former_workers, in_flight, servers, taken_out
from ansible.module_utils.leases import holder, said, take
from ansible.module_utils.node_lock import ROOT, held
from ansible.module_utils.rest_members import delete_members

POLL_SECONDS = 0.05
#: A server that is down for longer does not come back by itself.
BRIEF_SECONDS = 30
UNIT = "rest-balancer"
SERVICE = "rest_balancer"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "socket": {"type": "path", "default": SOCKET},
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
    "root": {"type": "path", "default": str(ROOT)},
    "run": {"type": "dict", "default": {}},
    "reason": {"type": "str", "default": ""},
    "ended": {"type": "list", "elements": "str", "default": []},
}


@dataclass
class Looked:
    """What a balancer has: its servers, which are out and how, and who took them out."""

    file: Path
    backend: str
    found: dict[str, dict[str, str]]
    out: dict[str, str]
    drains: dict[str, Drain]

    def drain(self, name: str) -> Drain | None:
        """Return what is noted of a server that is out."""
        return self.drains.get(f"{self.backend}/{name}")

    def note(self, name: str, drain: Drain | None) -> None:
        """Note that a server is taken out, or with None that it is not any more."""
        before = self.drains.pop(f"{self.backend}/{name}", None)
        if drain:
            self.drains[f"{self.backend}/{name}"] = drain
        if before or drain:
            write(self.file, self.drains)


@contextmanager
def looking(module: AnsibleModule, backend: str) -> Iterator[Looked]:
    """Look at the balancer; until the end nobody else takes out or puts back what depends on it."""
    p = module.params
    file = Path(p["root"]) / UNIT / "drained.json"
    with nullcontext() if module.check_mode else held(UNIT, root=Path(p["root"])):
        out = taken_out(p["socket"], backend)
        # What is in rotation again was put back by hand, or by a balancer that started anew.
        noted = {
            n: d
            for n, d in read(file).items()
            if n.split("/", 1)[1] in out or not n.startswith(f"{backend}/")
        }
        yield Looked(file, backend, servers(p["socket"], backend), out, noted)


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
    who: Callable[[str], tuple[str, str]] = lambda _: ("", ""),
) -> str | None:
    """Return why a server must not be taken out, or None: the others have to carry its requests.

    ``who`` says of a server that is out whose drain that is, and who took it out.
    """
    if name not in found:
        if state == "gone":
            return None
        return (
            f"Refusing to {state} {name}: the balancer has no such server. Nothing was stopped. Run "
            "deploy.yml, which adds it"
        )
    whom, by = who(name)
    if whom == "running":
        return (
            f"Refusing to drain {name}: it was taken out {by}. Nothing was stopped. Wait until that "
            "one has ended, then run the playbook again"
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
        out = {other: taken for other in down if (taken := who(other))[0]}
        said = ", ".join(
            f"{other} was taken out {out[other][1]}"
            if other in out
            else f"{other} is {found[other]['status']}"
            for other in down
        )
        return (
            f"Refusing to drain {name}: {said}. Nothing was stopped, and {name} serves. "
            f"{_restore(down[0], out.get(down[0], ('', ''))[0])}, then run the playbook again"
        )
    return None


def _restore(name: str, whom: str) -> str:
    """Return what brings a server back: one that was taken out, or one that fails its check."""
    if whom == "running":
        return "Wait until that one has ended"
    if whom == "hand":
        return f"Ask who did, or put {name} back (docs/runbook.md, Servers of a balancer)"
    if whom:
        return f"Run deploy.yml, which puts {name} back"
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


def drain(module: AnsibleModule, name: str, back_to: str = "ready") -> int:
    """Rid a drained server of its consumers as well; return its requests, 0 unless it was put back."""
    p = module.params

    def idle() -> bool:
        return bool(in_flight(p["socket"], name) == 0)

    await_true(idle, p["drain_seconds"])
    if p["members"]:
        delete_members({"url": p["proxy"]}, p["members"])
    # Also where it is idle now: a consumer's next request would be cut by the stop.
    change(module, "maint")
    if await_true(idle, p["seconds"]):
        return 0
    left = in_flight(p["socket"], name)
    change(module, back_to)
    return int(left)


def take_out(module: AnsibleModule, backend: str, name: str) -> None:
    """Take the server out: first of new requests, then of its consumers' as well; it ends with none."""
    p = module.params
    counted = {"beside": p["beside"], "whole": p["whole"]}
    deadline = time.monotonic() + p["seconds"]
    while True:
        with looking(module, backend) as looked:
            wrong = refusal(p["state"], name, looked.found, **counted, who=asking(module, looked))
            if not wrong:
                before = begin(module, looked, name)
                break
        if time.monotonic() > deadline or not may_come_back(name, looked.found, **counted):
            module.fail_json(msg=f"{p['server']}: {wrong}", runs=running(module, looked))
        time.sleep(POLL_SECONDS)
    if before is None:
        await_former(module)
        module.exit_json(changed=False, kedge_actions=[])
    elif left := drain(module, name, before):
        serves = "serves again" if before == "ready" else "is out as before"
        with looking(module, backend) as looked:
            looked.note(name, None)
        module.fail_json(
            msg=f"{p['server']}: {left} requests are still in flight {p['seconds']} s after the last was "
            f"sent there. It was not stopped and {serves}. See in its journal what the requests wait for, "
            "then run the playbook again"
        )


def begin(module: AnsibleModule, looked: Looked, name: str) -> str | None:
    """Begin to drain a server that may be; return what it goes back to, None of one that is not there."""
    p = module.params
    if module.check_mode:
        module.exit_json(changed=name in looked.found, kedge_actions=[])
    if name not in looked.found:
        return None
    if p["state"] == "gone" and not carried(looked.found, p["others"]):
        module.exit_json(changed=False, kedge_actions=[], msg="left, for no other is up to take over")
    # Who drains holds the balancer: who finds the record knows whether that one still runs.
    theirs = take(p["run"], [SERVICE], p["ended"], Path(p["root"])) if p["run"] else {}
    if theirs:
        module.fail_json(
            msg=f"Refusing to drain {name}: {SERVICE} is held {said(theirs[SERVICE])}. Nothing was stopped, "
            f"and {name} serves. Wait until that run has ended, then run the playbook again",
            runs=[theirs[SERVICE]["run"]["id"]],
        )
    drain = looked.drain(name)
    before = drain["before"] if drain else looked.out.get(name, "ready")
    # Before it is done: of a run that is killed in between, the record names what is in rotation.
    looked.note(name, new_drain(p["run"], p["state"], before, p["reason"]) if p["run"] else None)
    change(module, "maint" if looked.out.get(name) == "maint" else "drain")
    return str(before)


def asking(module: AnsibleModule, looked: Looked) -> Callable[[str], tuple[str, str]]:
    """Return what says of a server whose drain it is, and who took it out."""
    p = module.params
    run, holds = p["run"], holder(SERVICE, Path(p["root"]), p["ended"])

    def who(name: str) -> tuple[str, str]:
        if name not in looked.out:
            return "", ""
        return whose(looked.drain(name), run, holds), told(looked.drain(name), run, holds)

    return who


def running(module: AnsibleModule, looked: Looked) -> list[str]:
    """Return the ids of other runs that count as running; the control machine may know better."""
    who = asking(module, looked)
    return sorted(
        {str(d["run"]["id"]) for n in looked.out if who(n)[0] == "running" and (d := looked.drain(n))}
    )


def put_back(module: AnsibleModule, backend: str, name: str) -> None:
    """Put the server back, unless somebody else took it out, and wait until it is up."""
    p = module.params
    with looking(module, backend) as looked:
        if wrong := refusal("ready", name, looked.found):
            module.fail_json(msg=f"{p['server']}: {wrong}")
        whom, by = asking(module, looked)(name)
        runs = running(module, looked)
        if whom == "running" and not p["run"]:
            module.fail_json(
                msg=f"Refusing to put back {name}: it was taken out {by}. It was not put back. Wait until "
                "that run has ended, then run the command again",
                runs=runs,
            )
        theirs = whom in ("running", "hand") and bool(p["run"])
        if theirs:
            module.warn(f"{name} stays out at the balancer: it was taken out {by}")
        if theirs or module.check_mode:
            module.exit_json(changed=not theirs, kedge_actions=[], runs=runs)
        drain = looked.drain(name)
        back_to = drain["before"] if drain and p["run"] else "ready"
        change(module, back_to)
        looked.note(name, None)
    if back_to == "ready":
        await_up(module, backend, name)


def await_up(module: AnsibleModule, backend: str, name: str) -> None:
    """Wait until a check of its health has passed since a server was put back, unless for 0 seconds."""
    p = module.params

    def status() -> str:
        return str(servers(p["socket"], backend)[name]["status"])

    # HAProxy takes a server that leaves maintenance for up, as "UP 1/3", before it has checked it.
    if p["seconds"] and not await_true(lambda: status() == "UP", p["seconds"]):
        module.fail_json(
            msg=f"{p['server']} is not up {p['seconds']} s after it was put back: status {status()}. The "
            "other servers serve, and no further instance was touched. See its journal; the balancer takes "
            "it back as soon as its health check holds. Then run the playbook again"
        )


def put_all_back(module: AnsibleModule, backend: str) -> None:
    """Put back what runs left out that have ended."""
    with looking(module, backend) as looked:
        who = asking(module, looked)
        back = sorted(name for name in looked.out if who(name)[0] in ("own", "ended"))
        left = {name: f"taken out {who(name)[1]}" for name in sorted(looked.out) if name not in back}
        for name in back if not module.check_mode else []:
            change(module, looked.drains[f"{backend}/{name}"]["before"], f"{backend}/{name}")
            looked.note(name, None)
    for name, by in left.items() if module.params["run"] else ():
        module.warn(f"{name} stays out at the balancer: {by}")
    statuses = {name: row["status"] for name, row in looked.found.items()}
    module.exit_json(
        changed=bool(back),
        servers=back,
        left=left,
        found=statuses,
        runs=running(module, looked),
        kedge_actions=[],
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
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    play(module)


def play(module: AnsibleModule) -> None:
    """Do what is asked for."""
    p: dict[str, Any] = module.params
    backend, name = p["server"].split("/", 1)
    began = time.time_ns() // 1000
    try:
        if name == "*":
            put_all_back(module, backend)
        elif p["state"] == "ready":
            put_back(module, backend, name)
        else:
            take_out(module, backend, name)
    except (TimeoutError, ValueError) as error:
        module.fail_json(msg=str(error), kedge_actions=[])
    except OSError as error:
        if module.check_mode:
            module.exit_json(changed=False, msg=f"{p['socket']}: {error}", kedge_actions=[])
        module.fail_json(
            msg=f"{p['socket']}: {error}: HAProxy does not answer. {p['server']} was not stopped by this "
            "task, but may be drained. See `systemctl status rest-balancer@haproxy` there and start it, or "
            "restart it if it hangs, then run deploy.yml, which puts back what was drained"
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
