"""Two runs, or two sets of repetitions, beside each other: ``python -m spark_checks compare A B``.

A and B are each a run (its folder, its report's folder or its verdicts.json), or several repetitions of one,
separated by commas. Repetitions are judged by :mod:`spark_checks.judgement`: a figure got better or worse
where the difference would be seen by chance in one of twenty comparisons at most, all judged figures
together. From one run each nothing is known of chance; then ``--noise`` is taken for it (a share of the
value, default 0.1), which is said.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from evidence.errors import EvidenceError, one_line
from spark_checks.judgement import FALSE_ALARM, Block, Difference, corrected, difference, enough

Change = Literal["better", "worse", "same", "new", "gone"]

#: What is worth comparing, by the end of a measure's name, and whether more of it is better.
_MORE_IS_BETTER: Final = re.compile(r"(acked|mean|sustained_p5|least)_records_per_s$|share_of_level$")
_LESS_IS_BETTER: Final = re.compile(
    r"_p\d+_ms$|_max_ms$|(produce_gap|consume_stall|not_stable|ownerless|lag_recovery|restore)_s$|skew$"
    r"|needed_partitions$|not_acked_records$|_pause_ms$|^anomalies\.|^cost\."
)
#: Of repetitions, what is judged. Each more makes it harder to tell a difference in the others: these are
#: what users of a service and its owners notice.
_JUDGED: Final = re.compile(
    r"^throughput\..*\bmean_records_per_s$|^latency\..*\b(ack_p50|ack_p99|delivery_p99)_ms$"
    r"|^rebalance\.(produce_gap|consume_stall)_s$|^mirror\.[^.]+\.delay_p99_ms$|^outputs\..*\blatency_p99_ms$|^cost\."
)
#: What a run was asked for: where it differs, two runs are not the same trial.
_ASKED: Final = re.compile(
    r"offered_records_per_s$|target_records_per_s$|\.partitions$|^rebalance\.restarts$"
)
_ASKED_DIFFERS: Final = 0.05
#: What was only measured is neither better nor worse than what passed.
_RANKS: Final = {"pass": 0, "measured": 0, "unknown": 1, "fail": 2}
_STYLES: Final = {"better": "green", "worse": "bold red", "new": "yellow", "gone": "yellow", "same": ""}


#: What was measured in each block, before and after: verdicts.json documents.
Documents = Sequence[Mapping[str, Any]]
Blocks = Sequence[tuple[Documents, Documents]]


@dataclass(frozen=True)
class Compared:
    """One measure: the values of the repetitions on both sides, and what became of it.

    ``difference`` and ``chance``, corrected for all figures that were judged, are of repetitions; ``noise``
    is what was taken for chance where nothing was repeated.
    """

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    change: Change
    noise: float | None = None
    difference: Difference | None = None
    chance: float | None = None


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


def compare(before: Documents, after: Documents, assumed: float = 0.1) -> list[Compared]:
    """Compare all measures that have a better and a worse, those that changed first.

    Args:
        before: verdicts.json documents of repetitions.
        after: the same of what they are compared with.
        assumed: the noise as a share of the value where nothing was repeated.
    """
    return compare_all({"after": [(before, after)]}, assumed)["after"]


def compare_all(sides: Mapping[str, Blocks], assumed: float = 0.1) -> dict[str, list[Compared]]:
    """Compare several sides with one, each in its blocks; the chance of a false alarm is of all together."""
    found = {name: list(_measures(blocks, assumed)) for name, blocks in sides.items()}
    # Alike in every run: no order of the values could tell anything.
    judged = [
        (name, number, one.difference.chance)
        for name, of_side in found.items()
        for number, one in enumerate(of_side)
        if one.difference is not None and _JUDGED.search(one.name) and len({*one.before, *one.after}) > 1
    ]
    for (name, number, _), chance in zip(judged, corrected([each[2] for each in judged]), strict=True):
        one = found[name][number]
        assert one.difference is not None
        change = _better_or_worse(one.name, one.difference.by) if chance <= FALSE_ALARM else one.change
        found[name][number] = replace(one, chance=chance, change=change)
    order = ("worse", "better", "gone", "new", "same")
    return {name: sorted(many, key=lambda one: order.index(one.change)) for name, many in found.items()}


def _measures(blocks: Blocks, assumed: float) -> Iterator[Compared]:
    gathered = [(_gathered(one), _gathered(two)) for one, two in blocks]
    names = dict.fromkeys(name for sides in gathered for side in sides for name in side)
    runs = [(len(one), len(two)) for one, two in blocks]
    for name in names:
        if not _LESS_IS_BETTER.search(name) and not _MORE_IS_BETTER.search(name):
            continue
        # A kind of anomaly that does not occur is not listed.
        none = (0.0,) if name.startswith("anomalies.") else ()
        values = [
            (one.get(name, none * left), two.get(name, none * right))
            for (one, two), (left, right) in zip(gathered, runs, strict=True)
        ]
        before = tuple(value for one, _ in values for value in one)
        after = tuple(value for _, two in values for value in two)
        whole: list[Block] = [(one, two) for one, two in values if one and two]
        if not before or not after:
            yield Compared(name, before, after, "gone" if before else "new")
        elif whole and min(len(before), len(after)) > 1:
            yield Compared(name, before, after, _appeared(name, before, after), None, difference(whole))
        else:
            noise = assumed * abs(statistics.median(before))
            by = statistics.median(after) - statistics.median(before)
            yield Compared(
                name, before, after, _better_or_worse(name, by) if abs(by) > noise else "same", noise
            )


def _better_or_worse(name: str, by: float) -> Change:
    return "better" if (by > 0) == bool(_MORE_IS_BETTER.search(name)) else "worse"


def _appeared(name: str, before: Sequence[float], after: Sequence[float]) -> Change:
    """Tell what needs no statistics: a record that was lost is one too many."""
    if name.startswith("anomalies.") and any(before) != any(after):
        return "worse" if any(after) else "better"
    return "same"


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
    table = Table("", "measure", "before", "after", "change", "interval", "chance")
    # A name that was cut off could not be looked up in the report.
    table.columns[1].overflow = "fold"
    for one in found:
        if one.change != "same" or one.chance is not None or options.all:
            cells = (one.name, _range(one.before), _range(one.after), _share(one), interval(one))
            chance = "" if one.chance is None else f"{one.chance:.2g}"
            table.add_row(one.change, *cells, chance, style=_STYLES[one.change])
    if table.row_count:
        console.print(table)
    counts = {change: sum(one.change == change for one in found) for change in ("better", "worse", "same")}
    said = ", ".join(f"{count} {change}" for change, count in counts.items())
    console.print(f"{said}; {how_sure(found, [(len(before), len(after))], options.noise)}")


def how_sure(found: Sequence[Compared], runs: Sequence[tuple[int, int]], assumed: float = 0.1) -> str:
    """Say what a verdict of a comparison is worth; ``runs`` are those of both sides in each block."""
    judged = sum(one.chance is not None for one in found)
    if min(sum(one for one, _ in runs), sum(two for _, two in runs)) < 2:
        return f"noise: not known from one run each; {assumed:.0%} of the value was taken for it"
    said = (
        f"{judged} figures judged, with a chance of {FALSE_ALARM:.0%} at most that any is a false alarm; "
        f"intervals hold {1 - FALSE_ALARM:.0%} each"
    )
    if judged and not enough(runs, judged):
        said += "; so few repetitions cannot show any difference: repeat both sides more often"
    return said


def interval(one: Compared) -> str:
    """Return the interval of a difference in words, or what was taken for noise."""
    if one.noise is not None:
        return f"±{_number(one.noise)}"
    if one.difference is None:
        return ""
    ends = (one.difference.low, one.difference.high)
    if not all(map(math.isfinite, ends)):
        return "any"
    return " to ".join(f"{end:+.1%}" if one.difference.relative else f"{end:+.4g}" for end in ends)


def _range(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = _number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _share(one: Compared) -> str:
    if one.difference is not None:
        return f"{one.difference.by:+.1%}" if one.difference.relative else f"{one.difference.by:+.4g}"
    if not one.before or not one.after or not statistics.median(one.before):
        return ""
    return f"{statistics.median(one.after) / statistics.median(one.before) - 1:+.1%}"
