"""Which run of a playbook this is: by whom, from where, and whether one of this machine still runs."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import socket
from pathlib import Path

#: Handed down to the tasks of a playbook, and to the playbooks that they run.
VARIABLE = "KEDGE_RUN"
_ID = re.compile(r"([0-9a-f]{12})\.([0-9]{1,10})\.([0-9]{1,20})")


def begin(playbook: str) -> None:
    """Note that this process plays a playbook, unless it is one of a run that has begun."""
    run = current()
    if not run or ended(run["id"]):
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        new = {"id": run_id(os.getpid()), "who": who, "playbook": Path(playbook).name}
        os.environ[VARIABLE] = json.dumps(new)


def current() -> dict[str, str]:
    """Return id, who and playbook of the run; empty for what somebody does by hand."""
    return dict(json.loads(os.environ.get(VARIABLE, "{}")))


def ended(run: str) -> bool:
    """Return whether a run is one of this machine and its process is gone; of others it is not known."""
    found = _ID.fullmatch(run)
    return found is not None and found[1] == _machine() and run_id(int(found[2])) != run


def run_id(pid: int) -> str:
    """Return an id of a process that no other one has, on no machine and at no other time."""
    return f"{_machine()}.{pid}.{_started(pid)}"


def _started(pid: int) -> str:
    """Return when a process began, in ticks since the boot; 0 where it is gone."""
    try:
        # The name of a process, which may hold anything, is the second field; its start is the 22nd.
        state, *others = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "0" if state == "Z" else others[18]
    except OSError:
        return "0"


def _machine() -> str:
    """Return what tells machines and containers apart: a process id means something in one of them alone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return hashlib.sha256(f"{boot}{Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:12]
    except OSError:  # no Linux: it is asked for by nobody
        return hashlib.sha256(os.urandom(16)).hexdigest()[:12]
