"""Tells how to run another playbook of the kit as this one was run: inventories, variables, vaults."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.splitter import parse_kv
from ansible.plugins.action import ActionBase

from kedge.evidence.secrets import PLACE

#: Of capacity.yml and compare.yml themselves: what they start knows nothing of them.
_OWN = ("resume", "arms")
#: Options of ansible-playbook, by the name that it gives their values.
_TYPED = {
    "ask_pass": "ask-pass",
    "become_ask_pass": "ask-become-pass",
    "ask_vault_pass": "ask-vault-pass",
}
_REPEATED = {"vault_ids": "--vault-id", "vault_password_files": "--vault-password-file"}
_ONCE = {
    "connection_password_file": "--connection-password-file",
    "become_password_file": "--become-password-file",
    "remote_user": "--user",
    "private_key_file": "--private-key",
    "ssh_common_args": "--ssh-common-args",
    "ssh_extra_args": "--ssh-extra-args",
}
_WITH_BECOME = {"become_method": "--become-method", "become_user": "--become-user"}


class ActionModule(ActionBase):
    """Arguments and answer: see plugins/modules/kedge_command.py."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset[str]()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Put the words together; what a person would have to type again cannot be among them."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        sources = (task_vars or {}).get("ansible_inventory_sources", ())
        command, variables = words(context.CLIARGS, sources, self._loader)
        result |= {"changed": False, "command": command, "variables": variables}
        # Callbacks print and keep whole results.
        return result | {"_ansible_no_log": True}


def words(
    given: Mapping[str, Any], sources: Iterable[object], loader: DataLoader
) -> tuple[list[str], list[str]]:
    """Return the words that begin another call of ansible-playbook with the options of this one.

    Variables that this call was given may be passwords, and command lines are there to be read: they come
    apart, a text in JSON each, and among the words stands a place for each.

    Raises:
        AnsibleActionFail: naming the option that asks for a password.
    """
    typed = [f"--{option}" for name, option in _TYPED.items() if given.get(name)]
    typed += [f"--vault-id {one}" for one in given.get("vault_ids") or () if str(one).endswith("prompt")]
    if typed:
        raise AnsibleActionFail(
            f"{typed[0]} cannot be typed for every load test. No load test began, and no host was touched. "
            "Give the password by a file, as --vault-password-file, --connection-password-file or "
            "--become-password-file do"
        )
    found = [str(Path(sys.executable).with_name("ansible-playbook"))]
    for source in sources:
        found += ["-i", str(source)]
    for name, option in _REPEATED.items():
        for value in given.get(name) or ():
            found += [option, str(value)]
    become = _WITH_BECOME if given.get("become") else {}
    for name, option in {**_ONCE, **become}.items():
        if given.get(name):
            found += [option, str(given[name])]
    if become:
        found.append("--become")
    variables: list[str] = []
    for word in map(str, given.get("extra_vars") or ()):
        if word.startswith("@"):  # what lies in a file, encrypted or not, stays there
            found += ["-e", f"@{Path(word[1:]).expanduser().resolve()}"]
        elif own := _variables(word, loader):
            found += ["-e", f"{PLACE}{len(variables)}"]
            variables.append(json.dumps(own))
    return found, variables


def _variables(word: str, loader: DataLoader) -> dict[str, Any]:
    given = loader.load(word) if word[:1] in ("[", "{") else parse_kv(word)
    return {key: value for key, value in given.items() if not _of_trials(key)}


def _of_trials(name: str) -> bool:
    return name in _OWN or name.startswith("trials_") or name == "ansible_version"
