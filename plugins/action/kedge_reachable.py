"""Finds out which hosts can be compared with the plan, before a task is spent on each of them."""

from __future__ import annotations

import shlex
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

ROOT = Path(__file__).resolve().parents[2]
CONNECT_SECONDS = 3
_AT_ONCE = 32
#: Connections of which only Ansible's SSH plugin, with its own options, knows the way.
_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_reachable.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset[str]()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Knock at every host that has something to compare, many at once."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        plan, known = task_vars["plan_made"]["plan"], task_vars["plan_made"]["ways"]
        able = comparing_roles(ROOT / "roles")
        planned = {host: list(of_host["services"]) for host, of_host in plan["hosts"].items()}
        comparable = {
            h: own for h, services in planned.items() if (own := [s for s in services if s in able])
        }
        ways = [_way(host, known[host]) for host in comparable]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = dict(zip(comparable, pool.map(unanswered, ways), strict=True))
        found = {
            "comparable": {host: services for host, services in comparable.items() if answers[host] is None},
            "unreached": {host: why for host, why in answers.items() if why is not None},
            "uncompared": {s: _why_not(s) for of_host in planned.values() for s in of_host if s not in able},
        }
        return result | {"changed": False, **found}


def comparing_roles(roles: Path) -> frozenset[str]:
    """Return the roles that can say what they would change."""
    return frozenset(path.parents[1].name for path in roles.glob("*/tasks/drift.yml"))


def _why_not(service: str) -> str:
    if not (ROOT / "roles" / service).is_dir():
        return "no role deploys it"
    return f"roles/{service} has no tasks/drift.yml"


def _way(host: str, variables: Mapping[str, Any]) -> list[str] | None:
    """Return the arguments by which ssh reaches a host; None where it is reached in another way."""
    if variables.get("ansible_connection", "ssh") not in ("ssh", "smart"):
        return None
    words = [word for name in _ARGUMENTS for word in shlex.split(str(variables.get(name) or ""))]
    port = variables.get("ansible_ssh_port") or variables.get("ansible_port")
    address = variables.get("ansible_ssh_host") or variables.get("ansible_host") or host
    return [*words, *(("-p", str(port)) if port else ()), str(address)]


def unanswered(way: list[str] | None) -> str | None:
    """Return why a host takes no connection; None when it does, or when only trying can tell.

    SSH itself is asked where it would connect to, so that a person's ssh_config counts. What it reaches
    through a jump host or a command is left for Ansible to try.
    """
    if way is None:
        return None
    try:
        asked = subprocess.run(["ssh", "-G", *way], capture_output=True, text=True, check=False)
    except OSError:
        return None
    said = dict(line.partition(" ")[::2] for line in asked.stdout.splitlines())
    indirect = any(said.get(key, "none") != "none" for key in ("proxyjump", "proxycommand"))
    if asked.returncode or indirect or "hostname" not in said:
        return None
    host, port = said["hostname"], said["port"]
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        return f"port {port}: {error.strerror or error}"
    return None
