"""Writes and prints the review of what runs on all hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from kedge.deploy.host_review import INVENTORY, empty, write
from kedge.evidence.border.jvms import running
from kedge.evidence.printable import plain

_ROOT = Path(__file__).resolve().parents[2]
display = Display()

#: Hosts whose reasons are shown where none answered.
_NAMED = 5


class ActionModule(ActionBase):
    """Argument and answer: see plugins/modules/kedge_write_review.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"folder", "check"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Review what the hosts answered; with ``check`` only say whether the folder can be made."""
        result: dict[str, Any] = super().run(tmp, task_vars) | {"changed": False}
        task_vars = task_vars or {}
        folder = _ROOT / Path(str(self._task.args["folder"])).expanduser()
        if why := empty(folder):
            raise AnsibleActionFail(f"{why}. No host was asked. Then run the playbook again")
        if self._task.args.get("check"):
            return result
        known = task_vars["hostvars"]
        # A host that --limit leaves out was not asked.
        asked = {
            h: dict(known[h]["kedge_found"]) for h in task_vars["groups"]["all"] if "kedge_found" in known[h]
        }
        answers = {host: said["running"] for host, said in asked.items() if "running" in said}
        missing = {host: _why(said) for host, said in asked.items() if "running" not in said}
        if not answers:
            reasons = "; ".join([f"{plain(host)}: {why}" for host, why in missing.items()][:_NAMED])
            raise AnsibleActionFail(
                f"No host answered as it should, and nothing was written. {reasons or 'No host was asked'}. "
                "Then run the playbook again"
            )
        report = write(folder, {plain(host): running(said) for host, said in answers.items()}, missing)
        display.display(report.shown())
        display.display(
            f"\nWritten to {folder}: review.html, review.md, the files of each host, and an inventory that "
            f"plans what runs. Next: kedge plan -i {folder / INVENTORY}"
        )
        return result | {"errors": report.errors}


def _why(said: dict[str, Any]) -> str:
    """Return why a host gave no account of what runs."""
    return str(said.get("refused") or "was not reached; the playbook said why")
