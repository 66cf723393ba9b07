"""Has a host find Kafka's JVMs, and takes its answer as that host's word."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from kedge.evidence.border.jvms import running
from kedge.evidence.border.untrusted import UntrustedError
from kedge.evidence.printable import plain
from kedge.evidence.secrets import PATTERNS
from kedge.review.kinds import SIGNS
from kedge.services.host.kernel import PLANNED
from kedge.services.mirror.adopting import MAINS

_MAINS = sorted({*(signs.main for signs in SIGNS.values()), *MAINS.values()})

#: Letters of a module's failure that are shown.
_REASON = 500


class ActionModule(ActionBase):
    """Answer: see plugins/modules/kedge_find_jvms.py."""

    _supports_check_mode = True
    _VALID_ARGS = frozenset[str]()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; why there is no account of what runs is an answer too, and fails no play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        keys, values = PATTERNS
        given = {
            "mains": _MAINS,
            "kernel": list(PLANNED),
            "secret_keys": keys,
            "secret_values": values,
        }
        answer: dict[str, Any] = self._execute_module(
            "kedge_find_jvms", module_args=given, task_vars=task_vars or {}
        )
        if answer.get("unreachable"):
            return result | answer
        if answer.get("failed"):
            return result | {"changed": False, "refused": _failure(answer)}
        try:
            found = running(answer.get("running"))
        except UntrustedError as error:
            return result | {
                "changed": False,
                "refused": f"its answer was not taken: {error}. See what runs there as java",
            }
        # Long, and shown in the report.
        return result | {"changed": False, "running": found.model_dump(), "_ansible_no_log": True}


def _failure(answer: dict[str, Any]) -> str:
    """Return why a module failed, as the host says it, fit to be shown."""
    said = next((line for line in str(answer.get("msg", "")).splitlines() if line.strip()), "no reason given")
    return f"kedge_find_jvms failed there: {plain(said)[:_REASON]}"
