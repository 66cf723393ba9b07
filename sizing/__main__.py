"""``python -m sizing --inventory INV``: the plan, from facts in the inventory, without any host."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, get_args

from evidence.nearest import nearest
from sizing.core.settings import Advice, Basis
from sizing.inventory.reading import read_archives, read_inventory
from sizing.inventory.yaml_files import InventoryError
from sizing.page import page
from sizing.pipes import until_closed
from sizing.plan import make_plan
from sizing.recommended_changes import what_changes
from sizing.services import SERVICES
from sizing.text import difference, resting_on, text


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; return 0 when it is clean, 1 with an error finding, 2 when the input cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m sizing", description=__doc__)
    parser.add_argument("--inventory", "-i", required=True, type=Path, help="an Ansible inventory")
    parser.add_argument("--format", choices=["text", "json", "html"], default="text")
    parser.add_argument("--advice", choices=get_args(Advice), help="instead of the inventory's own choice")
    parser.add_argument(
        "--diff",
        choices=get_args(Advice),
        metavar="ADVICE",
        help="print only the settings in which the plan differs from the one by this advice",
    )
    parser.add_argument(
        "--extra-vars",
        "-e",
        action="append",
        default=[],
        metavar="@FILE",
        help="variables over the inventory's, as ansible-playbook takes them; of a file of recommendations, "
        "what it changes is printed too",
    )
    parser.add_argument(
        "--basis",
        action="extend",
        nargs="+",
        default=[],
        metavar="BASIS",
        help=f"print only the settings that rest on it, with their reasons, and their share: "
        f"{', '.join(get_args(Basis))}",
    )
    parser.add_argument("--full", action="store_true", help="print every instance, also those like another")
    options = parser.parse_args(arguments)
    for word in options.basis:
        if word not in get_args(Basis):
            near = nearest(word, get_args(Basis))
            mend = f"did you mean {near}?" if near else f"it is one of {', '.join(get_args(Basis))}"
            print(f"--basis {word}: no value rests on that; {mend}", file=sys.stderr)
            return 2
    try:
        inventory = read_inventory(options.inventory, SERVICES, options.extra_vars)
    except InventoryError as error:
        print(error, file=sys.stderr)
        return 2
    plan = make_plan(inventory, options.advice, archives=read_archives(inventory, SERVICES))
    if options.diff and options.format != "text":
        parser.error(f"--diff has no {options.format} form: print both plans as JSON, and compare those")
    if options.basis and (options.diff or options.format != "text"):
        parser.error("--basis goes with neither --diff nor --format: JSON and HTML have every basis")
    if options.diff and plan.has_errors:
        print(text(plan))
        print("no difference is shown of a plan with errors", file=sys.stderr)
    elif options.diff:
        own = options.advice or inventory.common("advice", "measured")
        print(difference(plan, make_plan(inventory, options.diff), own, options.diff))
    elif options.basis and not plan.has_errors:
        print(resting_on(plan, list(dict.fromkeys(options.basis))))
    elif options.format == "json":
        print(json.dumps(_printable(plan.to_json()), indent=2))
    elif options.format == "html":
        print(page(plan, str(options.inventory)), end="")
    else:
        print(text(plan, full=options.full))
        print(what_changes(inventory, plan, options.advice), end="")
    return 1 if plan.has_errors else 0


def _printable(document: Any) -> Any:
    """Return the plan's JSON with the values of secrets taken out."""
    if isinstance(document, list):
        return [_printable(part) for part in document]
    if not isinstance(document, dict):
        return document
    masked = {"value": "***"} if document.get("secret") else {}
    return {key: _printable(part) for key, part in document.items()} | masked


if __name__ == "__main__":
    sys.exit(until_closed(main))
