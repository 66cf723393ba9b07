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
        self.folders = Counter[str]()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.folders.update("/".join(item.nodeid.split("/")[:2]) for item in session.items)


def counts() -> Counter[str]:
    """Collect all tests; return how many each folder has. Raises RuntimeError where a file cannot be read."""
    collected, said = _Collected(), io.StringIO()
    with contextlib.redirect_stdout(said):
        status = pytest.main(["--collect-only", "-qq"], plugins=[collected])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(said.getvalue())
    return collected.folders


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
