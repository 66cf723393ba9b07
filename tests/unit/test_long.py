"""Which parts of the long tests are played next, and what is kept of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.awaiting import await_that
from tests.long import ROOT, Played, counted, fits, in_turn, read, write


def played(part: str, at: str, ended: str = "passed", seconds: int = 600) -> Played:
    return Played(
        part=part, ended=ended, passed=3, failed=0, skipped=1, seconds=seconds, at=at, commit="c0ffee+"
    )


KNOWN = {
    "old": played("old", "2026-11-01 10:00"),
    "new": played("new", "2026-11-20 10:00"),
    "broken": played("broken", "2026-11-21 10:00", "failed", 1800),
}


def test_what_failed_comes_first_then_what_was_never_played_then_what_waited_longest() -> None:
    assert in_turn(["new", "old", "never", "broken"], KNOWN) == ["broken", "never", "old", "new"]


def test_no_part_begins_that_took_longer_than_what_is_left() -> None:
    assert fits(KNOWN["old"], 600)
    assert not fits(KNOWN["old"], 599)
    assert fits(None, 1)
    assert not fits(None, 0)


@pytest.mark.process
@pytest.mark.parametrize("status", [1, 2], ids=["as it starts", "later"])
def test_who_interrupts_it_finds_pytest_ended_in_order_and_nothing_kept(status: int, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    # Its half second stands for what it takes down: subprocess.run would kill it after a quarter.
    child.write_text(
        "import pathlib, signal, sys, time\n"
        "here = pathlib.Path(__file__).parent\n"
        "try:\n"
        "    (here / 'begun').touch()\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(0.5)\n"
        "    (here / 'ended').touch()\n"
        f"    sys.exit({status})\n"
    )
    words = [sys.executable, "-c", f"from tests.long import _run; _run([{sys.executable!r}, {str(child)!r}])"]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    await_that((tmp_path / "begun").exists, "it has begun")
    process.terminate()
    _, said = process.communicate()
    assert (tmp_path / "ended").exists()
    assert "KeyboardInterrupt" in said


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == {}
    write(KNOWN, tmp_path / "list")
    assert read(tmp_path / "list") == KNOWN
    assert (tmp_path / "list").read_text().splitlines()[1].startswith("broken\tfailed\t3\t0\t1\t1800\t")


def test_errors_of_a_fixture_count_as_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>')
    assert counted(report) == (3, 3, 3)
