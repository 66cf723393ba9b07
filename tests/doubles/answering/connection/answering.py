"""A double of a host: it answers a module at once, or after the time that one was measured to take."""

from __future__ import annotations

DOCUMENTATION = r"""
name: answering
short_description: Answer modules as hosts do that have all that is planned
description:
  - No host is behind it. For fleets that no machine can run, to see what the control machine does.
options: {}
author: Kedge
"""

import ast
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

_CALL = re.compile(r"ansible_module=(?P<module>'[^']*')")
_PARAMETERS = re.compile(r"^\s*params=(?P<params>['\"].*['\"]),$", re.MULTILINE)
#: Seconds of a module call over SSH, and of one that restarts an instance; DESIGN, and the bench.
CALL_SECONDS, RESTART_SECONDS = 0.23, 8.0


class Connection(ConnectionBase):
    """Notes each call in the file that KEDGE_CALLS names; KEDGE_ANSWER_SCALE multiplies the times.

    ``KEDGE_FAILS`` is a host and a module that fails there, ``KEDGE_GONE`` one with which the host is gone.
    ``KEDGE_SAYS`` is a file of answers (JSON), by host and module: what a host says that somebody else has.
    ``KEDGE_NO_WAY_BACK`` is why no instance has a former release; with ``KEDGE_ASKED_OTHERWISE`` the former ones answer another health check.
    """

    transport = "answering"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def is_pipelining_enabled(self, wrap_async: bool = False) -> bool:
        """Take modules as all hosts of the kit do, in one round trip."""
        return not wrap_async

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Answer."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        text = (in_data or b"").decode(errors="replace")
        found = _CALL.search(text)
        module = ast.literal_eval(found["module"]).rpartition(".")[2] if found else "command"
        given = _PARAMETERS.search(text)
        parameters = json.loads(ast.literal_eval(given["params"]))["ANSIBLE_MODULE_ARGS"] if given else {}
        if parameters.get("state") in ("held", "back", "former", "stopped"):
            module = str(parameters["state"])
        if module == "kedge_lease" and parameters.get("state", "taken") != "taken":
            # By what keeps the leases, which outlives the playbook.
            return 0, json.dumps({"changed": False}).encode(), b""
        with Path(os.environ["KEDGE_CALLS"]).open("a") as calls:
            calls.write(f"{self.host()} {module}\n")
        if f"{self.host()} {module}" == os.environ.get("KEDGE_GONE"):
            raise AnsibleConnectionFailure("a double of a host that is gone")
        answer = _answer(module, parameters)
        if f"{self.host()} {module}" == os.environ.get("KEDGE_FAILS"):
            answer = {"failed": True, "msg": "a double of an instance that does not become ready"}
        if says := os.environ.get("KEDGE_SAYS"):
            told = json.loads(Path(says).read_text()).get(f"{self.host()} {module}", answer)
            answer = _of_asked(answer, told) if module == "kedge_release" else told
        took = RESTART_SECONDS if module == "kedge_instance" else CALL_SECONDS
        time.sleep(took * float(os.environ.get("KEDGE_ANSWER_SCALE", "0")))
        return 0, json.dumps({"changed": False, **answer}).encode(), b""

    def host(self) -> str:
        """Return who is asked."""
        return str(self._play_context.remote_addr)

    def put_file(self, in_path: str, out_path: str) -> None:
        """Take a file."""

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Give none."""
        raise NotImplementedError

    def close(self) -> None:
        """End."""
        self._connected = False


def _answer(module: str, given: dict[str, Any]) -> dict[str, Any]:
    nothing = {"rc": 0, "stdout": "", "stderr": "", "stdout_lines": [], "kedge_actions": [], "counts": {}}
    return _ANSWERS.get(module, lambda _: nothing)(given)


def _staged(given: dict[str, Any]) -> dict[str, Any]:
    named = [i["name"] for i in given["instances"]]
    told = {"release": "0" * 12, "current": "1" * 12, "active": True, "pending": True, "in_force": []}
    told |= {"comments": False, "edited": False, "dropins": [], "touched": False, "digests": {}}
    told |= {"same_rows": False, "rows": ""}
    staged = [{"name": name, "predecessor": "", **told} for name in named]
    names = {"pending": named, "restart": named, "stale": [], "strange": []}
    return {"instances": staged, **names, "changed": True, "diff": []}


def _of_asked(staged: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Return what was told of the instances that the module is asked for; the others are stale to it."""
    asked = [i["name"] for i in staged["instances"]]
    of = {i["name"]: i for i in told.get("instances", [])}
    names = {
        key: [name for name in told.get(key, []) if (name in asked) == (key != "stale")]
        for key in ("pending", "restart", "stale")
    }
    return staged | told | names | {"instances": [i | of.get(i["name"], {}) for i in staged["instances"]]}


def _restarted(given: dict[str, Any]) -> dict[str, Any]:
    now = time.time_ns() // 1000
    rows = [
        {"service": given["service"], "instance": i["name"], "action": action}
        | {"started_us": now, "ended_us": now + 1, "ok": True}
        for i in given["instances"]
        for action in ("stop", "start", "ready")
    ]
    # After a deploy there is a former release; a restart alone has none.
    former = {
        f"kedge_former_{given['service']}_{i['name']}": "1" * 12
        for i in given["instances"]
        if i.get("release")
    }
    return {"changed": True, "kedge_actions": rows, **({"ansible_facts": former} if former else {})}


def _former(given: dict[str, Any]) -> dict[str, Any]:
    wrong = os.environ.get("KEDGE_NO_WAY_BACK", "")
    found = [
        {"name": name, "current": "1" * 12, "release": "0" * 12, "kept": ["0" * 12, "1" * 12], "wrong": wrong}
        for name in given["names"]
    ]
    otherwise = bool(os.environ.get("KEDGE_ASKED_OTHERWISE"))
    return {"instances": found, "restart": given["names"], "stale": [], "asked_otherwise": otherwise}


def _kernel(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "container": False,
        "kernel": {key: {"value": str(2**62), "writable": True, "later": None} for key in given["keys"]},
        "login": {"soft": 2**20, "hard": 2**20, "ceiling": 2**20},
        "contents": given["files"],
        "refused": {},
    }


_FACTS = {
    "ansible_distribution": "Debian",
    "ansible_os_family": "Debian",
    "ansible_architecture": "x86_64",
    "ansible_pkg_mgr": "apt",
}
_ANSWERS = {
    "ping": lambda _: {"ping": "pong"},
    "apt": lambda given: {"asked_for": given.get("name") or given.get("package")},
    "kedge_release": _staged,
    "kedge_instance": _restarted,
    "back": _restarted,
    "former": _restarted,
    "setup": lambda _: {"ansible_facts": _FACTS},
    "kedge_previous_release": _former,
    "kedge_kernel": _kernel,
    "kedge_deployed_record": lambda _: {"record": {}},
    "stat": lambda _: {"stat": {"exists": True, "isdir": True}},
    "command": lambda _: {"rc": 0, "stdout": "", "stderr": 'openjdk version "17.0.1"'},
}
