"""Compares what is deployed on a host with the plan: the deploy's own module, in check mode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugins.action import kedge_release
from plugins.module_utils.compared import describe


class ActionModule(kedge_release.ActionModule):
    """Arguments: those of kedge_release, and ``name`` of the service.

    The answer is the fact ``kedge_compared``, service to what ``describe`` returns. A host that cannot be
    reached, or that cannot answer, is no failure: the answer says so.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare one service of the host, in one round trip; nothing when an earlier one found no way."""
        if not self._task.check_mode:
            raise ValueError("kedge_compare only ever compares: say check_mode: true at the task")
        before = ((task_vars or {}).get("ansible_facts") or {}).get("kedge_compared", {})
        name = self._task.args.pop("name")
        links = self._task.args.get("links", {})
        # What the control machine cannot know now, such as an archive that is not there yet, has no name.
        unknown = sorted(link for link, target in links.items() if not target)
        unreached = next((c for c in before.values() if "unreachable" in c), None)
        found = unreached or self._ask(tmp, task_vars, unknown)
        return {"changed": False, "ansible_facts": {"kedge_compared": before | {name: found}}}

    def _ask(self, tmp: str | None, task_vars: dict[str, Any] | None, unknown: list[str]) -> dict[str, Any]:
        try:
            answer = self.stage(tmp, task_vars)
        except AnsibleConnectionFailure as error:
            return {"unreachable": _one_line(str(error))}
        if answer.get("unreachable"):
            return {"unreachable": _one_line(str(answer.get("msg")))}
        if answer.get("failed"):
            return {"failed": _one_line(str(answer.get("msg")))}
        return describe(answer, self._task.args["unit"], self._task.args["instances"], unknown)


def _one_line(message: str) -> str:
    """Return what SSH or the module said last; banners and debug output stand before it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1].removeprefix("Failed to connect to the host via ssh: ") if lines else "no reason given"
