#!/usr/bin/python
"""Compares how servers of a balancer answer with how the others do."""

from __future__ import annotations

DOCUMENTATION = r"""
module: haproxy_compare
short_description: Hold servers of HAProxy that were changed against those that were not
description:
  - Without C(servers) it answers with what was counted of each server so far, for a later call.
  - With C(servers) it fails where more of their requests failed since, or where they answer more slowly than
    the others by more than C(worse_percent). A server that got no request is compared with nothing.
options:
  socket: {type: path, default: /run/rest-balancer/haproxy/admin.sock, description: "The runtime socket."}
  backend: {type: str, required: true, description: "The backend that holds the servers."}
  servers: {type: list, elements: str, default: [], description: "Those that were changed."}
  since: {type: dict, default: {}, description: "What an earlier call counted."}
  worse_percent: {type: int, default: 0, description: "How much slower they may answer."}
  seconds: {type: int, default: 0, description: "How long to wait until each server in rotation was checked."}
author: Kedge
"""

EXAMPLES = r"""
- name: Count what the balancer has of each instance by now
  haproxy_compare:
    backend: rest
  delegate_to: lb1
  register: counted

- name: See the first instance answer as well as those that were not changed
  haproxy_compare:
    backend: rest
    servers: ["rest1:8082"]
    since: "{{ counted.counts }}"
    worse_percent: 100
  delegate_to: lb1
"""

RETURN = r"""
counts:
  description: Server to its requests and failures so far, and the mean milliseconds of its last answers.
  returned: always
  type: dict
up:
  description: Servers that are up.
  returned: always
  type: list
  elements: str
down:
  description: Servers that fail their health check.
  returned: always
  type: list
  elements: str
"""

import time
from collections.abc import Mapping, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.haproxy import SOCKET, is_unchecked
from ansible.module_utils.haproxy import servers as statistics

#: Failed requests and connections; HAProxy, management guide, 9.1.
FAILURES = ("hrsp_5xx", "econ", "eresp")
#: A share of requests, in percent, and a time that make no difference to anybody.
NO_MATTER_PERCENT = 1.0
NO_MATTER_MS = 10
POLL_SECONDS = 0.1
Counts = Mapping[str, Mapping[str, int]]


def checked(path: str, backend: str, seconds: float) -> dict[str, dict[str, str]]:
    """Return the statistics of servers once each in rotation was checked, or time is up.

    Until then a server counts as up: a process has just started, such as that of a reload.
    """
    deadline = time.monotonic() + seconds
    while True:
        found: dict[str, dict[str, str]] = statistics(path, backend)
        if time.monotonic() >= deadline or not any(
            is_unchecked(row) and row["status"].startswith("UP") for row in found.values()
        ):
            return found
        time.sleep(POLL_SECONDS)


def count(found: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Return the requests and failures of each server, and the mean time of its last 1024 answers."""
    return {
        name: {
            "requests": int(row["stot"] or 0),
            "failed": sum(int(row[key] or 0) for key in FAILURES),
            "answer_ms": int(row["rtime"] or 0),
        }
        for name, row in found.items()
    }


def worse(changed: Sequence[str], since: Counts, now: Counts, percent: int) -> str | None:
    """Return in what the changed servers are worse than the others, or None."""
    mine = _sum([name for name in now if name in changed], since, now)
    others = _sum([name for name in now if name not in changed], since, now)
    if not mine["requests"] or not others["requests"]:
        return None
    share, theirs = (100 * one["failed"] / one["requests"] for one in (mine, others))
    if share > theirs * (1 + percent / 100) + NO_MATTER_PERCENT:
        return (
            f"{share:.1f} percent of its requests failed, and {theirs:.1f} of those of instances not changed"
        )
    slow, allowed = mine["answer_ms"], others["answer_ms"] * (1 + percent / 100) + NO_MATTER_MS
    if slow > allowed:
        return (
            f"it answers in {slow:.0f} ms, instances not changed in {others['answer_ms']:.0f} ms, and "
            f"{allowed:.0f} ms are allowed"
        )
    return None


def _sum(names: Sequence[str], since: Counts, now: Counts) -> dict[str, float]:
    """Return what servers got since, a server that was started anew counted from nothing."""
    found = {"requests": 0.0, "failed": 0.0, "answer_ms": 0.0}
    for name in names:
        before = since.get(name, {})
        got = {key: now[name][key] - int(before.get(key, 0)) for key in ("requests", "failed")}
        if got["requests"] < 0:
            got = {key: now[name][key] for key in got}
        found["requests"] += got["requests"]
        found["failed"] += got["failed"]
        found["answer_ms"] += now[name]["answer_ms"] * got["requests"]
    found["answer_ms"] /= found["requests"] or 1
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "path", "default": SOCKET},
            "backend": {"type": "str", "required": True},
            "servers": {"type": "list", "elements": "str", "default": []},
            "since": {"type": "dict", "default": {}},
            "worse_percent": {"type": "int", "default": 0},
            "seconds": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    p = module.params
    try:
        found = checked(p["socket"], p["backend"], p["seconds"])
        now = count(found)
    except OSError as error:
        module.fail_json(
            msg=f"{p['socket']}: {error}: HAProxy does not answer. Nothing was stopped by this task. "
            "See `systemctl status rest-balancer@haproxy` there and start it, then run the playbook again"
        )
    if p["servers"] and (wrong := worse(p["servers"], p["since"], now, p["worse_percent"])):
        module.fail_json(msg=f"{', '.join(p['servers'])}: {wrong}", counts=now)
    up, down = (sorted(n for n, row in found.items() if row["status"].startswith(s)) for s in ("UP", "DOWN"))
    module.exit_json(changed=False, counts=now, up=up, down=down)


if __name__ == "__main__":
    main()
