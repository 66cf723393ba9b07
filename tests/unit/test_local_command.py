"""Commands of the kit as playbooks run them: which statuses are failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from plugins.action import kedge_local

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


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_no_line_in_the_middle(
    ending: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that ends while it passes a line on leaves its lock locked, and a playbook that waits for it."""
    seen: list[str] = []

    def display(line: str) -> None:
        # A worker has one thread; another one of this process would take the signal.
        signal.pthread_kill(threading.get_ident(), ending)
        seen.append(line)

    monkeypatch.setattr(kedge_local.display, "display", display)
    before = signal.signal(ending, lambda *_: seen.append("signal"))
    try:
        with (tmp_path / "nothing").open("w+b") as nothing:
            kedge_local._shown(["echo", "said"], dict(os.environ), nothing, None)
    finally:
        signal.signal(ending, before)
    assert seen == ["said", "signal"]
