"""Tasks of one role, played on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


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
        host: the one host, with its variables; localhost without it.
    """
    include = {"name": name, "tasks_from": tasks, "rolespec_validate": False}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.include_role": include}],
    }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": host or {"localhost": {}}}}))
    (folder / "play.yml").write_text(json.dumps([play]))
    return subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            *("-i", folder / "hosts.json", "-c", "local", folder / "play.yml"),
            *("-e", json.dumps({**variables, "ansible_python_interpreter": sys.executable})),
        ],
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
