"""How long plan.yml takes for 50 hosts, beside a playbook of two tasks over the same hosts.

    python -m lab.bench.hosts.playbook_speed      five runs of each, taking turns; writes playbook_speed.json

The hosts are those of inventories/example, 25 of REST, 20 of MirrorMaker and 5 of Streams. Nothing listens on
them: each has an address of its own on loopback and a port that takes no connection. So "with the difference"
is the time for finding out that 25 hosts do not answer, not that of 25 answers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RESULT = Path(__file__).with_suffix(".json")
TWO_TASKS = Path(__file__).with_name("two_tasks.yml")
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
RUNS = 5
GROUPS = {"kafka_rest": ("rest", 25), "mirror_maker": ("mm", 20), "streams_app": ("streams", 5)}
COMMANDS = {
    "two_tasks": [str(TWO_TASKS)],
    "plan": ["plan.yml", "-e", "plan_diff=false"],
    "plan_with_difference": ["plan.yml"],
}


def write_inventory(folder: Path) -> None:
    """Write the example inventory with 50 hosts."""
    shutil.copytree(ROOT / "inventories" / "example" / "group_vars", folder / "group_vars")
    children: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for number, (group, (stem, count)) in enumerate(GROUPS.items(), 1):
        hosts = {f"{stem}{n}": {"ansible_host": f"127.1.{number}.{n}"} for n in range(1, count + 1)}
        children[group] = {"hosts": hosts}
    variables = {"ansible_port": 1}
    (folder / "hosts.yml").write_text(json.dumps({"all": {"children": children, "vars": variables}}))


def seconds(inventory: Path, arguments: list[str]) -> float:
    """Return how long a playbook takes from the shell; it has to succeed."""
    began = time.perf_counter()
    command = [PLAYBOOK, "-i", str(inventory), *arguments]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> int:
    """Measure, print and keep the result; return 1 when the plan is slower than the two tasks."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        write_inventory(Path(folder))
        for _ in range(RUNS):
            for name, arguments in COMMANDS.items():
                taken[name].append(seconds(Path(folder), arguments))
    medians = {name: round(statistics.median(of), 2) for name, of in taken.items()}
    result = {
        "command": "python -m lab.bench.hosts.playbook_speed",
        "hosts": sum(count for _, count in GROUPS.values()),
        "playbooks": {name: " ".join(["ansible-playbook", *a]) for name, a in COMMANDS.items()}
        | {"two_tasks": "ansible-playbook lab/bench/hosts/two_tasks.yml"},
        "median_s": medians,
        "runs_s": {name: [round(s, 2) for s in of] for name, of in taken.items()},
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "load_at_the_end": round(os.getloadavg()[0], 1),
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if medians["plan"] <= medians["two_tasks"] else 1


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m lab.bench.hosts.playbook_speed", description=__doc__).parse_args()
    sys.exit(main())
