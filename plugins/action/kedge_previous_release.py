"""Finds the release that instances go back to; the differences that are printed show no secret."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from kedge.deploy.drift import hide_secrets
from kedge.evidence.border.instances import former
from plugins.action.kedge_release import typed


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_previous_release.py."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the module, and hide what looks like a secret, as for a deploy."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        result.update(
            self._execute_module("kedge_previous_release", module_args=arguments, task_vars=task_vars)
        )
        result |= typed(result, arguments["names"], former)
        for each in result.get("diff", []):
            each["before"], each["after"] = hide_secrets(each["before"], each["after"])
        return result
