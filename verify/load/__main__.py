"""`python -m verify.load --run-dir runs/ID`: run the load that load.json there describes.

Exit 0 when the load came to its end, whatever was lost: judging is the audit's. 2 when something has to be
mended first, 1 when a process of the load ended by itself, 128 + signal when told to end. A load that a
playbook started in the background (KEDGE_PARENT_PID) ends when that playbook does.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from kedge.evidence.load_options import LoadError, LoadSpec, read_load
from verify.collect.hosts import CollectError, read_access
from verify.load.generator_hosts import command
from verify.load.parent import InterruptedLoadError, WorkerDiedError, run_load
from verify.load.progress import write_state
from verify.process import Ending, leave

_KEPT: Final = "The load has ended; its evidence so far is kept, and it stopped no service."


def main(arguments: list[str] | None = None) -> int:
    """Run a load; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m verify.load", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run's folder, with load.json")
    parser.add_argument("--inventory", help="how the hosts are reached that make the load, if any")
    options = parser.parse_args(arguments)
    run_dir: Path = options.run_dir
    parent = os.environ.get("KEDGE_PARENT_PID")
    ending = Ending(int(parent) if parent else None)
    try:
        load = read_load(run_dir)
        reached = _reached(load, options.inventory)
    except (LoadError, CollectError) as error:
        if run_dir.is_dir():
            write_state(run_dir, "failed", None, str(error))
        return _say(error, "No record was sent.", 2)
    try:
        run_load(load, run_dir.resolve(), ending, reached)
    except LoadError as error:
        return _say(error, _KEPT, 2)
    except WorkerDiedError as error:
        return _say(error, _KEPT, 1)
    except InterruptedLoadError as error:
        return _say(error, "It stopped no service.", 128 + ending.signal)
    return 0


def _reached(load: LoadSpec, inventory: str | None) -> dict[str, list[str]]:
    """Return the command that runs the agent on each host that makes the load."""
    if not load.generators:
        return {}
    if inventory is None:
        raise LoadError(f"--inventory is missing: it says how {', '.join(load.generators)} are reached")
    return {access.name: command(access) for access in read_access(inventory, load.generators)}


def _say(error: Exception, holds: str, status: int) -> int:
    print(f"{error}. {holds} Fix that, then run the playbook again", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    leave(main())
