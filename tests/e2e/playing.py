"""Plays playbooks and asks nodes, for the tests on fleets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

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
        [sys.executable, "-m", "lab.fleet", action, "--inventory", inventory], cwd=ROOT, check=True
    )


def own_inventory(source: str, fleet: str, changes: Iterable[tuple[str, str, str]]) -> str:
    """Copy an inventory to ``.cache/FLEET/inventory``, as deep as a scenario's, with changes: file, before and after."""
    own = ROOT / ".cache" / fleet / "inventory"
    shutil.rmtree(own.parent, ignore_errors=True)
    shutil.copytree(ROOT / source, own)
    for path, before, after in changes:
        text = (own / path).read_text()
        assert before in text, (path, before)
        (own / path).write_text(text.replace(before, after))
    return str(own.relative_to(ROOT))


@contextmanager
def deployed_fleet(inventory: str, *arguments: str) -> Iterator[None]:
    """Have the fleet of an inventory up and deployed; it is removed at the end."""
    try:
        local_fleet("up", inventory)
        first = play("deploy.yml", *arguments, inventory=inventory)
        assert first.returncode == 0, first.stdout
        yield
    finally:
        local_fleet("down", inventory)


def load_alone(inventory: str, runs: Path, changes: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a verification without restarts, with changes to the inventory's ``verify``."""
    verify = yaml.safe_load((ROOT / inventory / "group_vars/all/main.yml").read_text())["verify"]
    for name, value in changes.items():
        verify[name] = {**verify[name], **value} if isinstance(value, dict) else value
    given = {"verify": verify, "verify_steps": "load", "kedge_runs_dir": str(runs)}
    return ["verify.yml", "-e", json.dumps(given)]


def on_node(fleet: str, name: str, command: str, *, check: bool = True) -> str:
    """What a command of the shell prints on a node."""
    config = ROOT / ".cache" / "fleet" / fleet / "ssh_config"
    done = subprocess.run(
        ["ssh", "-F", str(config), name, command], capture_output=True, text=True, check=check
    )
    return done.stdout
