"""Runs a command of the kit on the control machine, its output shown while it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

_ROOT = Path(__file__).resolve().parents[2]
display = Display()


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_local.py."""

    _requires_connection = False
    _supports_check_mode = False
    _VALID_ARGS = frozenset({"argv", "log", "background", "ok", "secrets", "input"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the command; ``rc`` and the last line of its output come back."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        argv = [str(a) for a in self._task.args["argv"]]
        # A worker's parent is the playbook's own process.
        environment = {**os.environ, "KEDGE_PARENT_PID": str(os.getppid()), "PYTHONUNBUFFERED": "1"}
        if secrets := self._task.args.get("secrets"):
            environment["KEDGE_SECRETS"] = json.dumps(secrets)
        log = self._task.args.get("log")
        if self._task.args.get("background"):
            with Path(log).open("ab") as output:
                started = subprocess.Popen(
                    argv,
                    cwd=_ROOT,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            return result | {"changed": True, "pid": started.pid}
        # A file: a pipe would have to be filled while the output is read.
        with tempfile.TemporaryFile() as given:
            given.write(str(self._task.args.get("input", "")).encode())
            given.seek(0)
            status, last = _shown(argv, environment, given, log)
        # Said, for Ansible takes any status but 0 for a failure where nothing is.
        result |= {"changed": False, "failed": False, "rc": status, "last_line": last}
        if status not in self._task.args.get("ok", [0]):
            msg = (
                f"{' '.join(argv)} ended with {status}: {last}. No task after it was run. See "
                f"{log or 'its output above'}, then run the playbook again"
            )
            result |= {"failed": True, "msg": msg}
        return result


def _shown(
    argv: list[str], environment: dict[str, str], given: IO[bytes], log: str | None
) -> tuple[int, str]:
    """Run a command, its output shown or logged as it comes; return its status and the last line."""
    last = ""
    with subprocess.Popen(
        argv,
        cwd=_ROOT,
        env=environment,
        stdin=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        with Path(log or os.devnull).open("a") as output:
            for line in process.stdout:
                last = line.rstrip() or last
                output.write(line)
                if log is None:
                    _display(line.rstrip("\n"))
    return process.returncode, last


def _display(line: str) -> None:
    """Display a line whole, also where the playbook ends meanwhile.

    A worker passes it on under a lock of the playbook's. One that a signal ends with that lock leaves a
    playbook that waits for it for ever.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        display.display(line)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
