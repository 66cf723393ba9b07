"""Plays playbooks and asks nodes, for the tests on fleets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))


def play(*arguments: str, inventory: str) -> subprocess.CompletedProcess[str]:
    """Play to the end, whatever comes of it."""
    return subprocess.run(
        [PLAYBOOK, "-i", inventory, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        check=False,
    )


def begin(
    *arguments: str, inventory: str, own_group: bool = False, to: IO[str] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start to play; its output comes as it is printed, errors in between, or goes to a file.

    With ``own_group`` a signal may be sent to all that it starts, as a terminal does.
    """
    return subprocess.Popen(
        [PLAYBOOK, "-i", inventory, *arguments],
        cwd=ROOT,
        stdout=to,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "PYTHONUNBUFFERED": "1"},
        start_new_session=own_group,
    )


def recap(output: str) -> dict[str, dict[str, int]]:
    """What the last lines of a playbook say of each host."""
    found = {}
    for line in output.partition("PLAY RECAP")[2].splitlines():
        if match := re.match(r"(\S+)\s+: (.*)", line):
            found[match[1]] = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", match[2])}
    return found


def local_fleet(action: str, inventory: str) -> None:
    """Have the nodes of an inventory up, or down."""
    subprocess.run(
        [sys.executable, "-m", "local.fleet", action, "--inventory", inventory], cwd=ROOT, check=True
    )


def on_node(fleet: str, name: str, command: str, *, check: bool = True) -> str:
    """What a command of the shell prints on a node."""
    config = ROOT / ".cache" / "fleet" / fleet / "ssh_config"
    done = subprocess.run(
        ["ssh", "-F", str(config), name, command], capture_output=True, text=True, check=check
    )
    return done.stdout
