"""Tells how to run another playbook of the kit as this one was run: inventories, variables, vaults."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

#: Of capacity.yml and compare.yml themselves: what they start knows nothing of them.
_OWN = ("resume", "arms")


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_command.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset[str]()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Put the words together; what a person would have to type again cannot be among them."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = context.CLIARGS
        for name in ("ask_pass", "become_ask_pass", "ask_vault_pass"):
            if given.get(name):
                raise AnsibleActionFail(
                    f"--{name.replace('_', '-')} cannot be typed for every trial: give the password by a "
                    "file, as --vault-password-file, --connection-password-file or --become-password-file do"
                )
        words = [str(Path(sys.executable).with_name("ansible-playbook"))]
        for source in (task_vars or {}).get("ansible_inventory_sources", ()):
            words += ["-i", str(source)]
        for vault in given.get("vault_ids") or ():
            words += ["--vault-id", str(vault)]
        for name in ("connection_password_file", "become_password_file"):
            if given.get(name):
                words += [f"--{name.replace('_', '-')}", str(given[name])]
        own = {key: value for key, value in load_extra_vars(self._loader).items() if not _of_trials(key)}
        if own:
            words += ["-e", json.dumps(own)]
        return result | {"changed": False, "command": words}


def _of_trials(name: str) -> bool:
    return name in _OWN or name.startswith("trials_") or name == "ansible_version"
