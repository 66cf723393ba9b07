"""``make demo`` and its like: the whole loop on a local fleet, with the time of each phase.

Set up the fleet, deploy, deploy once more (which must change nothing), verify with a rolling restart under
load. Ends with the status of the verification; 2 where what was asked for cannot be, before a node starts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.yaml_files import InventoryError
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.demo import load
from lab.demo.archive import VENDORS
from lab.demo.inventory import DERIVED, derive, for_trials, with_canary
from lab.demo.options import INVENTORY, DemoOptions, parse

#: All that a demo prints.
LOG = PROJECT / "runs" / "demo.log"
#: Trials that show what a run does, in minutes; defaults give figures worth keeping.
_TRIALS = {
    "capacity": (
        *(
            "-e",
            '{"trials_conditions": ["healthy", "restart"], "trials_most_short": 6, "trials_most_full": 10}',
        ),
        *("-e", "trials_short_s=6 trials_full_s=12 trials_width=0.25"),
    ),
    "compare": (
        "-e",
        "trials_full_s=10 trials_fresh_s=30 trials_blocks=4 trials_restarts=false",
    ),
}
_RECAP = re.compile(r"changed=(\d+)")
_TASK = re.compile(r"(?:TASK|PLAY|RUNNING HANDLER) \[(.*)\] \**$")
#: Lines of Ansible that say no more than that a task ran, or had nothing to do.
_ROUTINE = re.compile(r"\s*$|(ok|changed): [^=]*$|(included|skipping): |PLAY RECAP|\S+ +: ok=\d")


class PhaseError(Exception):
    """A phase ended with a status that is not 0."""

    def __init__(self, phase: str, status: int) -> None:
        super().__init__(f"{phase} ended with status {status}")
        self.status = status


@dataclass(frozen=True)
class Phase:
    """A phase of the demo: what it is, the command, and the time it should take on two cores."""

    name: str
    command: tuple[str, ...]
    target_s: float | None = None
    check: Callable[[str], str | None] | None = None


def _nothing_changed(output: str) -> str | None:
    counts = [int(n) for n in _RECAP.findall(output)]
    return None if counts and not any(counts) else "a second deploy changed something"


def phases(inventory: str, trials: str = "", variants: Sequence[str] = ()) -> tuple[Phase, ...]:
    """Return the phases in their order, on the fleet of an inventory.

    ``trials`` names their last, and ``variants`` are what takes turns in it.
    """
    python = sys.executable
    play = (str(Path(python).with_name("ansible-playbook")), "-i", inventory)
    begin = (
        Phase("fleet up", (python, "-m", "lab.fleet", "up", "--inventory", inventory), 30),
        Phase("deploy", (*play, "deploy.yml")),
    )
    if trials == "watch":
        return (*begin, Phase("restart under a watch", (python, "-m", "lab.demo.foreign", inventory)))
    if trials == "canary":
        return (*begin, Phase("records lost under a canary", (python, "-m", "lab.demo.canary", inventory)))
    if trials:
        arms = ("-e", json.dumps({"arms": list(variants)})) if trials == "compare" else ()
        return (*begin, Phase(trials, (*play, f"{trials}.yml", *_TRIALS[trials], *arms)))
    return (
        *begin,
        Phase("deploy again, nothing to change", (*play, "deploy.yml"), 20, _nothing_changed),
        Phase("verify: load, restarts, audit", (*play, "verify.yml")),
    )


def run(phase: Phase, log: TextIO, status: Status | None = None) -> tuple[float, int]:
    """Run a phase with its output shown; return seconds and exit status.

    Args:
        phase: the phase.
        log: gets all of its output.
        status: what a terminal shows of it while it runs: then only lines that say more than that a task ran
            are printed, and the task stands here.

    Raises:
        PhaseError: when the phase's own check does not hold.
    """
    began = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        phase.command,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            lines.append(line)
            if status is not None and (task := _TASK.match(line)):
                status.update(f"{phase.name}, {time.monotonic() - began:.0f} s: {escape(task[1])}")
            elif status is None or not _ROUTINE.match(line):
                sys.stdout.write(line)
                sys.stdout.flush()
    seconds = time.monotonic() - began
    if process.returncode == 0 and phase.check and (wrong := phase.check("".join(lines))):
        print(f"{phase.name}: {wrong}", file=sys.stderr)
        raise PhaseError(phase.name, 1)
    return seconds, process.returncode


def inventory_of(asked: DemoOptions, say: Callable[[str], None]) -> str:
    """Return the inventory that is deployed, planned without an error; say which load and proxy, and why.

    Raises:
        Problem: with the plan's first error.
    """
    if asked.trials in _TRIALS:
        return os.path.relpath(for_trials(PROJECT / INVENTORY, DERIVED), PROJECT)
    if asked.trials == "canary":
        return os.path.relpath(with_canary(PROJECT / INVENTORY, DERIVED), PROJECT)
    if asked.inventory != INVENTORY:
        return asked.inventory
    chosen = asked.load
    if chosen is None:
        cores, busy = load.cores(), load.busy_cores()
        cost = VENDORS[asked.vendor.distribution].cost_us if asked.vendor else load.COST_US
        chosen = load.suited(cores, busy, cost)
        say(load.why(chosen, cores, busy, cost))
    else:
        say(f"load: {chosen:,} Kafka and {chosen * load.REST_SHARE:,.0f} REST records/s, as asked for")
    if vendor := asked.vendor:
        held = "as CHECKSUM says" if vendor.compared else "compare it with what its publisher says"
        say(f"proxy: {vendor.distribution} {vendor.version} from {vendor.archive}")
        say(f"SHA-256: {vendor.checksum}, {held}")
    # What is refused leaves the inventory of the fleet that runs as it was.
    folder = derive(PROJECT / INVENTORY, chosen, asked.vendor, DERIVED.with_name(f"{DERIVED.name}-planned"))
    try:
        _plan(folder)
        shutil.rmtree(DERIVED, ignore_errors=True)
        folder.rename(DERIVED)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shown = os.path.relpath(DERIVED, PROJECT)
    say(f"inventory: {shown}, made from {INVENTORY}")
    return shown


def _plan(folder: Path) -> None:
    """Plan as a deploy would; raises Problem with the first error."""
    try:
        plan = make_plan(read_inventory(folder, SERVICES))
    except InventoryError as error:
        raise Problem(str(error)) from None
    for finding in plan.findings:
        if finding.severity == "error":
            raise Problem(finding.line())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the status of the first phase that fails, or 0."""
    console = Console()
    try:
        asked = parse(arguments)
        inventory = inventory_of(
            asked, lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)
        )
    except Problem as problem:
        print(f"make demo: {problem}", file=sys.stderr)
        return 2
    watched = console.is_terminal and not os.environ.get("VERBOSE")
    if watched:
        console.print(f"all that is printed: {LOG.relative_to(PROJECT)}; VERBOSE=1 shows it here")
    LOG.parent.mkdir(exist_ok=True)
    # Whoever reads a pipe has all of it.
    with (LOG if watched else Path(os.devnull)).open("w", encoding="utf-8") as log:
        return _played(phases(inventory, asked.trials, asked.variants), console, log, watched=watched)


def _played(some: Sequence[Phase], console: Console, log: TextIO, *, watched: bool) -> int:
    table = Table("phase", "seconds", "target", title="The demo in phases")
    total = time.monotonic()
    status = 0
    for phase in some:
        console.rule(phase.name)
        try:
            with console.status(phase.name) if watched else nullcontext() as shown:
                seconds, status = run(phase, log, shown)
        except PhaseError as error:
            seconds, status = 0.0, error.status
        target = f"{phase.target_s:.0f}" if phase.target_s else ""
        table.add_row(phase.name + ("" if status == 0 else " [red]failed[/]"), f"{seconds:.1f}", target)
        if status:
            break
    target = "240 when cached" if any(phase.check for phase in some) else ""
    table.add_row("all", f"{time.monotonic() - total:.1f}", target, end_section=True)
    console.print(table)
    if status == 0:
        if (report := PROJECT / "runs/latest/report/report.html").exists():
            console.print(f"Report: {report}")
        console.print("The fleet goes on running: make fleet-down ends it.")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted; make demo can simply be run again", file=sys.stderr)
        sys.exit(130)
