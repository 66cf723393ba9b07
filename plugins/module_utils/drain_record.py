"""Who took which servers out of a balancer's rotation: a record on its host, which its user cannot write."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files

FORMAT = 1
BY_HAND = "by hand, not by Kedge"
Drain = dict[str, Any]


def read(file: Path) -> dict[str, Drain]:
    """Return the drains by server; raises ValueError with what to do where the file has no record."""

    def rows(found: Any) -> dict[str, Drain]:
        return {
            str(server): {
                "before": str(has["before"]),
                "state": str(has["state"]),
                "since": int(has["since"]),
                "reason": str(has["reason"]),
                "run": {key: str(has["run"][key]) for key in ("id", "who", "playbook")},
            }
            for server, has in found["servers"].items()
        }

    wrong = (
        "is no record of drained servers ({error}): delete it. Servers that are out then count as taken out "
        "by hand"
    )
    found: dict[str, Drain] = atomic_files.record(file, FORMAT, rows, wrong)
    return found


def write(file: Path, drains: Mapping[str, Drain]) -> None:
    """Write the record; half of one is never there."""
    content = json.dumps({"format": FORMAT, "servers": drains}, indent=1, sort_keys=True)
    atomic_files.write(file, f"{content}\n")


def new_drain(run: Mapping[str, Any], state: str, before: str, reason: str) -> Drain:
    """Return what is noted of a server that a run takes out; ``before`` is what it goes back to."""
    said = {key: str(run[key]) for key in ("id", "who", "playbook")}
    return {"before": before, "state": state, "since": int(time.time()), "reason": reason, "run": said}


def whose(drain: Drain | None, run: Mapping[str, Any], holder: str) -> str:
    """Return whose a drain is: this run's (own), of one that has ended or runs, or done by hand.

    A run that drains holds the balancer; ``holder`` is the id of the one that does.
    """
    if drain is None:
        return "hand"
    if drain["run"]["id"] == run.get("id"):
        return "own"
    return "running" if drain["run"]["id"] == holder else "ended"


def told(drain: Drain | None, run: Mapping[str, Any], holder: str) -> str:
    """Return who took a server out, in words that follow "taken out"."""
    if drain is None:
        return BY_HAND
    by = drain["run"]
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(drain["since"]))
    now = {"own": "this run", "ended": "which has ended", "running": "still running"}
    return f"by {by['who']} ({by['playbook']}, since {since}, {now[whose(drain, run, holder)]})"
