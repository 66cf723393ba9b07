"""Looks at what a playbook is given, before its first play: variables and ``--limit``; prints it plainly."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kedge_inventory
type: notification
short_description: Name the file of variables that Ansible cannot read, and stop at a limit without localhost
description:
  - What Ansible prints of hosts (results, differences, warnings) drives no terminal. A character that
    is not printable is shown as its escape; colours of Ansible's own stay.
  - What is done on the control machine is done by the Python of Ansible, without becoming somebody else, also
    where C(localhost) is in the inventory, or C(ansible_become) is set for all hosts.
  - The run of the playbook gets an id, by which it is known who drained a server of a balancer.
  - Before the first play, the files of C(group_vars) and C(host_vars) are parsed; one that Ansible
    cannot read is an error with its file, line and column, and Ansible then stops by itself.
  - A playbook that computes a plan or writes a review is stopped if C(--limit) leaves localhost out. Its
    other plays would find no plan, and most of them no host; of what they read, nothing would be written.
  - A playbook is stopped if it has a role of Kedge that takes what it deploys from the plan, and no play
    before makes the plan.
  - A playbook of Kedge is stopped at a tag that it does not have. Ansible would do nothing for it, and end
    well.
author: Kedge
"""

EXAMPLES = r"""
# In ansible.cfg
#   [defaults]
#   callbacks_enabled = kedge_inventory
"""

import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ansible import context
from ansible.inventory.manager import split_host_pattern
from ansible.plugins.callback import CallbackBase

from kedge.deploy.playbook_run import begin
from kedge.evidence.printable import plain_lines
from kedge.plan.inventory.yaml_files import AnsibleStopsError, check_variables, inventories

PROJECT = Path(__file__).resolve().parents[2]
#: What Ansible colours its lines with: no sequence that hides text or moves the cursor.
_COLOUR = re.compile(r"(\x1b\[(?:0|[01];3[0-7]|38;5;[0-9]{1,3})m)")

#: How tasks are done on the control machine: modules of Kedge's import what is installed beside Ansible.
_HERE = {
    "ansible_connection": "local",
    "ansible_become": False,
    "ansible_python_interpreter": sys.executable,
}

#: Tags that Ansible gives a meaning by itself.
_OF_ANSIBLE = frozenset({"all", "always", "never", "tagged", "untagged"})


class CallbackModule(CallbackBase):
    """Stops a playbook that could not do what it is asked for, or says why Ansible will."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "kedge_inventory"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Look at the variables of every source of the inventory, and at the limit."""
        begin(playbook._file_name)
        print_plainly(self._display)
        plays = playbook.get_plays()
        # Above what an inventory says of localhost, or of all hosts; below -e.
        plays[0].get_variable_manager().set_nonpersistent_facts("localhost", dict(_HERE))
        for path in inventories(context.CLIARGS.get("inventory") or ()):
            try:
                check_variables(path)
            except AnsibleStopsError as error:
                self._display.error(str(error), wrap_text=False)
        limit = context.CLIARGS.get("subset")
        here = [play for play in plays if _needs_localhost(play)]
        if limit and here and not here[0].get_variable_manager()._inventory.get_hosts("localhost"):
            self._display.error(
                f"--limit {limit} leaves out localhost, where the plan or review is made. "
                f"No host was touched. Write --limit '{with_localhost(limit)}'",
                wrap_text=False,
            )
            # Of any other exception, Ansible says that the plugin failed, and older ones go on.
            raise SystemExit(1)
        if wrong := without_plan(plays):
            self._display.error(wrong, wrap_text=False)
            raise SystemExit(1)
        if playbook_is_ours(playbook._file_name):
            asked = context.CLIARGS.get("tags") or ()
            if wrong := no_such_tag(Path(playbook._file_name).name, asked, tags_of(plays)):
                self._display.error(wrong, wrap_text=False)
                raise SystemExit(1)


def print_plainly(display: Any) -> None:
    """Have a display show what is not printable as its escape: hosts say what they like."""
    show = display.display

    def shown(msg: str, *args: Any, **options: Any) -> None:
        parts = _COLOUR.split(msg.replace("\r\n", "\n"))
        show("".join(part if n % 2 else plain_lines(part) for n, part in enumerate(parts)), *args, **options)

    display.display = shown


def _needs_localhost(play: Any) -> bool:
    tasks = [task for block in play.get_tasks() for task in block]
    return any(role.get_name() == "plan" for role in play.get_roles()) or any(
        getattr(task, "action", "") == "kedge_write_review" for task in tasks
    )


def without_plan(plays: Iterable[Any]) -> str:
    """Return which role takes its instances from a plan that no play before makes; empty where none does."""
    for play in plays:
        tasks = [task for block in play.get_tasks() for task in block]
        roles = [*play.get_roles(), *(task._role for task in tasks if getattr(task, "_role", None))]
        # A task may be a block, and a name of another module a list.
        included = [getattr(task, "args", {}).get("name") for task in tasks]
        if "plan" in [*(role.get_name() for role in roles), *included]:
            return ""
        for role in roles:
            name, place = role.get_name(), Path(role._role_path)
            # Java can be named instead.
            if place.parent == PROJECT / "roles" and name != "java" and _takes_plan(place):
                return (
                    f"the role {name} takes what it deploys from the plan, and no play before it makes one. "
                    f"No host was touched. Import {PROJECT / 'deploy.yml'} (ansible.builtin.import_playbook) "
                    "in place of the role, or have the role plan run on localhost first"
                )
    return ""


def _takes_plan(role: Path) -> bool:
    files = (role / folder / "main.yml" for folder in ("vars", "tasks"))
    return any("plan_made" in file.read_text(encoding="utf-8") for file in files if file.is_file())


def playbook_is_ours(path: str) -> bool:
    """Return whether a playbook is one of Kedge's, all of whose tags are at its plays and their tasks."""
    return Path(path).resolve().parent == PROJECT


def tags_of(plays: Iterable[Any]) -> set[str]:
    """Return the tags of plays, of their roles and of their tasks."""
    tasks = [task for play in plays for block in play.get_tasks() for task in block]
    return {
        str(tag) for each in (*plays, *(r for p in plays for r in p.get_roles()), *tasks) for tag in each.tags
    }


def no_such_tag(playbook: str, asked: Iterable[str], known: Collection[str]) -> str:
    """Return what is wrong with the tags that are asked for, in one line; empty where nothing is."""
    unknown = sorted(set(asked) - {*known, *_OF_ANSIBLE})
    if not unknown:
        return ""
    has = sorted(set(known) - _OF_ANSIBLE)
    rest = (
        f"It has {', '.join(has)}"
        if has
        else "Run it without: docs/reference.md lists the variables that it takes"
    )
    return f"{playbook} has no tag {', '.join(unknown)}. No host was touched. {rest}"


def with_localhost(limit: str) -> str:
    """Return a limit that selects the same hosts and localhost, as far as patterns can say so."""
    patterns = split_host_pattern(limit)
    if any(pattern[0] == "&" or pattern == "!localhost" for pattern in patterns):
        return "localhost,HOST,..."
    # Ansible takes a limit that only excludes hosts from all of them, and localhost is none of these.
    every = ["all"] if all(pattern[0] == "!" for pattern in patterns) else []
    return ",".join(["localhost", *every, *patterns])
