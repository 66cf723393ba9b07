"""Has a host find Kafka's JVMs, and takes its answer as that host's word."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from border.foreign import ForeignError
from border.running import running
from evidence.secrets import PATTERNS
from sizing.host.planner import PLANNED
from sizing.review.kinds import MIRROR_MAINS, SIGNS

_MAINS = sorted({*(signs.main for signs in SIGNS.values()), *MIRROR_MAINS.values()})


class ActionModule(ActionBase):
    """Answer: see plugins/modules/kedge_running.py."""

    _supports_check_mode = True
    _VALID_ARGS = frozenset[str]()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; what is no account of what runs is refused in a line that names the host."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        keys, values = PATTERNS
        given = {
            "mains": _MAINS,
            "kernel": list(PLANNED),
            "secret_keys": keys,
            "secret_values": values,
        }
        answer: dict[str, Any] = self._execute_module(
            "kedge_running", module_args=given, task_vars=task_vars or {}
        )
        if answer.get("failed") or answer.get("unreachable"):
            return {**result, **answer}
        try:
            found = running(answer.get("running"))
        except ForeignError as error:
            host = (task_vars or {})["inventory_hostname"]
            message = (
                f"{host}: its answer was not taken: {error}. Nothing was changed. See what runs there as java"
            )
            return result | {"failed": True, "msg": message}
        # Long, and shown in the report.
        return result | {"changed": False, "running": found.model_dump(), "_ansible_no_log": True}
