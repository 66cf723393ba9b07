"""Finds what a host's record says is no longer planned, and has the host note what is."""

from __future__ import annotations

from typing import Any, Final

from ansible.plugins.action import ActionBase

from kedge.deploy.deployed import next_record, reported
from kedge.evidence.border.deployed import record
from kedge.evidence.border.untrusted import UntrustedError, shown
from kedge.services.registry import SERVICES

_SERVICES: Final = frozenset(service.name for service in SERVICES)
#: Letters of what a module says of why it failed.
_WHY: Final = 1_000


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_deployed_record.py."""

    _supports_check_mode = True
    _VALID_ARGS = frozenset({"planned", "forget"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read the host's record, and write it where it changes; what the host says else is left out."""
        result: dict[str, Any] = super().run(tmp, task_vars) | {"changed": False}
        task_vars = task_vars or {}
        host, planned = task_vars["inventory_hostname"], self._task.args.get("planned") or {}
        forget = self._task.args.get("forget") or ""
        answer = self._execute_module("kedge_deployed_record", module_args={}, task_vars=task_vars)
        if answer.get("failed"):
            return result | _failure(answer)
        try:
            kept = record(answer.get("record"), _SERVICES)
        except UntrustedError as error:
            warning = (
                f"{host}: its record of what is deployed where was not taken: {error}. The records of the "
                "other hosts are used. If the host is still under your control, delete "
                "/var/lib/kedge/.deployed.json there; the next deploy writes it anew"
            )
            return result | {"left": [], "warnings": [warning]}
        left = [one for one in reported(host, kept, planned) if one["host"] != forget]
        # While something is left behind nothing is noted, but forgotten is what was removed.
        stops = any(one["stops"] for one in left)
        new = (
            {h: has for h, has in kept.items() if h != forget}
            if stops
            else next_record(kept, planned, forget)
        )
        if new != kept and not self._task.check_mode:
            answer = self._execute_module(
                "kedge_deployed_record", module_args={"write": new}, task_vars=task_vars
            )
            if answer.get("failed"):
                return result | _failure(answer)
        return result | {"changed": new != kept, "left": left}


def _failure(answer: dict[str, Any]) -> dict[str, Any]:
    # The module's own text ends with the same advice.
    why = ". ".join(shown(answer[key], _WHY) for key in ("msg", "module_stderr") if answer.get(key))
    return {
        "failed": True,
        "msg": f"The host's record of what is deployed where: {why.partition('. No host was touched')[0]}. "
        "No host was touched. Fix that, then run the playbook again",
    }
