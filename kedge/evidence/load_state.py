"""load.state and watch.state: the phase that a load or a watch is in, and waiting until it comes to one.

`python -m kedge.evidence.load_state RUN_DIR PHASE SECONDS [--what watch]` waits, for playbooks: 0 when it is
there, 2 when it failed or does not come.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from kedge.evidence.load_options import LoadError

#: In the order in which a load comes to them; failed follows any.
Phase = Literal["starting", "warming", "running", "draining", "done", "failed"]
#: What there is the state of.
What = Literal["load", "watch"]
#: Files of the run's folder, for whoever started the load: send nothing more; and while this one is there,
#: have consumers stay for up to ``drain_s`` though they have read all.
ENOUGH: Final = "enough"
HOLD: Final = "hold"
#: Set in the environment of a canary's load. One process makes all of it, since each has its own interpreter
#: and libraries; and no proxy is asked beforehand, since that one is down is what a canary is there to see.
OF_CANARY: Final = "KEDGE_LOAD_OF_CANARY"
_POLL_S: Final = 0.2
_SHOW_S: Final = 5.0


def parts_of(run_dir: Path) -> list[What]:
    """Return of what a run consists: a load, a watch, or both."""
    parts: list[What] = [part for part in get_args(What) if (run_dir / f"{part}.json").exists()]
    return parts or ["load"]


def reached(run_dir: Path, phase: Phase) -> bool:
    """Return whether a load is in a phase or a later one, ``failed`` among them.

    A load without load.state is starting. Raises OSError or ValueError when it cannot be read.
    """
    phases, path = get_args(Phase), run_dir / "load.state"
    return phases.index(_read(path)["phase"]) >= phases.index(phase)


def goes_on(run_dir: Path, what: What) -> bool:
    """Return whether a load or a watch has begun, was not told to stop, and has not ended."""
    path = run_dir / f"{what}.state"
    try:
        begun = path.exists() and _read(path)["phase"] not in ("done", "failed")
    except (OSError, ValueError, KeyError):
        return False
    return begun and not (run_dir / "stop").exists()


def await_phase(
    run_dir: Path, phase: Phase, seconds: float, say: Callable[[str], None], what: What = "load"
) -> dict[str, Any]:
    """Wait until a load is in a phase or a later one; return what its state says then.

    Args:
        run_dir: the run's folder.
        phase: the phase, any but ``failed``.
        seconds: how long to wait.
        say: told of the load's progress.
        what: the load, or the watch.

    Raises:
        LoadError: when the load failed, or is not there in time.
    """
    phases, path, log = get_args(Phase), run_dir / f"{what}.state", run_dir / f"{what}.log"
    began = shown = time.monotonic()
    while True:
        state = _read(path)
        if state["phase"] == "failed":
            # One line, of which Ansible shows the last.
            why = " ".join(str(state.get("message")).split())
            raise LoadError(f"the {what} failed: {why}; see {log}")
        if phases.index(state["phase"]) >= phases.index(phase):
            return state
        if time.monotonic() - began > seconds:
            raise LoadError(f"the {what} is still {state['phase']} after {seconds:.0f} s; see {log}")
        if time.monotonic() - shown > _SHOW_S:
            shown = time.monotonic()
            say(f"  {what} {state['phase']}{_counts(state)}")
        time.sleep(_POLL_S)


def _counts(state: Mapping[str, Any]) -> str:
    told = [f"{state[name]:,} {name}" for name in ("acked", "failed", "delivered") if name in state]
    return f": {', '.join(told)}" if told else f" {state.get('message', '')}".rstrip()


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {"phase": "starting"}


def main(arguments: list[str] | None = None) -> int:
    """Wait for a phase, and print how it goes; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m kedge.evidence.load_state")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("phase", choices=[phase for phase in get_args(Phase) if phase != "failed"])
    parser.add_argument("seconds", type=float)
    parser.add_argument("--what", choices=get_args(What), default="load")
    asked = parser.parse_args(arguments)
    try:
        await_phase(asked.run_dir, asked.phase, asked.seconds, print, asked.what)
    except LoadError as error:
        print(f"{error}. No instance was touched")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
