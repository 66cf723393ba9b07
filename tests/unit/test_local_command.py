"""Commands of the kit as playbooks run them: which statuses are failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))


@pytest.mark.parametrize(("status", "failed"), [(0, False), (1, False), (2, True)])
def test_a_status_that_a_task_allows_is_no_failure(status: int, failed: bool, tmp_path: Path) -> None:
    """A search whose interval did not close ends with 1."""
    task = {"kedge_local": {"argv": ["sh", "-c", f"echo said; exit {status}"], "ok": [0, 1]}}
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    done = subprocess.run(
        [PLAYBOOK, "-i", "localhost,", "-c", "local", str(play)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) is failed, done.stdout
    assert "said" in done.stdout
    assert ("ended with 2: said" in done.stdout) is failed
