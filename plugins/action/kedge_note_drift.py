"""Notes what a role's own tasks would change on a host, for services that are no releases."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from kedge.deploy.drift import describe_files


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_note_drift.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"name", "diff", "lines", "failed", "unreachable"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Add the service to the fact ``kedge_drift`` of the host."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        name = arguments.pop("name")
        before = ((task_vars or {}).get("ansible_facts") or {}).get("kedge_drift", {})
        why: dict[str, Any] = {
            key: str(arguments[key]) for key in ("unreachable", "failed") if arguments.get(key)
        }
        diff = arguments.get("diff") or []
        lines = arguments.get("lines") or describe_files([diff] if isinstance(diff, dict) else diff)
        return result | {
            "changed": False,
            "ansible_facts": {"kedge_drift": {**before, name: why or {"lines": lines}}},
        }
