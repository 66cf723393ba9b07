"""An inventory's repository that holds nothing of Kedge, as docs/releases.md lays it out: with Kedge beside it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "releases.md"
#: Set-up makes this tree's packages importable in its own environment; the one of the tests may be another's.
ENVIRONMENT: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT), "ANSIBLE_NOCOLOR": "1"}


def configuration() -> str:
    """Return the command by which the page writes ansible.cfg."""
    (found,) = set(re.findall(r"^sed .*", PAGE.read_text(), re.MULTILINE))
    return str(found)


def repository(folder: Path, inventory: Path = ROOT / "inventories" / "example") -> Path:
    """Lay out the inventory's folder, with an inventory as inventories/prod, and Kedge beside it."""
    path = folder / "inventory"
    shutil.copytree(inventory, path / "inventories" / "prod")
    (folder / "kedge").symlink_to(ROOT)
    shell(path, configuration()).check_returncode()
    return path


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, as somebody."""
    who = ("-c", "user.name=x", "-c", "user.email=x@example.net", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def shell(folder: Path, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a page in a folder of the inventory's repository."""
    return subprocess.run(
        ["sh", "-euc", line],
        cwd=folder,
        env={**ENVIRONMENT, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
