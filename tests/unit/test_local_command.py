"""Commands of the kit as playbooks run them: which statuses are failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))


def played(folder: Path, **task: Any) -> subprocess.CompletedProcess[str]:
    """Play one task of kedge_local."""
    play = folder / "play.yml"
    tasks = [{"kedge_local": task}]
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    return subprocess.run(
        [PLAYBOOK, "-i", "localhost,", "-c", "local", str(play)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("status", "failed"), [(0, False), (1, False), (2, True)])
def test_a_status_that_a_task_allows_is_no_failure(status: int, failed: bool, tmp_path: Path) -> None:
    """A search whose interval did not close ends with 1."""
    done = played(tmp_path, argv=["sh", "-c", f"echo said; exit {status}"], ok=[0, 1])
    assert (done.returncode != 0) is failed, done.stdout
    assert "said" in done.stdout
    assert ("ended with 2: said" in done.stdout) is failed


def test_a_command_reads_its_input_however_much_it_is(tmp_path: Path) -> None:
    """An argument ends at 128 KiB."""
    count = "import sys; print(len(sys.stdin.read()), 'read')"
    done = played(tmp_path, argv=[sys.executable, "-c", count], input="x" * 300_000)
    assert "300000 read" in done.stdout, done.stdout
