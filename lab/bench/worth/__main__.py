"""Whether the plan is ever worse than stock, and where it is better, by class of work.

    python -m lab.bench.worth -i INV [CLASS...]  a report each in reports/, and the page's tables
    python -m lab.bench.worth --check            what there is, and what would be played; nothing is touched
    python -m lab.bench.worth --table            the tables of lab/measurements/worth.md from the reports

Stock, documented and planned take turns in blocks, and are judged as compare.yml judges variants: intervals,
and Holm's correction over all figures of a class. Not for a fleet that serves anybody: every turn deploys.
Exit 0 where planned is nowhere told apart from the first variant to the worse, 1 where it is or a class has
no figures, 2 for wrong input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kedge.plan.inventory.yaml_files import InventoryError
from lab.bench.rest.fleet import FleetError, Proxies, proxies, put_back
from lab.bench.turns import take_turns
from lab.bench.worth import alone
from lab.bench.worth.classes import CLASSES, FLEET, Work
from lab.bench.worth.fleet import Loops, compared
from lab.bench.worth.table import ALONE, reports, worse, written

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "measurements" / "worth.md"
VARIANTS: Final = ("stock", "documented", "planned")
_SECONDS: Final = 15.0
_WARM_UP_S: Final = 30.0


def main(arguments: list[str] | None = None) -> int:
    """Play the classes, keep a report of each, and write the page's tables."""
    parser = _parser()
    options = parser.parse_args(arguments)
    options.variants = tuple(options.variants.split(","))
    if wrong := _wrong(options):
        print(f"lab.bench.worth: {wrong}", file=sys.stderr)
        return 2
    classes = {name: CLASSES[name] for name in options.classes or CLASSES}
    if options.check:
        for name, work in classes.items():
            print(_described(name, work, options))
        return 0
    if not options.table:
        options.command = shlex.join(["python", "-m", "lab.bench.worth", *(arguments or sys.argv[1:])])
        try:
            fine = _played(classes, options)
        except (InventoryError, FleetError) as error:
            print(f"lab.bench.worth: {error}", file=sys.stderr)
            return 2
    if options.table or options.out == HERE / "reports":
        page = written(PAGE.read_text(encoding="utf-8"), reports(HERE / "reports"))
        PAGE.write_text(page, encoding="utf-8")
    return 0 if options.table or fine else 1


def _wrong(options: argparse.Namespace) -> str:
    """Return what of the command line cannot be."""
    if unknown := [one for one in options.classes if one not in CLASSES]:
        return f"no class {', '.join(unknown)}; there are: {', '.join(CLASSES)}"
    odd = [one for one in options.variants if one not in VARIANTS]
    if odd or "planned" not in options.variants[1:]:
        return (
            f"--variants {','.join(options.variants)}: name planned after what it is compared with, such as "
            f"{','.join(VARIANTS)}"
        )
    on_fleet = [one for one in options.classes or CLASSES if CLASSES[one].by in FLEET]
    if on_fleet and not (options.inventory or options.check or options.table):
        return f"--inventory is missing: {', '.join(on_fleet)} are played on a fleet"
    return ""


def _described(name: str, work: Work, options: argparse.Namespace) -> str:
    variants = alone.variants_of(work.by, options.variants)
    by = {"compare": "compare.yml", "proxies": "loops on the fleet"}.get(work.by, f"bench.{work.by}")
    turns = 2 * options.blocks * len(variants)
    return f"{name}: {work.title}; by {by}; {', '.join(variants)} in {options.blocks} blocks, {turns} turns"


def _played(classes: dict[str, Work], options: argparse.Namespace) -> bool:
    """Play classes; return whether all have figures, and none in which planned is worse."""
    fine = True
    fleet = None
    with contextlib.ExitStack() as stack:
        if any(work.by in FLEET for work in classes.values()):
            fleet = proxies(options.inventory, {})
            stack.enter_context(put_back(options.inventory))
        for name, work in classes.items():
            _say(f"{name}: {work.title}")
            try:
                found = _one(name, work, options)
            except (FleetError, ValueError, alone.MissingError) as error:
                _say(f"{name}: no figures: {error}")
                fine = False
                continue
            report = _keep(name, work, fleet, found, options)
            for figure in worse(report):
                _say(f"{name}: planned is worse in {figure}")
            fine = fine and bool(found["figures"]) and not worse(report)
    return fine


def _one(name: str, work: Work, options: argparse.Namespace) -> dict[str, Any]:
    if work.by == "compare":
        return compared(name, work, options)
    variants = alone.variants_of(work.by, options.variants)
    if work.by == "proxies":
        return take_turns(variants, options.blocks, Loops(name, options).turn, _say)
    with (alone.mirror if work.by == "mirror" else alone.streams)(options) as turn:
        return take_turns(variants, options.blocks, turn, _say)


def _keep(
    name: str, work: Work, fleet: Proxies | None, found: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Write the report of a class; return it."""
    on_fleet = fleet is not None and work.by in FLEET
    report = {
        "class": name,
        "subject": f"{fleet.distribution} {fleet.version}" if fleet and on_fleet else work.by,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "command": options.command,
        **found,
    }
    folder = options.out / (fleet.distribution if fleet and on_fleet else ALONE)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench.worth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("classes", nargs="*", metavar="CLASS", help=", ".join(CLASSES))
    parser.add_argument("--inventory", "-i", type=Path, help="the fleet that is measured")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="default %(default)s")
    parser.add_argument("--blocks", type=int, default=4, help="each variant there and back (default 4)")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="measured, each turn (default 15)")
    parser.add_argument(
        "--warm-up",
        type=float,
        default=_WARM_UP_S,
        help="seconds before that, more until steady (default 30)",
    )
    parser.add_argument(
        "--topic", default="kedge-verify-rest", help="of the loops, written to and read (default %(default)s)"
    )
    parser.add_argument("--record-bytes", type=int, default=100, help="of the loops (default 100)")
    parser.add_argument("--out", type=Path, default=HERE / "reports", help="folder of the reports")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="say what would be played")
    what.add_argument("--table", action="store_true", help="write the tables of the page alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
