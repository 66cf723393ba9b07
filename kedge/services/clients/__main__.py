"""``kedge clients --inventory INV``: the settings of ``kafka_clients``, with reasons and prices.

Without ``--out`` every client is printed as its files would be. With it, ``OUT/clients/NAME/`` gets
``producer.properties`` and ``consumer.properties`` (``.options`` for Spark), which say why, and for
librdkafka and Spark the same as JSON, which a program reads as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kedge.evidence.command_line import described, until_closed, working
from kedge.plan.findings import Finding
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.plan.plan import Plan
from kedge.plan.settings import Setting
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES

_COLUMNS: Final = 100
#: Libraries that are configured by a map; only Java's own clients read properties files alone.
_BY_MAP: Final = ("librdkafka", "spark")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write the files; return 1 with an error finding (nothing is written then), 2 without input."""
    parser = argparse.ArgumentParser(prog="kedge clients", description=described(__doc__))
    parser.add_argument(
        "--inventory", "-i", required=True, type=Path, metavar="INV", help="an Ansible inventory"
    )
    parser.add_argument("--client", metavar="NAME", help="only this one of kafka_clients")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="a folder to write the files to")
    options = parser.parse_args(arguments)
    try:
        with working(f"planning {options.inventory}"):
            inventory = read_inventory(options.inventory, SERVICES)
            plan = make_plan(inventory)
    except InventoryError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = sorted(plan.clients) if options.client is None else [options.client]
    findings = client_findings(plan)
    for f in findings:
        print(f"{f.severity}: {f.where}: {f.message}; {f.fix}", file=sys.stderr)
    if any(f.severity == "error" for f in findings):
        return 1
    if not chosen or chosen[0] not in plan.clients:
        known = ", ".join(sorted(plan.clients)) or "none"
        print(
            f"kafka_clients of {options.inventory} has no client {options.client or 'at all'}; there is "
            f"{known}",
            file=sys.stderr,
        )
        return 2
    libraries = {c["name"]: c["library"] for c in inventory.common("kafka_clients", [])}
    for name in chosen:
        for file, content in rendered(plan.clients[name], libraries[name]).items():
            if options.out:
                path = options.out / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
                print(path)
            elif not file.endswith(".json"):
                print(f"==> {file}\n{content}")
    return 0


def client_findings(plan: Plan) -> tuple[Finding, ...]:
    """Return what is wrong with the declared clients, a contradiction to the service levels included."""
    return tuple(
        f
        for f in plan.findings
        if f.rule.startswith("clients.") or (f.subject and f.subject.variable.startswith("kafka_clients"))
    )


def rendered(settings: Sequence[Setting], library: str) -> dict[str, str]:
    """Return the files of a client, relative to where the person wants them, with their contents.

    A value under a key that is made for a secret is left to the person: its line is a comment.
    """
    of_file: dict[str, list[Setting]] = {}
    for setting in settings:
        of_file.setdefault(setting.file, []).append(setting)
    files = {file: "\n".join(_entry(s) for s in rows) for file, rows in of_file.items()}
    if library in _BY_MAP:
        for file, rows in of_file.items():
            values = {s.key: s.value for s in rows if not s.hidden}
            files[str(Path(file).with_suffix(".json"))] = json.dumps(values, indent=2) + "\n"
    return files


def _entry(setting: Setting) -> str:
    if setting.hidden:
        return f"# a secret: put it in by yourself\n# {setting.key}=\n"
    reason = (
        setting.because
        if setting.by == "person"
        else f"{setting.because} ({setting.basis}; {setting.source})"
    )
    comment = "\n".join(f"# {line}" for line in textwrap.wrap(reason, _COLUMNS))
    return f"{comment}\n{setting.key}={_escaped(setting.value)}\n"


def _escaped(value: str) -> str:
    """Return a value as java.util.Properties reads it back."""
    text = re.sub(r"^\s", lambda blank: f"\\{blank[0]}", value.replace("\\", "\\\\"))
    return text.replace("\n", "\\n").replace("\r", "\\r")


if __name__ == "__main__":
    sys.exit(until_closed(main))
