"""What the last release plans of inventories that it came with, kept under tests/released.

``python -m tests.baseline`` keeps it anew, as CONTRIBUTING.md says when.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kedge.evidence.release import VERSION
from kedge.plan.compact_names import compact
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.rules import since
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES

ROOT: Final = Path(__file__).resolve().parents[1]
KEPT: Final = ROOT / "tests" / "released"
#: The commit of that release, for clones without tags.
COMMIT: Final = KEPT / "commit"
#: Between them they have every service. They are kept too: a change of theirs is none of the rules.
INVENTORIES: Final = ("example", "local-mirror", "mapr")


def version() -> str:
    """Return the release whose plans are kept."""
    return (KEPT / "version").read_text().strip()


def kept(inventory: str) -> list[str]:
    """Return the lines that the release planned of an inventory."""
    return (KEPT / f"{inventory}.plan").read_text().splitlines()


def planned(inventory: str) -> list[str]:
    """Return a line for each value that this tree plans of an inventory as it was, after the value's rule."""
    plan = make_plan(read_inventory(KEPT / "inventories" / inventory, SERVICES))
    assert not plan.has_errors, plan.findings
    places: dict[tuple[str, ...], list[str]] = {}
    for where, s in plan.settings():
        value = "***" if s.hidden else s.value.replace("\n", "\\n")
        places.setdefault((s.rule, s.file.rpartition("/")[2], f"{s.key}={value}"), []).append(where)
    return sorted(" | ".join((*same, compact(where))) for same, where in places.items())


def rules() -> list[str]:
    """Return the name of each rule that docs/rules.md has."""
    page = (ROOT / "docs" / "rules.md").read_text()
    return sorted(set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)))


def unnamed(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Return the lines that only one side has, and whose rule no release after the kept one changed."""
    old, new = set(before), set(after)
    changed = [*(f"-{line}" for line in old - new), *(f"+{line}" for line in new - old)]
    return sorted(
        (line for line in changed if _numbers(since(line[1:].partition(" | ")[0])) <= _numbers(version())),
        key=lambda line: (line[1:].partition("=")[0], line),
    )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def keep() -> None:
    """Keep the inventories, and what this tree plans of them."""
    shutil.rmtree(KEPT, ignore_errors=True)
    for one in INVENTORIES:
        shutil.copytree(ROOT / "inventories" / one, KEPT / "inventories" / one)
        (KEPT / f"{one}.plan").write_text("\n".join(planned(one)) + "\n")
    (KEPT / "rules").write_text("\n".join(rules()) + "\n")
    (KEPT / "version").write_text(f"{VERSION}\n")
    COMMIT.touch()  # the release's own commit cannot name itself


if __name__ == "__main__":
    keep()
