"""Does one of the steps in which an instance restarts, unless one before it failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
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
        result |= {"found": found, "failed_step": failed}
        if failed is not None and failed not in step.get("after", {}):
            return result | {"skipped": True}
        taken = {name: found[of] for name, of in step.get("takes", {}).items() if of in found}
        more = step["after"][failed] if failed is not None else {}
        label, gone = step["label"], False
        try:
            answer = self._called(step["module"], {**step["arguments"], **taken, **more}, task_vars)
        except AnsibleConnectionFailure as error:
            gone = True
            answer = _gone(step, (task_vars or {})["inventory_hostname"], str(error))
            # Nothing is put back on a host that is gone: clients would wait for it.
            label = label if step["host"] else ""
        except AnsibleError as error:
            answer = {"failed": True, "msg": str(error)}
        if answer.get("failed") and failed is None:
            failed = label
        finds = step.get("finds", {}).items()
        found |= {name: answer[key] for name, key in finds if key in answer}
        # No module says what a step does.
        answer.pop("results", None)
        return {**result, **answer, "gone": gone, "found": found, "failed_step": failed}

    def _called(self, module: str, arguments: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        """Return what a module answers, called through the action of its name where it has one."""
        loader = self._shared_loader_obj.action_loader
        if not loader.has_plugin(module):
            return dict(self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars))
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
        return dict(action.run(task_vars=task_vars))


def _gone(step: Mapping[str, Any], instances_host: str, why: str) -> dict[str, Any]:
    """Return that a host does not answer, as a failure.

    Ansible goes on with the next batch where the one host of a batch is unreachable, though any error is
    fatal.
    """
    host = step["host"] or instances_host
    said = f"{step['label']}: {host} does not answer: {why}. Run the playbook again when it answers"
    return {"failed": True, "msg": said}


def so_far(before: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return what steps found, and the label of the one of this turn that failed, if any did.

    ``before`` is the answer to the step before; that to a whole turn (``results``) is what the first step of
    the next one gets. A turn that failed has no next one.
    """
    if "found" in before:
        return dict(before["found"]), before["failed_step"]
    if "results" in before:
        return dict(before["results"][-1].get("found", {})), None
    # The answer is Ansible's own, such as to what it could not template.
    return {}, "" if before else None
