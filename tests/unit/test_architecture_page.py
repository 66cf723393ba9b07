"""docs/architecture.md and CONTRIBUTING.md name what is there, and the rooms import what the page allows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = (
    "evidence",
    "border",
    "comparison",
    "sizing",
    "control",
    "spark_checks",
    "plugins",
    "verify",
    "trials",
    "local",
    "bench",
)
#: A path between backticks: two parts at least, or a folder.
NAMED = re.compile(r"`([\w.-]+/[\w./-]*)`")


def allowed() -> dict[str, set[str]]:
    """Return what the page says that each room may import."""
    rows = re.findall(r"^\| \[(\w+)\][^|]*\|[^|]*\|([^|]*)\|$", PAGE.read_text(), flags=re.MULTILINE)
    found = {room: set(re.findall(r"\w+", said)) & set(ROOMS) for room, said in rows if room in ROOMS}
    return found | {"bench": set(ROOMS) - {"bench", "plugins"}}


def imported(room: str) -> set[str]:
    """Return the other rooms that the modules of a room import."""
    found: set[str] = set()
    for path in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found & set(ROOMS) - {room}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/supported.md"])
def test_every_path_that_is_named_exists(page: str) -> None:
    for path in NAMED.findall((ROOT / page).read_text()):
        if not path.startswith(("runs/", ".venv/")) and "NAME" not in path:
            assert (ROOT / path).exists(), path


def test_the_page_has_every_room() -> None:
    assert set(allowed()) == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_no_more_than_the_page_says(room: str) -> None:
    assert imported(room) <= allowed()[room]


def test_the_walks_name_what_the_modules_hold() -> None:
    text = PAGE.read_text()
    for name, path in (
        ("KafkaRest", "sizing/rest/variables.py"),
        ("RestWorkload", "sizing/rest/variables.py"),
        ("Sheet.put", "sizing/core/settings.py"),
    ):
        assert f"`{name}`" in text
        assert re.search(rf"(class|def) {name.rpartition('.')[2]}\b", (ROOT / path).read_text())
