"""Plays, and tasks of one role, played on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def play_here(
    folder: Path,
    plays: Sequence[Mapping[str, Any]],
    inventory: Mapping[str, Any],
    *words: str,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Play plays with the roles and modules of this tree.

    Args:
        folder: where the playbook and the inventory are written.
        plays: as a playbook has them.
        inventory: as its file has it.
        words: more arguments of ansible-playbook.
        environment: what is set beside this process's own.
    """
    (folder / "hosts.json").write_text(json.dumps(inventory))
    (folder / "play.yml").write_text(json.dumps(plays))
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [program, "-i", folder / "hosts.json", folder / "play.yml", *words],
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def play_role(
    folder: Path,
    name: str,
    tasks: str,
    variables: Mapping[str, Any],
    environment: Mapping[str, str],
    host: Mapping[str, Mapping[str, Any]] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Play a tasks file of a role by itself, without the check of the role's arguments.

    Args:
        folder: where the playbook and the inventory are written.
        name: the role.
        tasks: the tasks file.
        variables: what the tasks get in place of the role's variables.
        environment: what is set beside this process's own.
        host: hosts that this machine stands for, with their variables; localhost without it.
    """
    include = {"name": name, "tasks_from": tasks, "rolespec_validate": False}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": include}],
    }
    given = json.dumps({**variables, "ansible_python_interpreter": sys.executable})
    inventory = {"all": {"hosts": host or {"localhost": {}}}}
    return play_here(folder, [play], inventory, "-c", "local", "-e", given, **environment)
