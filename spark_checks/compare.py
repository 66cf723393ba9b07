"""Two runs, or two sets of repetitions, beside each other: ``python -m spark_checks compare A B``.

A and B are each a run (its folder, its report's folder or its verdicts.json), or several repetitions of one,
separated by commas. A measure got better or worse when the medians differ by more than the noise: the largest
difference between two repetitions of one side. Where neither side has repetitions the noise is not known, and
``--noise`` is taken for it (a share of the value, default 0.1), which is said.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from evidence.errors import EvidenceError, one_line

Change = Literal["better", "worse", "same", "new", "gone"]

#: What is worth comparing, by the end of a measure's name, and whether more of it is better.
_MORE_IS_BETTER: Final = re.compile(r"(acked|mean|sustained_p5|least)_records_per_s$|share_of_level$")
_LESS_IS_BETTER: Final = re.compile(
    r"_p\d+_ms$|_max_ms$|(produce_gap|consume_stall|not_stable|ownerless|lag_recovery|restore)_s$|skew$"
    r"|needed_partitions$|not_acked_records$|_pause_ms$|^anomalies\."
)
#: What a run was asked for: where it differs, two runs are not the same trial.
_ASKED: Final = re.compile(
    r"offered_records_per_s$|target_records_per_s$|\.partitions$|^rebalance\.restarts$"
)
_ASKED_DIFFERS: Final = 0.05
#: What was only measured is neither better nor worse than what passed.
_RANKS: Final = {"pass": 0, "measured": 0, "unknown": 1, "fail": 2}
_STYLES: Final = {"better": "green", "worse": "bold red", "new": "yellow", "gone": "yellow", "same": ""}


@dataclass(frozen=True)
class Compared:
    """One measure: the values of the repetitions on both sides, the noise, and what became of it."""

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    noise: float | None
    change: Change


def main(arguments: Sequence[str]) -> int:
    """Compare; return 0 when nothing got worse, 1 when something did, 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m spark_checks compare", description=__doc__)
    parser.add_argument("before", metavar="A", help="a run, or repetitions of it separated by commas")
    parser.add_argument("after", metavar="B", help="the same of what it is compared with")
    parser.add_argument("--noise", type=float, default=0.1, help="where nothing was repeated (default: 0.1)")
    parser.add_argument("--all", action="store_true", help="show what stayed the same, too")
    options = parser.parse_args(arguments)
    try:
        before, after = read(options.before), read(options.after)
    except EvidenceError as error:
        Console(stderr=True).print(
            f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        return 2
    found = compare(before, after, options.noise)
    show(found, before, after, options, Console(highlight=False))
    worse = any(one.change == "worse" for one in found) or _rank(after) > _rank(before)
    return 1 if worse else 0


def read(places: str) -> list[dict[str, Any]]:
    """Return the verdicts.json of each place, separated by commas.

    Raises:
        EvidenceError: naming the file that is not there or is no such document.
    """
    documents = []
    for place in places.split(","):
        path = Path(place)
        tries = [path] if path.suffix == ".json" else [path / "report/verdicts.json", path / "verdicts.json"]
        file = next((one for one in tries if one.exists()), None)
        if file is None:
            raise EvidenceError(
                f"{place}: no verdicts.json there; is it the folder of a run that was audited?"
            )
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            documents.append({key: document[key] for key in ("run_id", "verdict", "checks")})
            _RANKS[document["verdict"]]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise EvidenceError(
                f"{file}: is no verdicts.json of an audit: {one_line(repr(error), 80)}"
            ) from None
    return documents


def compare(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], assumed: float = 0.1
) -> list[Compared]:
    """Compare all measures that have a better and a worse, those that changed first.

    Args:
        before: verdicts.json documents of repetitions.
        after: the same of what they are compared with.
        assumed: the noise as a share of the value where neither side has repetitions.
    """
    ours, theirs = _gathered(before), _gathered(after)
    found = []
    for name in dict.fromkeys((*ours, *theirs)):
        if not _LESS_IS_BETTER.search(name) and not _MORE_IS_BETTER.search(name):
            continue
        one, two = ours.get(name, ()), theirs.get(name, ())
        if name.startswith("anomalies."):
            # A kind that does not occur is not listed.
            one, two = one or (0.0,) * len(before), two or (0.0,) * len(after)
        if not one or not two:
            found.append(Compared(name, one, two, None, "gone" if one else "new"))
            continue
        noise = _noise(one, two, assumed)
        by = statistics.median(two) - statistics.median(one)
        change: Change = "same"
        if abs(by) > noise:
            change = "better" if (by > 0) == bool(_MORE_IS_BETTER.search(name)) else "worse"
        found.append(Compared(name, one, two, noise, change))
    order = ("worse", "better", "gone", "new", "same")
    return sorted(found, key=lambda one: order.index(one.change))


