"""The tutorial's commands and files are real: run here as far as no host is needed, by other tests beyond that."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_docs import ELSEWHERE, ROOT, commands

PAGE = ROOT / "docs" / "tutorial.md"
OWN = [
    "cp -r inventories/example inventories/mine",
    "rm -r inventories/mine/group_vars/mirror_maker inventories/mine/group_vars/streams_app "
    "inventories/mine/group_vars/kafka_broker",
    ".venv/bin/python -m sizing --inventory inventories/mine",
]
PLAN = OWN[-1]


def files() -> list[tuple[str, str]]:
    """Return the files that the page has the reader write, in order: path and content."""
    blocks = re.findall(r"```yaml\n# (\S+?)(?:, added)?\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return [(path, content) for path, content in blocks]


def run(command: str, mine: Path) -> str:
    """Run a command of the page, with the reader's inventory elsewhere, and return what it printed."""
    argv = shlex.split(
        command.replace("inventories/mine", str(mine)).replace(".venv/bin/python", sys.executable)
    )
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's inventory before anything was changed."""
    folder = tmp_path_factory.mktemp("tutorial") / "mine"
    for command in OWN[:-1]:
        run(command, folder)
    for path, content in files()[:3]:
        place = folder / Path(path).relative_to("inventories/mine")
        assert place.exists(), f"{path} replaces nothing"
        place.write_text(content)
    return folder


def test_every_command_of_the_tutorial_is_run_here_or_elsewhere() -> None:
    assert [c for c in commands(PAGE) if c not in ELSEWHERE] == OWN


def test_the_plan_of_the_tutorial_has_no_error_and_the_reason_that_the_page_shows(mine: Path) -> None:
    printed = run(PLAN, mine)
    assert "\n0 errors, 2 warnings" in printed
    shown = re.search(r"\n    (KAFKAREST_HEAP_OPTS=.*?Memory\])\n", PAGE.read_text(), flags=re.DOTALL)
    assert shown is not None
    for line in shown.group(1).splitlines():
        assert line.strip() in printed


def test_the_value_that_the_tutorial_changes_is_planned_as_the_reader_s_own(mine: Path) -> None:
    path, added = files()[3]
    place = mine / Path(path).relative_to("inventories/mine")
    before = place.read_text()
    place.write_text(before + added)
    try:
        assert "producer.compression.type=lz4 (yours)" in " ".join(run(PLAN, mine).split())
    finally:
        place.write_text(before)
