"""Writes what was done to instances, and when, into the evidence of a run; says how long starts took.

Says at the end that a watch goes on, where the playbook ended before it.
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: kedge_events
type: notification
short_description: Append the actions on instances to a run's evidence, and say when one was ready
description:
  - Says how long each instance took to be ready.
  - Every result that carries C(kedge_actions) is appended to C(actions.jsonl) in the run's folder.
  - The folder is the fact C(kedge_run_dir), which verify.yml sets for localhost, or the environment variable
    KEDGE_RUN_DIR.
  - What is no row of that table, or another host's, is left out with a warning.
  - Where the playbook ends before its watch, also by Ctrl-C, the last line says how to judge what it saw.
author: Kedge
"""

EXAMPLES = r"""
# In ansible.cfg; verify.yml sets kedge_run_dir, anybody else KEDGE_RUN_DIR in the environment.
#   [defaults]
#   callbacks_enabled = kedge_events
"""

import atexit
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

_CLONE = Path(__file__).resolve().parents[2]
try:
    from kedge.evidence.border.action import actions
    from kedge.evidence.border.untrusted import UntrustedError
    from kedge.evidence.load_state import goes_on
    from kedge.services.registry import SERVICES
except ModuleNotFoundError as error:
    # This is the first plugin that Ansible loads, which would call it a bug of its own.
    or_path = f", or set PYTHONPATH={_CLONE} (docs/ci.md)" if error.name == "kedge" else ""
    raise SystemExit(
        f"{sys.executable} has no {error.name}. No host was touched. Run "
        f"{_CLONE / '.venv/bin/ansible-playbook'}, which make setup installs{or_path}"
    ) from None

_SETS_FACTS = ("set_fact", "ansible.builtin.set_fact")
#: Longer than a watch goes on by default.
_WAIT_S = 600
_SERVICES = frozenset(service.name for service in SERVICES)


class CallbackModule(CallbackBase):
    """Without a run's folder nothing is written."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "kedge_events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        folder = os.environ.get("KEDGE_RUN_DIR")
        self._folder = Path(folder) if folder else None
        # Ansible tells its callbacks of no end by Ctrl-C or a signal. Its workers exit without this.
        atexit.register(self.say_what_goes_on)

    def say_what_goes_on(self) -> None:
        """Say that the run's watch goes on, and the command that judges it."""
        folder = self._folder
        if folder is not None and goes_on(folder, "watch"):
            words = ["--run-dir", folder, "--inventory", folder / "inventory.yml", "--wait-s", _WAIT_S]
            audit = shlex.join(map(str, [sys.executable, "-m", "verify.audit", *words]))
            self._display.display(
                "The watch goes on until groups have caught up. Wait for its verdict: "
                f"cd {shlex.quote(str(_CLONE))} && {audit}"
            )

    def v2_runner_on_ok(self, result: Any) -> None:
        """Record the actions of a task that succeeded."""
        self._record(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Record the actions of a task that failed; they happened all the same."""
        del ignore_errors
        self._record(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        """Record what one step of a loop did, when it was done."""
        self._record(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Record what one step of a loop did that failed."""
        self._record(result)

    def _record(self, result: Any) -> None:
        outcome = getattr(result, "_result", None) or {}
        host = result._host.get_name()
        # A host's facts of the same name say nothing about this machine's folders.
        if host == "localhost" and getattr(result._task, "action", "") in _SETS_FACTS:
            folder = (outcome.get("ansible_facts") or {}).get("kedge_run_dir")
            self._folder = Path(folder) if folder else self._folder
        rows: list[dict[str, Any]] = []
        try:
            # Of a loop each item has come by itself.
            rows = actions([] if "results" in outcome else outcome.get("kedge_actions", []), host, _SERVICES)
        except UntrustedError as error:
            self._display.warning(f"{host}: what it did is not in the evidence: {error}")
        for row in rows:
            if row["action"] == "ready" and row["ok"]:
                seconds = (row["ended_us"] - row["started_us"]) / 1e6
                self._display.display(
                    f"  {row['service']} {row['instance']} of {host} ready after {seconds:.1f} s"
                )
        if self._folder is None or not rows:
            return
        with (self._folder / "actions.jsonl").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
