"""Compares what is deployed on a host with the plan: the deploy's own module, in check mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from kedge.deploy.breaking_changes import notices
from kedge.deploy.drift import describe
from kedge.evidence.border.untrusted import shown
from kedge.services.mirror.notices import notices_beside, notices_unknown, others_of_flows
from plugins.action import kedge_release

#: Letters of a failure that are shown.
_REASON = 500


class ActionModule(kedge_release.ActionModule):
    """Arguments and answer: see plugins/modules/kedge_drift.py.

    A host that cannot be reached, or that cannot answer, is no failure: the answer says so.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare one service of the host, in one round trip; nothing when an earlier one found no way."""
        if not self._task.check_mode:
            raise ValueError("kedge_drift only ever compares: say check_mode: true at the task")
        name = self._task.args.pop("name")
        if left_out := self._task.args.pop("left_out", ""):
            return comparison(task_vars, name, lambda: self._beside(tmp, task_vars, name, left_out))
        links = self._task.args.get("links", {})
        # What the control machine cannot know now, such as an archive that is not there yet, has no name.
        unknown = sorted(link for link, target in links.items() if not target)
        return comparison(task_vars, name, lambda: self._compare(tmp, task_vars, unknown))

    def _compare(
        self, tmp: str | None, task_vars: dict[str, Any] | None, unknown: list[str]
    ) -> dict[str, Any]:
        answer = self.stage(tmp, task_vars)
        if answer.get("failed") or answer.get("unreachable"):
            return answer
        plan = (task_vars or {})["hostvars"].raw_get("localhost")["plan_made"]["plan"]
        own = self._task.args
        return describe(answer, own["unit"], own["instances"], unknown, balanced=bool(plan.get("draining")))

    def _beside(
        self, tmp: str | None, task_vars: dict[str, Any] | None, name: str, left_out: str
    ) -> dict[str, Any]:
        """Return the host's comparison, with what a host left out runs that it must not start beside."""
        own = self._task.args
        # Secrets are for the hosts for which the plan has them.
        own["instances"] = starting = [
            one | {"settings": [s for s in one["settings"] if not (s.get("secret") or s.get("copied"))]}
            for one in own["instances"]
        ]
        try:
            answer = self.stage(tmp, task_vars)
            # Classic processes are numbered over all hosts, so that a flow has other names there.
            if others := list(others_of_flows(answer.get("stale", ()), starting)):
                own["instances"] = [*starting, *others]
                answer = self.stage(tmp, task_vars)
        except AnsibleConnectionFailure as error:
            answer = {"unreachable": True, "msg": str(error)}
        compared: dict[str, Any] = (task_vars or {})["ansible_facts"]["kedge_drift"][name]
        if answer.get("failed") or answer.get("unreachable"):
            found = notices_unknown(left_out, _one_line(str(answer.get("msg"))), compared["instances"])
        else:
            noticed = notices(answer, own["unit"], own["instances"])
            found = notices_beside(left_out, answer, noticed, starting)
        return compared | {"noticed": [*compared["noticed"], *map(list, found)]}


def comparison(
    task_vars: dict[str, Any] | None, name: str, compare: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return a task's result with the comparison of one service added to the fact ``kedge_drift``.

    ``compare`` returns what ``describe`` does, or a module's answer that failed. It is not called for a host
    that an earlier comparison could not reach.
    """
    before = ((task_vars or {}).get("ansible_facts") or {}).get("kedge_drift", {})
    found = next((c for c in before.values() if "unreachable" in c), None)
    if found is None:
        try:
            found = compare()
        except AnsibleConnectionFailure as error:
            found = {"unreachable": True, "msg": str(error)}
        for kind in ("unreachable", "failed"):
            if found.get(kind):
                found = {kind: _one_line(str(found.get("msg")))}
    return {"changed": False, "ansible_facts": {"kedge_drift": before | {name: found}}}


def _one_line(message: str) -> str:
    """Return what SSH or the module said last, fit to be shown; banners and debug output stand before it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    return shown(lines[-1].removeprefix("Failed to connect to the host via ssh: "), _REASON)
