"""Write how many tests each folder has into lab/measurements/tests.md: ``python -m tests.tested``."""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).resolve().parents[1] / "lab" / "measurements" / "tests.md"
_ROW: Final = re.compile(r"^(\|(?: `tests/\w+`,?)+ \|) [\d,]+ \|", re.MULTILINE)
_FOLDER: Final = re.compile(r"tests/\w+")
_ALL: Final = re.compile(r"On [\d-]+ pytest collected [\d,]+ tests")


class _Collected:
    def __init__(self) -> None:
        self.ids: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.ids += [item.nodeid for item in session.items]


def collected(*options: str) -> list[str]:
    """Return the ids of the tests that pytest collects. Raises RuntimeError where a file cannot be read."""
    found, said = _Collected(), io.StringIO()
    with contextlib.redirect_stdout(said):
        status = pytest.main(["--collect-only", "-qq", *options], plugins=[found])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(said.getvalue())
    return found.ids


def counts() -> Counter[str]:
    """Return how many tests each folder has. Raises RuntimeError where a file cannot be read."""
    return Counter("/".join(each.split("/")[:2]) for each in collected())


def page(written: str, folders: Mapping[str, int], today: str) -> str:
    """Return the page with these counts. Raises ValueError for a folder that no row has."""
    named = {folder for row in _ROW.findall(written) for folder in _FOLDER.findall(row)}
    if lacking := sorted(folders.keys() - named):
        raise ValueError(f"{PAGE.name} has no row of {', '.join(lacking)}")

    def counted(row: re.Match[str]) -> str:
        has = sum(folders.get(folder, 0) for folder in _FOLDER.findall(row[1]))
        return f"{row[1]} {has:,} |"

    written = _ALL.sub(f"On {today} pytest collected {sum(folders.values()):,} tests", written)
    return _ROW.sub(counted, written)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), counts(), datetime.datetime.now(datetime.UTC).date().isoformat()))
    sys.exit()
