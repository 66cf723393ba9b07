"""`make check` waits for nobody: what starts a process or leaves the machine fails in it, and says what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tested import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
TESTS = """\
import socket, subprocess, pytest

@pytest.fixture
def started(): subprocess.run(["true"])

def test_of_a_fixture(started): pass

def test_that_starts():
    try: subprocess.run(["no-such-program"])
    except FileNotFoundError: pass

def test_that_connects():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reached: reached.connect(("192.0.2.1", 9))

def test_of_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reached: reached.connect(("127.0.0.1", 9))

@pytest.mark.process
def test_that_may(): subprocess.run(["true"])
"""


@pytest.mark.process
def test_a_test_of_check_that_starts_a_process_or_leaves_the_machine_fails(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    check:\n    process:\n")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-rA",
        str(tmp_path),
    ]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
    )
    outcome = {
        name: how
        for how, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", done.stdout, flags=re.MULTILINE)
    }
    assert outcome == {
        "test_of_a_fixture": "ERROR",
        "test_that_starts": "FAILED",
        "test_that_connects": "FAILED",
        "test_of_loopback": "PASSED",
        "test_that_may": "PASSED",
    }, done.stdout + done.stderr
    assert (
        "starts a process (subprocess.Popen ['no-such-program']): mark it pytest.mark.process" in done.stdout
    )
    assert "connects to 192.0.2.1" in done.stdout


def test_the_page_has_the_tests_that_each_folder_has_and_a_row_of_each() -> None:
    row = "| tests | n |\n|---|--:|\n| `tests/unit`, `tests/render` | 9 | rules, 3 | nothing |\n"
    written = page(
        f"On 2020-01-01 pytest collected 9 tests.\n\n{row}",
        {"tests/unit": 1200, "tests/render": 34},
        "2026-11-28",
    )
    assert "On 2026-11-28 pytest collected 1,234 tests." in written
    assert "| `tests/unit`, `tests/render` | 1,234 | rules, 3 | nothing |" in written
    with pytest.raises(ValueError, match="has no row of tests/new"):
        page(row, {"tests/new": 1}, "2026-11-28")
    folders = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/test_*.py")}
    assert page(PAGE.read_text(), dict.fromkeys(folders, 0), "2026-11-28")
