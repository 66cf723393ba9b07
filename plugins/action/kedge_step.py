"""Does one of the steps in which an instance restarts, unless one before it failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_step.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"step", "before"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the step's module, and answer with what it found beside what was found before."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        step: Mapping[str, Any] = self._task.args["step"]
        found, failed = so_far(self._task.args["before"])
        result["found"] = found
        if failed and not step.get("always"):
            return result | {"skipped": True, "after_failure": True}
        arguments = dict(step["arguments"])
        arguments |= {
            argument: found[name] for argument, name in step.get("takes", {}).items() if name in found
        }
        if failed:
            arguments |= step.get("after_failure", {})
            result["after_failure"] = True
        answer = self._called(step["module"], arguments, task_vars)
        # A host says nothing of the steps before it.
        result.update(
            {key: value for key, value in answer.items() if key not in ("results", "after_failure")}
        )
        result["found"] = found | {
            name: answer[key] for name, key in step.get("finds", {}).items() if key in answer
        }
        return result

    def _called(self, module: str, arguments: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        """Return what a module answers, called through the action of its name where it has one."""
        loader = self._shared_loader_obj.action_loader
        if not loader.has_plugin(module):
            answer: dict[str, Any] = self._execute_module(
                module_name=module, module_args=arguments, task_vars=task_vars
            )
            return answer
        task = self._task.copy()
        task.args = arguments
        action = loader.get(
            module,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        told: dict[str, Any] = action.run(task_vars=task_vars)
        return told


def so_far(before: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return what steps found, and whether one of this turn failed, by the answer to the step before.

    The answer to a whole turn (``results``) is what the first step of the next one gets; a turn that failed
    has no next one. Where a step raised, as for a host that does not answer, what was found is lost with it.
    """
    if "found" in before:
        return dict(before["found"]), bool(before.get("failed") or before.get("after_failure"))
    if "results" in before:
        last = before["results"][-1] if before["results"] else {}
        return dict(last.get("found", {})), False
    return {}, bool(before)