def _noise(one: Sequence[float], two: Sequence[float], assumed: float) -> float:
    spreads = [max(side) - min(side) for side in (one, two) if len(side) > 1]
    return max(spreads) if spreads else assumed * abs(statistics.median(one))


def _gathered(documents: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, ...]]:
    """Return the values of each measure by its name: check, path in ``measured``."""
    found: dict[str, list[float]] = {}
    for document in documents:
        for check in document["checks"]:
            for name, value in _numbers(check["measured"], check["name"]):
                found.setdefault(name, []).append(value)
            for kind, anomaly in check["anomalies"].items():
                found.setdefault(f"anomalies.{check['name']}.{kind}", []).append(float(anomaly["count"]))
    return {name: tuple(values) for name, values in found.items()}


def _numbers(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}.{key}")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{prefix}.{key}", float(value)


def not_alike(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what both sides were asked for and that differs: then they are two trials, not one repeated."""
    ours, theirs = _gathered(before), _gathered(after)
    lines = []
    for name in ours:
        if _ASKED.search(name) and name in theirs:
            one, two = statistics.median(ours[name]), statistics.median(theirs[name])
            if abs(two - one) > _ASKED_DIFFERS * max(abs(one), abs(two)):
                lines.append(f"{name} was {one:,.6g} and is {two:,.6g}")
    return lines


def _rank(documents: Sequence[Mapping[str, Any]]) -> int:
    return max(_RANKS[document["verdict"]] for document in documents)


def judged_otherwise(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the checks that one side judged and the other only measured, for want of a level."""

    def verdicts(documents: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for document in documents:
            for check in document["checks"]:
                found.setdefault(check["name"], set()).add(check["verdict"])
        return found

    ours, theirs = verdicts(before), verdicts(after)
    return [
        f"{name} was {' or '.join(sorted(ours[name]))} and is {' or '.join(sorted(theirs[name]))}"
        for name in ours
        if name in theirs and ("measured" in ours[name]) != ("measured" in theirs[name])
    ]


def show(
    found: Sequence[Compared],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    options: argparse.Namespace,
    console: Console,
) -> None:
    """Print the verdicts, what changed, and how noise was known."""
    for line in not_alike(before, after):
        console.print(f"not the same trial: {line}", style="yellow")
    for line in judged_otherwise(before, after):
        console.print(f"not the same levels: {line}", style="yellow")
    verdicts = [" ".join(f"{run['run_id']} {run['verdict']}" for run in side) for side in (before, after)]
    console.print(f"before: {verdicts[0]}\nafter:  {verdicts[1]}", markup=False)
    table = Table("", "measure", "before", "after", "change", "noise")
    # A name that was cut off could not be looked up in the report.
    table.columns[1].overflow = "fold"
    for one in found:
        if one.change != "same" or options.all:
            noise = "" if one.noise is None else f"±{_number(one.noise)}"
            cells = (one.name, _range(one.before), _range(one.after), _share(one), noise)
            table.add_row(one.change, *cells, style=_STYLES[one.change])
    if table.row_count:
        console.print(table)
    repeated = max(len(before), len(after)) > 1
    how = (
        "the largest difference between two repetitions"
        if repeated
        else f"not known from one run each; {options.noise:.0%} of the value was taken for it"
    )
    counts = {change: sum(one.change == change for one in found) for change in ("better", "worse", "same")}
    console.print(", ".join(f"{count} {change}" for change, count in counts.items()) + f"; noise: {how}")


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = _number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _share(one: Compared) -> str:
    if not one.before or not one.after or not statistics.median(one.before):
        return ""
    return f"{statistics.median(one.after) / statistics.median(one.before) - 1:+.1%}"
