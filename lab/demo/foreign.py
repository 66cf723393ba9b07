"""`python -m lab.demo.foreign INVENTORY`: restarts under a load that a watch takes for somebody else's.

The load of the inventory runs by itself, and its ledger and deliveries say exactly what its clients saw.
Beside it rolling_restart.yml is played with a watch, which knows nothing of that load. Prints what both say
of each group. Exit 0 where every time of the watch is within its error, 1 where one is not, else 2.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from kedge.deploy.load_spec import load_spec
from kedge.evidence.load_options import LoadError
from kedge.evidence.load_state import ENOUGH, await_phase
from kedge.evidence.writing import write_json
from kedge.plan.inventory.reading import read_inventory
from kedge.services.registry import SERVICES
from kedge.setup.paths import PROJECT
from verify.addresses import PlaceError, find
from verify.process import end_all, start_module

#: What the clients of the load saw.
SEEN: Final = PROJECT / "runs" / "foreign"
WATCHED: Final = PROJECT / "runs" / "latest"
_BEFORE_S: Final = 90
_INTERVAL_S: Final = 0.5
#: Longer than all of it takes.
_MOST_S: Final = 1800
_READY_S: Final = 240.0
_END_S: Final = 300.0


def main(inventory: str) -> int:
    """Load, restart under a watch, audit both; return the exit status."""
    try:
        verify = _prepared(Path(inventory))
        load = start_module("verify.load", "--run-dir", SEEN, log=SEEN / "load.log")
        try:
            await_phase(SEEN, "running", _READY_S, print)
            played = _restarted(inventory, verify)
            (SEEN / ENOUGH).touch()
            await_phase(SEEN, "done", _END_S, print)
        finally:
            end_all([load])
    except (PlaceError, LoadError) as error:
        print(f"{error}. No service was changed", file=sys.stderr)
        return 2
    if played:
        return 2
    shutil.copy(WATCHED / "actions.jsonl", SEEN / "actions.jsonl")
    words = ("--run-dir", str(SEEN), "--inventory", str(WATCHED / "inventory.yml"))
    subprocess.run([sys.executable, "-m", "verify.audit", *words], cwd=PROJECT, check=False)
    return compared(_check(SEEN, "rebalance"), _check(WATCHED, "traffic"))


def compared(exact: Mapping[str, Any], watch: Mapping[str, Any]) -> int:
    """Print the worst of each group as its clients and as the watch saw it; return 1 beyond an error."""
    table = Table("group", "clients: delivery gap, s", "watch, s", "error, s", title="What the watch saw")
    beyond = 0
    for group, about in watch["by_group"].items():
        seen = [row["by"].get(group, {}).get("consume_stall_s") or 0.0 for row in exact["by_restart"]]
        value, truth = about["delivery_gap_s"], max(seen, default=0.0)
        # A gap shorter than what is usual between two commits is none to a watch.
        error = (about["commits_every_s"] or 0.0) + 2 * watch["interval_s"]
        wrong = abs((value or 0.0) - truth) > error
        beyond += wrong
        shown = "-" if value is None else f"{value:.2f}"
        table.add_row(group, f"{truth:.2f}", shown, f"{error:.2f}{' beyond' if wrong else ''}")
    Console().print(table)
    return 1 if beyond else 0


def _prepared(inventory: Path) -> dict[str, Any]:
    """Make the folder of the load's run; return the load."""
    place = find(inventory, None)
    variables = read_inventory(inventory, SERVICES)
    verify = {**variables.common("verify"), "min_s": _MOST_S, "max_s": _MOST_S, "min_records": 0}
    shutil.rmtree(SEEN, ignore_errors=True)
    for folder in ("evidence", "report"):
        (SEEN / folder).mkdir(parents=True)
    write_json(SEEN / "plan.json", place.plan)
    write_json(SEEN / "load.json", load_spec(verify, place.plan, "foreign"))
    (SEEN / "slo.yml").write_text("{}\n", encoding="utf-8")
    return verify


def _restarted(inventory: str, verify: Mapping[str, Any]) -> int:
    """Restart the service under a watch of what the load uses; return the playbook's status."""
    parts = [verify[via] for via in ("kafka", "rest") if verify.get(via)]
    watch = {
        "topics": [part["topic"] for part in parts],
        "groups": [part["group"] for part in parts],
        "before_s": _BEFORE_S,
        "interval_s": _INTERVAL_S,
    }
    words = ["rolling_restart.yml", "-e", "watch=true"]
    words += ["-e", json.dumps({"verify": {**verify, "watch": watch}})]
    playbook = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", inventory, *words]
    return subprocess.run(playbook, cwd=PROJECT, check=False).returncode


def _check(run_dir: Path, name: str) -> Mapping[str, Any]:
    document = json.loads((run_dir / "report" / "verdicts.json").read_text(encoding="utf-8"))
    check = next(check for check in document["checks"] if check["name"] == name)
    return dict(check["measured"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
