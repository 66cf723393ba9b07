"""Tells the module which run drains, and which of the runs that it finds have ended on this machine."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from kedge.deploy.playbook_run import current, ended


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/haproxy_drain.py."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the module, and again where a run in its way is one of this machine that has ended."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = self._task.args | {"run": current(), "reason": (task_vars or {}).get("ansible_play_name")}
        answer = self._execute_module("haproxy_drain", module_args=arguments, task_vars=task_vars)
        if over := [run for run in answer.get("runs", ()) if ended(str(run))]:
            first = answer
            arguments["ended"] = over
            answer = self._execute_module("haproxy_drain", module_args=arguments, task_vars=task_vars)
            answer["changed"] = first.get("changed", False) or answer.get("changed", False)
            if "servers" in answer:
                answer["servers"] = [*first["servers"], *answer["servers"]]
        answer.pop("runs", None)
        result.update(answer)
        return result
