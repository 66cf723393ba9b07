"""load.state: the phase that a load is in, and waiting until it comes to one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, get_args

from kedge.evidence.load_options import LoadError

#: In the order in which a load comes to them; failed follows any.
Phase = Literal["starting", "warming", "running", "draining", "done", "failed"]
_POLL_S: Final = 0.2
_SHOW_S: Final = 5.0


def reached(run_dir: Path, phase: Phase) -> bool:
    """Return whether a load is in a phase or a later one, ``failed`` among them.

    A load without load.state is starting. Raises OSError or ValueError when it cannot be read.
    """
    phases, path = get_args(Phase), run_dir / "load.state"
    return phases.index(_read(path)["phase"]) >= phases.index(phase)


def await_phase(run_dir: Path, phase: Phase, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Wait until a load is in a phase or a later one; return what load.state says then.

    Args:
        run_dir: the run's folder.
        phase: the phase, any but ``failed``.
        seconds: how long to wait.
        say: told of the load's progress.

    Raises:
        LoadError: when the load failed, or is not there in time.
    """
    phases, path, log = get_args(Phase), run_dir / "load.state", run_dir / "load.log"
    began = shown = time.monotonic()
    while True:
        state = _read(path)
        if state["phase"] == "failed":
            raise LoadError(f"the load failed: {state.get('message')}; see {log}")
        if phases.index(state["phase"]) >= phases.index(phase):
            return state
        if time.monotonic() - began > seconds:
            raise LoadError(f"the load is still {state['phase']} after {seconds:.0f} s; see {log}")
        if time.monotonic() - shown > _SHOW_S:
            shown = time.monotonic()
            counts = ", ".join(f"{state.get(name, 0):,} {name}" for name in ("acked", "failed", "delivered"))
            say(f"  load {state['phase']}: {counts}")
        time.sleep(_POLL_S)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {"phase": "starting"}
