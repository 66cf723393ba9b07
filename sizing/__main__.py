"""``python -m sizing --inventory INV``: the plan, from facts in the inventory, without any host."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from sizing.model import Inventory, Plan
from sizing.plan import make_plan


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; return 0 when it is clean, 1 with an error finding, 2 when the input cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m sizing", description=__doc__)
    parser.add_argument("--inventory", "-i", required=True, type=Path, help="an Ansible inventory")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    if not options.inventory.exists():
        print(f"{options.inventory}: no such inventory", file=sys.stderr)
        return 2
    tool = Path(sys.executable).with_name("ansible-inventory")
    listing = subprocess.run(
        [str(tool), "-i", str(options.inventory), "--list"], capture_output=True, text=True, check=False
    )
    if listing.returncode:
        print(f"{options.inventory}: {listing.stderr.strip()}", file=sys.stderr)
        return 2
    plan = make_plan(Inventory.from_ansible(json.loads(listing.stdout)))
    print(json.dumps(plan.to_json(), indent=2) if options.format == "json" else text(plan))
    return 1 if plan.has_errors else 0


def text(plan: Plan) -> str:
    """Return the plan as a person reads it: per host and file, each setting with its reason."""
    lines: list[str] = []
    for host, services in plan.services.items():
        for service, instances in services.items():
            for instance in instances:
                lines += ["", f"{host}  {service}@{instance.name}"]
                file = ""
                for s in instance.settings:
                    if s.file != file:
                        file = s.file
                        lines.append(f"  {file}")
                    mark = " (yours)" if s.by == "person" else ""
                    lines.append(f"    {s.key}={'***' if s.secret else s.value}{mark}")
                    lines.append(f"      {s.rule}: {s.because} [{s.source}]")
    for cluster, topics in plan.topics.items():
        for topic, settings in topics.items():
            lines += ["", f"topic {topic} on {cluster}: " + ", ".join(f"{s.key}={s.value}" for s in settings)]
    for client, of_client in plan.clients.items():
        lines += ["", f"client {client}"]
        for s in of_client:
            lines += [f"  {s.file}: {s.key}={s.value}", f"      {s.rule}: {s.because} [{s.source}]"]
    if plan.findings:
        lines += ["", "findings"]
    lines += [f"  {f.severity}: {f.where}: {f.message}. Mend: {f.fix}" for f in plan.findings]
    return "\n".join(lines).lstrip("\n")


if __name__ == "__main__":
    sys.exit(main())
