"""Holds a rolling restart until the consumer groups of a cluster are stable and their lag is back."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants as C  # noqa: N812 - as all of Ansible calls it
from ansible.plugins.action import ActionBase

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30
POLL_SECONDS = 0.02
_WHERE = ("bootstrap_servers", "client", "secrets", "groups", "positions", "positions_secrets")


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kafka_group_gate.py.

    A process of the playbook keeps one connection to the cluster and looks all the time
    (kedge.deploy.gate_watch). A group that has a baseline from an instance before is not watched as long
    again.
    """

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset(
        {
            *_WHERE,
            "baseline",
            "baseline_ms",
            "max_lag",
            "seconds",
            "hold",
            "members",
            "sample",
            "service",
            "instance",
        }
    )

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask, and answer with the lags; fails with what keeps the gate closed."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = self._task.args
        where = {name: given[name] for name in _WHERE if given.get(name)}
        hold = int(given.get("hold") or 0)
        kind = "after" if given.get("baseline") is not None else "before"
        kind = "hold" if hold else "sample" if given.get("sample") else kind
        question = {
            "kind": kind,
            "seconds": hold or int(given.get("seconds", 120)),
            "baseline": {str(k): int(v) for k, v in (given.get("baseline") or {}).items()},
            "max_lag": int(given.get("max_lag", 0)),
        }
        if given.get("baseline_ms"):
            # The interval of the commits is known: one that was seen is enough to wait for the next.
            commit_ms = int(given["baseline_ms"])
            question |= {"baseline_ms": commit_ms, "watch_ms": commit_ms, "commits": 1}
        began = time.time_ns() // 1000
        try:
            answer = ask(where, question)
        except (ConnectionError, TimeoutError) as error:
            answer = {"lags": {}, "wrong": str(error)}
        ended = time.time_ns() // 1000
        result |= {"changed": False, "lags": answer["lags"]}
        if given.get("members") and answer["wrong"] is None:
            result["members"] = [{"group": group, "name": name} for group, name in answer["members"]]
        result["waited_seconds"] = round((ended - began) / 1e6, 2)
        if given.get("instance") and kind != "sample":
            ok = answer["wrong"] is None
            row = {
                "service": given["service"],
                "instance": str(given["instance"]),
                "action": "hold" if hold else "gate",
            }
            result["kedge_actions"] = [row | {"started_us": began, "ended_us": ended, "ok": ok}]
        if answer["wrong"] is None:
            return result
        who = f"{given.get('service', 'the service')} {given.get('instance', '')}".strip()
        return result | {"failed": True, "msg": said(kind, who, answer["wrong"])}


def said(kind: str, who: str, wrong: str) -> str:
    """Return a closed gate's message: what it waited for, what holds now, and what to do."""
    see = "See docs/runbook.md, A gate that never opens"
    if kind == "sample":
        return f"The members of {who}'s groups are not known: {wrong}. It runs the release that it has. {see}"
    if kind == "before":
        return (
            f"The gate before {who} is restarted stays closed: {wrong}. {who} was not touched and serves. "
            f"{see}, then run the playbook again"
        )
    if kind == "after":
        return (
            f"The gate after {who} was restarted stays closed: {wrong}. {who} runs and serves; no further "
            f"instance was touched. {see}, then run the playbook again"
        )
    return f"The groups of {who} did not keep their levels: {wrong}"  # roles/instances adds what it put back


def ask(where: Mapping[str, Any], question: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the process that watches a place answers; it is started where it does not run.

    Raises:
        ConnectionError: when it ended.
        TimeoutError: when it does not start.
    """
    folder = Path(C.DEFAULT_LOCAL_TMP)
    digest = hashlib.sha256(json.dumps(where, sort_keys=True, default=str).encode()).hexdigest()[:12]
    path = folder / f"gate-{digest}.sock"
    with (folder / f"gate-{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _connected(where, path)
    with connection, connection.makefile("rw") as stream:
        stream.write(json.dumps(question) + "\n")
        stream.flush()
        line = stream.readline()
    if not line:
        raise ConnectionError("the process that samples the groups (kedge.deploy.gate_watch) ended")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _connected(where: Mapping[str, Any], path: Path) -> socket.socket:
    """Return a connection to the process that watches; one that died is started anew."""
    if path.exists():
        try:
            return _connection(path)
        except (ConnectionRefusedError, FileNotFoundError):  # it ends by itself too
            path.unlink(missing_ok=True)
    _start(where, path)
    return _connection(path)


def _connection(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _start(where: Mapping[str, Any], path: Path) -> None:
    # A worker's parent is the playbook's own process.
    wanted = {"socket": str(path), "playbook": os.getppid(), "where": where}
    started = subprocess.Popen(
        [sys.executable, "-m", "kedge.deploy.gate_watch"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert started.stdin is not None
    started.stdin.write(json.dumps(wanted, default=str) + "\n")
    started.stdin.close()
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        if started.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError("the process that samples the groups (kedge.deploy.gate_watch) does not start")
        time.sleep(POLL_SECONDS)
