"""What real proxies kept in tests: ``python -m tests.supported`` writes its table into ``docs/supported.md``.

A test that has a vendor's archive and the mark ``promise`` makes a cell, in ``lab/measurements/supported.json``; a run
without archives changes none.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from lab.services.rest_proxies import VendorArchive

_ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = _ROOT / "docs" / "supported.md"
_RUNS: Final = _ROOT / "lab" / "measurements" / "supported.json"
_BEGIN: Final = "<!-- written by python -m tests.supported -->\n"
_END: Final = "<!-- end -->\n"
_PROXY: Final = {"confluent": "kafka-rest", "strimzi": "Strimzi bridge"}
_PROPERTY: Final = "promise"

#: Promise to proxy to ``date``, ``passed`` and ``failed``, as the newest run of all its tests had them.
Runs = dict[str, dict[str, dict[str, str | int]]]


class Promises:
    """A plug-in of pytest that counts what was promised of which proxy, and keeps it when the session ends."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passed, and what failed in any of its phases."""
        for name, value in report.user_properties:
            if name == _PROPERTY and (report.failed or (report.when == "call" and report.passed)):
                promise, proxy = str(value).split("|")
                self.counts.setdefault((promise, proxy), Counter())[report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        """Write what was counted; a part of a promise's tests that passed replaces no whole."""
        if not self.counts:
            return
        runs = read()
        for (promise, proxy), counts in self.counts.items():
            before = runs.setdefault(promise, {}).get(proxy, {})
            if counts["failed"] or counts["passed"] >= int(before.get("passed", 0)):
                runs[promise][proxy] = {
                    "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
                    "passed": counts["passed"],
                    "failed": counts["failed"],
                }
        _RUNS.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def promise_of(item: pytest.Item) -> None:
    """Name in a test's reports what it promises of which proxy, where it has a vendor's archive."""
    mark, given = item.get_closest_marker(_PROPERTY), getattr(item, "callspec", None)
    if not mark or not given:
        return
    for vendor in given.params.values():
        if isinstance(vendor, VendorArchive):
            proxy = f"{_PROXY[vendor.distribution]} {vendor.version}"
            item.user_properties.append((_PROPERTY, f"{mark.args[0]}|{proxy}"))


def read() -> Runs:
    """Return what was kept of the runs before."""
    return json.loads(_RUNS.read_text(encoding="utf-8")) if _RUNS.exists() else {}


def page(text: str, runs: Runs) -> str:
    """Return the page with the table of these runs between its two marks."""
    proxies = sorted({proxy for each in runs.values() for proxy in each})
    rows = [
        ["", *proxies],
        ["---"] * (len(proxies) + 1),
        *(
            [promise, *(_cell(each.get(proxy)) for proxy in proxies)]
            for promise, each in sorted(runs.items())
        ),
    ]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    before, rest = text.split(_BEGIN)
    return f"{before}{_BEGIN}{table}{_END}{rest.split(_END)[1]}"


def _cell(run: dict[str, str | int] | None) -> str:
    if run is None:
        return "not run"
    tests = int(run["passed"]) + int(run["failed"])
    count = "1 test" if tests == 1 else f"{tests} tests"
    return f"{run['date']}, {count}" + (f", **{run['failed']} failed**" if run["failed"] else "")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
