"""``python -m sizing --inventory INV``: the plan, from facts in the inventory, without any host."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

from sizing.model import Advice, Inventory
from sizing.plan import make_plan
from sizing.report import difference, text


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; return 0 when it is clean, 1 with an error finding, 2 when the input cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m sizing", description=__doc__)
    parser.add_argument("--inventory", "-i", required=True, type=Path, help="an Ansible inventory")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--advice", choices=get_args(Advice), help="instead of the inventory's own choice")
    parser.add_argument(
        "--diff",
        choices=get_args(Advice),
        metavar="ADVICE",
        help="print only the settings in which the plan differs from the one by this advice",
    )
    parser.add_argument("--full", action="store_true", help="print every instance, also those like another")
    options = parser.parse_args(arguments)
    try:
        inventory = read_inventory(options.inventory)
    except InventoryError as error:
        print(error, file=sys.stderr)
        return 2
    plan = make_plan(inventory, options.advice)
    if options.diff:
        own = options.advice or inventory.common("advice", "measured")
        print(difference(plan, make_plan(inventory, options.diff), own, options.diff))
    elif options.format == "json":
        print(json.dumps(_printable(plan.to_json()), indent=2))
    else:
        print(text(plan, full=options.full))
    return 1 if plan.has_errors else 0


def _printable(document: Any) -> Any:
    """Return the plan's JSON with the values of secrets taken out."""
    if isinstance(document, list):
        return [_printable(part) for part in document]
    if not isinstance(document, dict):
        return document
    masked = {"value": "***"} if document.get("secret") else {}
    return {key: _printable(part) for key, part in document.items()} | masked


class InventoryError(Exception):
    """An inventory that cannot be read; the message is one line for the user."""


def read_inventory(path: Path) -> Inventory:
    """Read an Ansible inventory with Ansible's own reader, without any host.

    Raises:
        InventoryError: when it is not there, cannot be parsed, or holds no host.
    """
    if not path.exists():
        message = f"{path}: no such inventory; give the folder or file that ansible-playbook -i takes"
        raise InventoryError(message)
    tool = Path(sys.executable).with_name("ansible-inventory")
    command = [str(tool), "-i", str(path), "--list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    # Ansible warns about a file that it cannot parse, and goes on without it.
    if listing.returncode or "unable to parse" in listing.stderr.lower():
        raise InventoryError(f"{path}: {_why(listing.stderr)}")
    inventory = Inventory.from_ansible(json.loads(listing.stdout))
    if not inventory.hosts:
        message = f"{path}: the inventory has no host; add hosts to the groups kafka_rest, mirror_maker, ..."
        raise InventoryError(message)
    return inventory


def _why(complaint: str) -> str:
    """Return in one line what Ansible says at length: what is wrong, and where."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = next(
        (line for line in lines if "failed" in line.lower() or "error" in line.lower()), "cannot be read"
    )
    origin = next((line for line in lines if line.startswith("Origin:")), "")
    return f"{said.removeprefix('[WARNING]: ').removeprefix('[ERROR]: ')} {origin}".strip()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # head, or a pager that was closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
