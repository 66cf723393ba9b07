"""Which parts of the long tests are played next, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

from tests.long import Played, counted, fitting, in_turn, read, write


def played(part: str, at: str, ended: str = "passed", seconds: int = 600) -> Played:
    return Played(
        part=part, ended=ended, passed=3, failed=0, skipped=1, seconds=seconds, at=at, commit="c0ffee+"
    )


KNOWN = {
    "old": played("old", "2026-11-01 10:00"),
    "new": played("new", "2026-11-20 10:00"),
    "broken": played("broken", "2026-11-21 10:00", "failed", 1800),
}


def test_what_failed_or_was_never_played_comes_first_and_then_what_waited_longest() -> None:
    assert in_turn(["new", "old", "never", "broken"], KNOWN) == ["never", "broken", "old", "new"]


def test_no_part_begins_that_the_minutes_are_too_few_for() -> None:
    turns = ["never", "broken", "old", "new"]
    assert fitting(turns, KNOWN, 1000) == turns
    assert fitting(turns, KNOWN, 29) == ["never", "old", "new"]
    assert fitting(turns, KNOWN, 15) == ["never", "old"]


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == {}
    write(KNOWN, tmp_path / "list")
    assert read(tmp_path / "list") == KNOWN
    assert (tmp_path / "list").read_text().splitlines()[1].startswith("broken\tfailed\t3\t0\t1\t1800\t")


def test_errors_of_a_fixture_count_as_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="9" failures="1" errors="2" skipped="3"/></testsuites>')
    assert counted(report) == (3, 3, 3)
