"""Whether the instances run with what was planned for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kedge.evidence.levels import Levels
from spark_checks.engine.anomalies import tally
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
_ORDER = ["host", "service", "instance", "file", "key"]


def check(evidence: Evidence, levels: Levels) -> Result:
    """Each planned setting against what its instance's file or unit says on the host, read after the load.

    - different: the file holds another value, or lacks the key. Values are compared as texts, without the
      blanks around them; of numbers and truth values the spelling does not count (1e3 is 1000, True is true).
    - unread: nothing could be read of that instance's file, so that nothing is known of its settings.

    Secrets are compared by their presence alone. Without a settings table nothing is known.
    """
    rows, level = evidence.rows("settings"), levels.settings.different
    if rows is None:
        return Result("settings", "unknown", "there is no settings table: verify.collect writes it")
    read = {_file(row) for row in rows if row["running"] is not None}
    found = [
        {"kind": "different" if _file(row) in read else "unread"}
        | {name: row[name] for name in (*_ORDER, "planned", "running")}
        for row in rows
        if _file(row) not in read or not same(row["planned"], row["running"])
    ]
    anomalies = tally(found, _ORDER)
    by_service = {
        service: {
            "settings": sum(row["service"] == service for row in rows),
            "instances": len({(row["host"], row["instance"]) for row in rows if row["service"] == service}),
            "hosts": len({row["host"] for row in rows if row["service"] == service}),
        }
        for service in sorted({row["service"] for row in rows})
    }
    different, unread = (anomalies.get(kind, Anomaly(0)).count for kind in ("different", "unread"))
    whole = sum(part["settings"] for part in by_service.values())
    problems, doubts = [], []
    if level is not None and different > level:
        problems.append(f"{different:,} of {whole:,} settings are not as planned{_first(anomalies)}")
    if unread:
        doubts.append(f"{unread:,} settings could not be read")
    if not whole:
        doubts.append("the settings table is empty: no host was planned, or none could be read")
    return concluded(
        "settings",
        problems,
        doubts,
        f"{whole:,} settings, {different:,} different",
        [Figure("different", different, level, key="settings.different", of=whole)],
        measured={"settings": whole, "different": different, "unread": unread, "by_service": by_service},
        anomalies=anomalies,
        recommendations=(
            Recommendation(
                "Run deploy.yml, or put the hosts' own values into the inventory",
                f"{different:,} settings on the hosts are not those that were planned",
                effect="what runs is what was planned, so that the plan's sums hold",
            ),
        )
        if different
        else (),
    )


def _file(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["host"], row["service"], row["instance"], row["file"]


def same(planned: str, running: str | None) -> bool:
    """Return whether two texts say the same, but for blanks around them, case, and how a number is spelt."""
    if running is None:
        return False
    one, two = (text.strip(" ").lower() for text in (planned, running))
    if one == two:
        return True
    numbers = [float(text) for text in (one, two) if _NUMBER.fullmatch(text)]
    return len(numbers) == 2 and numbers[0] == numbers[1]


def _first(anomalies: Any) -> str:
    one = anomalies["different"].examples[0]
    running = repr(one["running"]) if "running" in one else "nothing"
    where = f"{one['service']} {one['instance']} on {one['host']}"
    return f" (first: {one['key']} at {where}: planned {one['planned']!r}, runs with {running})"
