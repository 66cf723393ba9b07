"""Play `make test-long` part by part, and keep how each part last ended.

All of it takes hours, more than anybody has at once. A part is a file of tests, or a molecule scenario. What failed
comes first, then what was never played, then what has waited longest. Parts are played one after the other, because
many judge rates, and some share a fleet. With ``--minutes`` no part begins that took longer, when it was last played,
than what is left of them; one that was never played may take longer.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from pydantic import BaseModel

from kedge.evidence.files import replace_text
from tests.tested import collected

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = ROOT / "lab" / "measurements" / "long_tests.tsv"
_SCENARIOS: Final = "tests/e2e/test_molecule.py"


class Played(BaseModel):
    """How a part last ended (``passed``, ``failed``, or ``skipped``, where each of its tests was), and of which tree.

    A commit with a ``+`` is one whose tree had changes that were not committed.
    """

    part: str
    ended: str
    passed: int
    failed: int
    skipped: int
    seconds: int
    at: str
    commit: str


def read(path: Path = LIST) -> dict[str, Played]:
    """Return what is known of each part."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["part"]: Played.model_validate(row) for row in csv.DictReader(file, delimiter="\t")}


def write(known: Mapping[str, Played], path: Path = LIST) -> None:
    """Replace the list."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(Played.model_fields), delimiter="\t", lineterminator="\n")
    table.writeheader()
    table.writerows(known[part].model_dump() for part in sorted(known))
    replace_text(path, text.getvalue())


def in_turn(there: Iterable[str], known: Mapping[str, Played]) -> list[str]:
    """Return parts in the order in which they are played."""

    def turn(part: str) -> tuple[int, str]:
        last = known.get(part)
        return (1, "") if last is None else (0, last.at) if last.ended == "failed" else (2, last.at)

    return sorted(there, key=turn)


def fits(last: Played | None, seconds: float) -> bool:
    """Return whether a part may begin when so much time is left; of one that was never played nothing is known."""
    return seconds > 0 and (last is None or last.seconds <= seconds)


def counted(report: Path) -> tuple[int, int, int]:
    """Return how many tests of a JUnit report passed, failed and were skipped."""
    (suite,) = ET.parse(report).getroot().iter("testsuite")
    of = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = of["failures"] + of["errors"]
    return of["tests"] - failed - of["skipped"], failed, of["skipped"]


def play(part: str, commit: str) -> Played:
    """Play a part; what pytest prints goes where this program's output does.

    Raises:
        KeyboardInterrupt: when this program was told to end; pytest has ended its fleets and brokers then.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-v", "-m", "long", f"--junitxml={report}", part]
        status = _run(words)
        passed, failed, skipped = counted(report) if report.exists() else (0, 1, 0)
    return Played(
        part=part,
        ended="failed" if status else "passed" if passed else "skipped",
        passed=passed,
        failed=failed,
        skipped=skipped,
        seconds=round(time.monotonic() - began),
        at=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        commit=commit,
    )


def _run(words: Sequence[str]) -> int:
    process = subprocess.Popen(words, cwd=ROOT)
    told: list[int] = []

    def end(number: int, _: object) -> None:
        told.append(number)
        process.send_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        status = process.wait()
    except KeyboardInterrupt:
        # The terminal interrupts pytest as well.
        process.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    # While pytest starts, its status does not say that it was interrupted.
    if told or status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    return status


def parts() -> list[str]:
    """Return all parts that there are. Raises RuntimeError where a file of tests cannot be read."""
    ids = {each: each.partition("::")[0] for each in collected("-m", "long")}
    return [*dict.fromkeys(each if file == _SCENARIOS else file for each, file in ids.items())]


def commit() -> str:
    """Return the commit of this tree; nothing where git does not know it, as in an archive."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", ".", f":!{LIST.relative_to(ROOT)}")
    return git("rev-parse", "--short", "HEAD") + "+" * bool(changed)


def main() -> int:
    """Play parts in their turn; return 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="of work at most; all parts without"
    )
    options = parser.parse_args()
    # In a background job SIGINT is ignored, and pytest would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deadline = time.monotonic() + options.minutes * 60
    there = parts()
    known = read()
    played: list[Played] = []
    left: list[str] = []
    for part in in_turn(there, known):
        last = known.get(part)
        if not fits(last, deadline - time.monotonic()):
            left.append(part)
            continue
        said = f"{last.ended} {last.at} in {last.seconds} s" if last else "never played"
        print(f"\n{part}: {said}", flush=True)
        try:
            played.append(play(part, commit()))
        except KeyboardInterrupt:
            print(f"\n{part} was interrupted: what is known of it stays as it was")
            return 130
        # A part that is gone is nobody's to play.
        write({name: one for name, one in (read() | {part: played[-1]}).items() if name in there})
    failed = [one.part for one in played if one.ended == "failed"]
    print(f"\n{len(played)} parts were played, {len(failed)} failed; {LIST.relative_to(ROOT)} has them")
    for part in failed:
        print(f"  FAILED {part}")
    if left:
        print(f"{len(left)} parts take longer than was left of {options.minutes:g} minutes, {left[0]} first")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
