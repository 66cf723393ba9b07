"""Does one of the steps in which an instance restarts, unless one before it failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

#: What a step tells the next one; no host says it.
_OWN = frozenset({"found", "failed_in", "results"})


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_step.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"step", "before"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the step's module, and answer with what it found beside what was found before."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        step: Mapping[str, Any] = self._task.args["step"]
        found, failed_in = so_far(self._task.args["before"])
        result |= {"found": found, "failed_in": failed_in}
        if failed_in is not None and not (step.get("always") and step["part"] == failed_in):
            return result | {"skipped": True}
        taken = {name: found[of] for name, of in step.get("takes", {}).items() if of in found}
        more = step.get("after_failure", {}) if failed_in is not None else {}
        try:
            answer = self._called(step["module"], {**step["arguments"], **taken, **more}, task_vars)
        except AnsibleConnectionFailure as error:
            return result | _gone(step, (task_vars or {})["inventory_hostname"], str(error))
        result.update({key: value for key, value in answer.items() if key not in _OWN})
        if answer.get("failed") and failed_in is None:
            result["failed_in"] = step.get("part", "")
        finds = step.get("finds", {}).items()
        return result | {"found": found | {name: answer[key] for name, key in finds if key in answer}}

    def _called(self, module: str, arguments: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        """Return what a module answers, called through the action of its name where it has one."""
        loader = self._shared_loader_obj.action_loader
        answer: dict[str, Any]
        if not loader.has_plugin(module):
            answer = self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars)
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
        answer = action.run(task_vars=task_vars)
        return answer


def _gone(step: Mapping[str, Any], instances_host: str, why: str) -> dict[str, Any]:
    """Return that a host does not answer, as a failure.

    Ansible goes on with the next batch where the one host of a batch is unreachable, though any error is
    fatal. An instance whose own host is gone is not put back: clients would wait for it.
    """
    host, own = step["host"] or instances_host, not step["host"]
    stays = "What is drained stays out at its balancers. " if own else ""
    said = f"{step['label']}: {host} does not answer: {why}. {stays}Run the playbook again when it answers"
    return {"failed": True, "msg": said, "failed_in": "" if own else step.get("part", "")}


def so_far(before: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return what steps found, and in which part of this turn one failed, if any did.

    ``before`` is the answer to the step before; that to a whole turn (``results``) is what the first step of
    the next one gets. A turn that failed has no next one.
    """
    if "found" in before:
        return dict(before["found"]), before["failed_in"]
    if "results" in before:
        last = before["results"][-1] if before["results"] else {}
        return dict(last.get("found", {})), None
    # A step that raised told nothing.
    return {}, "" if before else None
