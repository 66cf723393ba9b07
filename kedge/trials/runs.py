"""Two runs, or two sets of repetitions, beside each other: ``kedge audit compare A B``.

A and B are each a run (its folder, its report's folder or its verdicts.json), or several repetitions of one,
separated by commas.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from kedge.evidence.errors import EvidenceError, one_line
from kedge.trials.figures import Compared, Documents, asked_otherwise, compare, judged_otherwise
from kedge.trials.table import how_sure, row
from kedge.trials.thresholds import SINGLE_RUN_NOISE

#: What was only measured is neither better nor worse than what passed.
_RANKS: Final = {"pass": 0, "measured": 0, "unknown": 1, "fail": 2}
_STYLES: Final = {"better": "green", "worse": "bold red", "new": "yellow", "gone": "yellow", "same": ""}


def main(arguments: Sequence[str]) -> int:
    """Compare; return 0 when nothing got worse, 1 when something did, 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="kedge audit compare", description=__doc__)
    parser.add_argument("before", metavar="A", help="a run, or repetitions of it separated by commas")
    parser.add_argument("after", metavar="B", help="the same of what it is compared with")
    parser.add_argument(
        "--noise",
        type=float,
        default=SINGLE_RUN_NOISE,
        help="share of a value taken for chance where nothing was repeated (default: %(default)s)",
    )
    parser.add_argument("--all", action="store_true", help="show what stayed the same, too")
    options = parser.parse_args(arguments)
    try:
        before, after = _read(options.before), _read(options.after)
    except EvidenceError as error:
        Console(stderr=True).print(
            f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        return 2
    found = compare({"after": [(before, after)]}, options.noise)["after"]
    _show(found, before, after, options)
    worse = any(one.change == "worse" for one in found) or _rank(after) > _rank(before)
    return 1 if worse else 0


def _read(places: str) -> list[dict[str, Any]]:
    """Return the verdicts.json of each place, separated by commas; raises EvidenceError naming the file."""
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


def _rank(documents: Documents) -> int:
    return max(_RANKS[document["verdict"]] for document in documents)


def _show(
    found: Sequence[Compared], before: Documents, after: Documents, options: argparse.Namespace
) -> None:
    console = Console(highlight=False)
    for line in asked_otherwise(before, after):
        console.print(f"not the same load: {line}", style="yellow")
    for line in judged_otherwise(before, after):
        console.print(f"not the same levels: {line}", style="yellow")
    for name, side in (("before:", before), ("after: ", after)):
        console.print(name, *(f"{run['run_id']} {run['verdict']}" for run in side), markup=False)
    table = Table("", "measure", "before", "after", "change", "interval", "chance")
    # A name that was cut off could not be looked up in the report.
    table.columns[1].overflow = "fold"
    for one in found:
        if one.change != "same" or one.chance is not None or options.all:
            table.add_row(*row(one), style=_STYLES[one.change])
    if table.row_count:
        console.print(table)
    changes = [one.change for one in found]
    counts = ", ".join(f"{changes.count(change)} {change}" for change in ("better", "worse", "same"))
    console.print(f"{counts}; {how_sure(found, [(before, after)], options.noise)}")
