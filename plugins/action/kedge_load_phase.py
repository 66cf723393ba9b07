"""Waits until the load of a run has reached a phase, and shows how it goes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

PHASES = ("starting", "warming", "running", "draining", "done")
POLL_SECONDS = 0.2
SHOW_SECONDS = 5
display = Display()


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_load_phase.py."""

    _requires_connection = False
    _supports_check_mode = False
    _VALID_ARGS = frozenset({"run_dir", "phase", "seconds"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Wait; the last state comes back as ``load``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        folder = Path(self._task.args["run_dir"])
        wanted = PHASES.index(self._task.args["phase"])
        began = shown = time.monotonic()
        state: dict[str, Any] = {"phase": "starting"}
        while state["phase"] == "failed" or PHASES.index(state["phase"]) < wanted:
            if state["phase"] == "failed":
                raise AnsibleActionFail(f"the load failed: {state.get('message')}; see {folder / 'load.log'}")
            if time.monotonic() - began > float(self._task.args["seconds"]):
                raise AnsibleActionFail(f"the load is still {state['phase']}; see {folder / 'load.log'}")
            time.sleep(POLL_SECONDS)
            path = folder / "load.state"
            if path.exists():
                state = json.loads(path.read_text())
            if time.monotonic() - shown > SHOW_SECONDS:
                shown = time.monotonic()
                counts = ", ".join(f"{state.get(k, 0):,} {k}" for k in ("acked", "failed", "delivered"))
                display.display(f"  load {state['phase']}: {counts}")
        return result | {"changed": False, "load": state}
