"""``kedge plan --inventory INV``: the plan, from facts in the inventory, without any host."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from kedge.evidence.command_line import described, working
from kedge.evidence.nearest import nearest
from kedge.plan.difference import PlanChange, at_commit, changes, document, moved, nothing, read_kept, shown
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import look_at_classes, read_archives
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.plan.markdown import markdown
from kedge.plan.page import page
from kedge.plan.plan import Plan
from kedge.plan.settings import Advice, Basis
from kedge.plan.text import brief, difference, of_hosts, resting_on, text
from kedge.services.planning import make_plan, what_changes
from kedge.services.registry import SERVICES


def main(arguments: list[str] | None = None) -> int:
    """Print the plan.

    Returns:
        0 when it is clean, 1 with an error finding, 2 when the input cannot be read; with ``--exit-code`` 3
        when a value changes.
    """
    options = _options(arguments)
    for word in options.basis:
        if word not in get_args(Basis):
            near = nearest(word, get_args(Basis))
            mend = f"did you mean {near}?" if near else f"it is one of {', '.join(get_args(Basis))}"
            print(f"--basis {word}: no value rests on that; {mend}", file=sys.stderr)
            return 2
    try:
        with working(f"planning {', '.join(map(str, options.inventory))}"):
            inventory, plan, found = _planned(options)
    except InventoryError as error:
        print(error, file=sys.stderr)
        return 2
    _print(options, inventory, plan, found)
    if plan.has_errors:
        return 1
    return 3 if options.exit_code and found else 0


def _planned(options: argparse.Namespace) -> tuple[Inventory, Plan, list[PlanChange] | None]:
    """Return the inventory, its plan, and what changes since --against; None without that, or with errors."""
    inventory = read_inventory(options.inventory, SERVICES, options.extra_vars)
    for host in options.host:
        if host not in inventory.hosts:
            near = nearest(host, inventory.hosts)
            mend = f"did you mean {near}?" if near else f"it has {', '.join(list(inventory.hosts)[:8])}"
            raise InventoryError(f"--host {host}: the inventory has no such host; {mend}")
    plan = make_plan(inventory, options.advice, archives=read_archives(inventory, SERVICES))
    plan = replace(plan, findings=(*plan.findings, *look_at_classes(inventory, SERVICES)))
    now = document(plan.to_json(), inventory, SERVICES, options.advice)
    before = [_older(one, options, now) for one in options.against]
    return inventory, plan, _changes(before, now) if before and not plan.has_errors else None


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kedge plan", description=described(__doc__))
    parser.add_argument(
        "--inventory",
        "-i",
        required=True,
        action="append",
        type=Path,
        metavar="INV",
        help="an Ansible inventory; of several the later ones win, as with Ansible",
    )
    parser.add_argument("--format", choices=["text", "json", "html", "markdown"], default="text")
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
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="OLD.json|COMMIT",
        help="print only what changes since a plan that --format json printed, or since a commit of the "
        "inventory's repository, and whose change it is; with one of each, every change has one author",
    )
    parser.add_argument("--exit-code", action="store_true", help="return 3 when --against finds a change")
    parser.add_argument("--all", action="store_true", help="print each setting with its reason")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="print each setting of a host with its reason",
    )
    parser.add_argument(
        "--full", action="store_true", help="--all, and every instance, also those like another"
    )
    options = parser.parse_args(arguments)
    if options.diff and options.format != "text":
        parser.error(f"--diff has no {options.format} form: print both plans as JSON, and compare those")
    if options.basis and (options.diff or options.format != "text"):
        parser.error("--basis goes with neither --diff nor --format: JSON and HTML have every basis")
    if options.against and (options.basis or options.diff or options.format == "html"):
        parser.error("--against goes with neither --format html nor --basis nor --diff")
    if (options.all or options.host) and (
        options.format != "text" or options.basis or options.diff or options.against
    ):
        parser.error("--all and --host go with neither --format nor --basis nor --diff nor --against")
    if options.exit_code and not options.against:
        parser.error("--exit-code goes with --against: without it there is nothing that could have changed")
    return options


def _print(
    options: argparse.Namespace, inventory: Inventory, plan: Plan, found: Sequence[PlanChange] | None
) -> None:
    if options.diff and plan.has_errors:
        print(text(plan))
        print("no difference is shown of a plan with errors", file=sys.stderr)
    elif options.diff:
        own = options.advice or inventory.common("advice", "measured")
        print(difference(plan, make_plan(inventory, options.diff), own, options.diff))
    elif options.basis and not plan.has_errors:
        print(resting_on(plan, list(dict.fromkeys(options.basis))))
    elif options.format == "json":
        whole = document(_printable(plan.to_json()), inventory, SERVICES, options.advice)
        differs = {} if found is None else {"changes": [one.to_json() for one in found]}
        print(json.dumps(whole | differs, indent=2))
    elif options.format == "html":
        print(page(plan, ", ".join(map(str, options.inventory))), end="")
    elif options.format == "markdown":
        print(markdown(plan, found))
    elif found is not None:
        print(shown(found))
    else:
        every = options.all or options.full or options.host
        chosen = of_hosts(plan, options.host) if options.host and not plan.has_errors else plan
        print(text(chosen, full=options.full) if every else brief(plan))
        print(what_changes(inventory, plan, options.advice), end="")


def _older(name: str, options: argparse.Namespace, now: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a plan that was kept, or what this kit plans of the inventory at a commit."""
    if Path(name).is_file():
        return read_kept(Path(name))
    with ExitStack() as stack:
        then = [stack.enter_context(at_commit(one, name)) for one in options.inventory]
        laid_out = [one for one in then if one]
        if not laid_out:
            return nothing(now)
        inventory = read_inventory([path for path, _, _ in laid_out], SERVICES, options.extra_vars)
        for _, made, place in laid_out:
            inventory = moved(inventory, made, place)
    # Archives of another day need not be here any more.
    plan = make_plan(inventory, options.advice)
    if plan.has_errors:
        first = next(f for f in plan.findings if f.severity == "error")
        raise InventoryError(
            f"--against {name}: that inventory has errors, the first at {first.where}: {first.message}"
        )
    return document(plan.to_json(), inventory, SERVICES, options.advice)


def _changes(before: Sequence[dict[str, Any]], now: dict[str, Any]) -> list[PlanChange]:
    kept = [one for one in before if one.get("kit") != now["kit"]]
    if len(before) > 2 or (len(before) == 2 and len(kept) != 1):
        raise InventoryError("--against: give one plan of another kit, one commit, or one of each")
    if len(before) == 1:
        return changes(before[0], now)
    between = next(one for one in before if one is not kept[0])
    return changes(kept[0], now, between)


def _printable(document: Any) -> Any:
    """Return the plan's JSON with the values of secrets taken out."""
    if isinstance(document, list):
        return [_printable(part) for part in document]
    if not isinstance(document, dict):
        return document
    masked = {"value": "***"} if document.get("secret") else {}
    return {key: _printable(part) for key, part in document.items()} | masked
