#!/usr/bin/python
"""Looks at the processes of a mirror that a flow takes over from, on a host; stops and starts them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_predecessor
short_description: Look at, stop, start or leave the processes that a flow takes over from
description:
  - A mirror is taken over as a whole. So its processes on a host stop, and start after a failure, apart from
    the instances that take over.
  - Which of them ran is kept on the host until they were taken over or given back, also after a kill.
options:
  flow: {type: str, required: true, description: "The flow that takes over."}
  processes:
    type: list
    elements: dict
    required: true
    description: "Its processes on this host: unit, or holder with stop and start."
  seconds: {type: int, default: 120, description: "How long a process may take to stop or to start."}
  state:
    type: str
    choices: [seen, stopped, started, left]
    default: seen
    description:
      - What becomes true. C(started) starts what C(stopped) has stopped, and no other. C(left) keeps their
        units from starting with the host.
author: Kedge
"""

EXAMPLES = r"""
- name: Stop what runs
  kedge_predecessor:
    flow: metrics
    processes: [{unit: kafka-mirror.service}]
    state: stopped
"""

RETURN = r"""
processes:
  description: Of each process its name, whether it is there and runs, and the main classes of its JVMs.
  returned: success
  type: list
  elements: dict
ours:
  description: The instances of the flow that run on this host.
  returned: success
  type: list
  elements: str
taking:
  description: Whether a take over of the flow began and did not end.
  returned: success
  type: bool
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files, predecessor
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_processes import main_class, processes, words_of
from ansible.module_utils.node_lock import ROOT
from ansible.module_utils.service_control import Done, run

POLL_SECONDS = 0.1
UNIT = "mirror-maker"


def taking(flow: str) -> Path:
    """Return the file that names the processes that were stopped to be taken over."""
    return Path(ROOT) / f".{flow}.predecessor"


def noted(flow: str) -> list[str]:
    """Return the processes that ran before they were stopped to be taken over; raises ValueError."""
    mark = taking(flow)
    if not mark.exists():
        return []
    try:
        return [str(name) for name in json.loads(mark.read_text(errors="replace"))]
    except (ValueError, TypeError):
        message = (
            f"{mark} is empty or cut: it named the processes that ran before flow {flow} was taken over. "
            'Write their names there, such as ["theirs.service"], or delete it and start them by hand'
        )
        raise ValueError(message) from None


def seen(named: dict[str, Any]) -> dict[str, Any]:
    """Return what a process is, as far as the host tells."""
    unit = named.get("unit")
    known = not unit or run("systemctl", "show", "--property=LoadState", "--value", unit).stdout.strip()
    mains = {
        main for pid in processes() if (main := main_class(words_of(pid))) and predecessor.belongs(named, pid)
    }
    return {
        "name": predecessor.name_of(named),
        "there": known not in ("not-found", ""),
        "runs": predecessor.runs(named),
        "mains": sorted(mains),
    }


def ours(flow: str) -> list[str]:
    """Return the instances of the flow that run, or that their unit starts again."""
    asked = ("--plain", "--no-legend", "--state=active,activating,reloading", f"{UNIT}@{flow}-*.service")
    units = (line.split()[0] for line in run("systemctl", "list-units", *asked).stdout.splitlines() if line)
    # A flow's name may begin with another's.
    names = (unit.partition("@")[2].rpartition(".")[0] for unit in units)
    return [name for name in names if name.rpartition("-")[0] == flow]


def awaited(named: dict[str, Any], done: Done, runs: bool, seconds: float) -> str | None:
    """Wait until a process runs, or does not; return what is wrong where it does not come to that."""
    if done.returncode:
        return done.stderr.strip() or f"its command ended with {done.returncode}"
    deadline = time.monotonic() + seconds
    while predecessor.runs(named) is not runs:
        if time.monotonic() > deadline:
            return f"after {seconds:g} s it runs {'not yet' if runs else 'still'}"
        time.sleep(POLL_SECONDS)
    return None


def stopped(flow: str, named: list[dict[str, Any]], seconds: float) -> list[str]:
    """Stop what runs, and note that it ran; return what is wrong, a line each."""
    running = [one for one in named if predecessor.runs(one)]
    mark, before = taking(flow), noted(flow)
    mark.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.write(mark, json.dumps(sorted({*before, *map(predecessor.name_of, running)})))
    wrong = []
    for one in running:
        why = awaited(one, predecessor.stop(one), runs=False, seconds=seconds)
        wrong += [f"{predecessor.name_of(one)} cannot be stopped: {why}"] if why else []
    return wrong


def started(flow: str, named: list[dict[str, Any]], seconds: float) -> list[str]:
    """Start what was stopped; return what is wrong, a line each."""
    ran, wrong = noted(flow), []
    for one in named:
        if predecessor.name_of(one) in ran and not predecessor.runs(one):
            why = awaited(one, predecessor.start(one), runs=True, seconds=seconds)
            by_hand = f"start it by hand (`{predecessor.by_hand(one)}`)"
            wrong += [f"{predecessor.name_of(one)} does not start again: {why}; {by_hand}"] if why else []
    if not wrong:
        taking(flow).unlink(missing_ok=True)
    return wrong


def left(flow: str, named: list[dict[str, Any]]) -> list[str]:
    """Keep what was taken over from starting with the host; return what is wrong, a line each."""
    wrong = []
    for one in named:
        done = predecessor.disable(one)
        if done and done.returncode:
            wrong.append(f"{one['unit']} was taken over and cannot be disabled: {done.stderr.strip()}")
    taking(flow).unlink(missing_ok=True)
    return wrong


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "flow": {"type": "str", "required": True},
            "processes": {"type": "list", "elements": "dict", "required": True},
            "seconds": {"type": "int", "default": 120},
            "state": {"type": "str", "choices": ["seen", "stopped", "started", "left"], "default": "seen"},
        },
        supports_check_mode=True,
    )
    p = module.params
    flow, named, state = p["flow"], p["processes"], p["state"]
    if state == "seen" or module.check_mode:
        module.exit_json(
            changed=state != "seen",
            processes=[seen(one) for one in named],
            ours=ours(flow),
            taking=taking(flow).exists(),
        )
    if state == "left":
        for line in left(flow, named):
            module.warn(f"{line}. See that nothing starts it with the host")
        module.exit_json(changed=True)
    try:
        wrong = (stopped if state == "stopped" else started)(flow, named, p["seconds"])
    except (OSError, ValueError) as error:
        module.fail_json(
            msg=f"{error}. No process of flow {flow} was stopped or started. Fix that, then run the playbook "
            "again"
        )
    if wrong:
        holds = f"No instance of flow {flow} was {'started' if state == 'stopped' else 'left running'}"
        module.fail_json(msg=f"{'; '.join(wrong)}. {holds}. Fix that, then run the playbook again")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
