"""Waits until the load of a run has reached a phase, and shows how it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from kedge.evidence.load_options import LoadError
from kedge.evidence.load_state import await_phase

display = Display()


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_load_phase.py."""

    _requires_connection = False
    _supports_check_mode = False
    _VALID_ARGS = frozenset({"run_dir", "phase", "seconds", "what"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Wait; the last state comes back as ``load``."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        asked = self._task.args
        try:
            state = await_phase(
                Path(asked["run_dir"]),
                asked["phase"],
                float(asked["seconds"]),
                display.display,
                asked.get("what", "load"),
            )
        except LoadError as error:
            message = f"{error}. No instance was touched. Fix what the log names, then run the playbook again"
            raise AnsibleActionFail(message) from None
        return result | {"changed": False, "load": state}
