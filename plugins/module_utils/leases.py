"""Leases of playbook runs on a host's services: one run at a time changes a service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files
from ansible.module_utils.node_lock import ROOT, WAIT_SECONDS, locked

#: How long a lease holds that is not renewed. Its run gives it back; this is for one whose machine is lost.
LEASE_SECONDS = 900
FORMAT = 1
#: Which boot of the kernel this is: its clock since boot goes on whatever the clock of the day is set to.
BOOT = Path("/proc/sys/kernel/random/boot_id")
Lease = dict[str, Any]


def leases(root: Path = ROOT) -> dict[str, Lease]:
    """Return who holds which services of the host now; raises ValueError with what to do about the file."""

    def rows(found: Any) -> dict[str, Lease]:
        return {
            str(service): {
                "run": {key: str(has["run"][key]) for key in ("id", "who", "playbook")},
                "since": int(has["since"]),
                "until": int(has["until"]),
                "boot": str(has["boot"]),
                "boot_until": int(has["boot_until"]),
            }
            for service, has in found["leases"].items()
        }

    wrong = (
        "does not say who holds the host ({error}). No instance was touched. See that no other run is at "
        "work here, delete the file, then run the playbook again"
    )
    found = atomic_files.record(root / ".lease.json", FORMAT, rows, wrong, ". No instance was touched")
    boot, now = _boot()
    # A host that was rebooted meanwhile has only the clock of the day in common with who wrote the lease.
    return {
        service: has
        for service, has in found.items()
        if (has["boot_until"] > now if has["boot"] == boot else has["until"] > time.time())
    }


def _boot() -> tuple[str, int]:
    """Return which boot of the host this is, and its seconds."""
    return BOOT.read_text().strip(), int(time.clock_gettime(time.CLOCK_BOOTTIME))


def _bounds() -> dict[str, Any]:
    """Return when a lease ends that is taken or renewed now."""
    boot, now = _boot()
    return {
        "until": int(time.time()) + LEASE_SECONDS,
        "boot": boot,
        "boot_until": now + LEASE_SECONDS,
    }


def holder(service: str, root: Path = ROOT, ended: Collection[str] = ()) -> str:
    """Return the id of the run that holds a service of the host, '' for none."""
    found = leases(root).get(service)
    run = str(found["run"]["id"]) if found else ""
    return "" if run in ended else run


def take(
    run: Mapping[str, str], services: Iterable[str], ended: Collection[str] = (), root: Path = ROOT
) -> dict[str, Lease]:
    """Hold services for a run, all or none; return those that other runs hold, but for ``ended`` ones."""
    root.mkdir(mode=0o755, exist_ok=True)
    with _changing(root) as found:
        theirs = others(found, run, services, ended)
        if not theirs:
            bounds = _bounds()
            for service in services:
                mine = found.get(service, {})
                since = mine["since"] if mine and mine["run"]["id"] == run["id"] else int(time.time())
                found[service] = {"run": dict(run), "since": since, **bounds}
    return theirs


def others(
    found: Mapping[str, Lease], run: Mapping[str, str], services: Iterable[str], ended: Collection[str] = ()
) -> dict[str, Lease]:
    """Return the leases on services that are neither a run's own nor of one that has ended."""
    mine = {run.get("id"), *ended}
    return {s: found[s] for s in services if s in found and found[s]["run"]["id"] not in mine}


def renew(run: str, root: Path = ROOT) -> bool:
    """Renew what a run holds; return whether it holds something."""
    bounds = _bounds()
    return _change(run, root, lambda lease: {**lease, **bounds})


def give_back(run: str, root: Path = ROOT) -> bool:
    """Give back what a run holds; return whether it held something."""
    return _change(run, root, lambda _: None)


def _change(run: str, root: Path, how: Callable[[Lease], Lease | None]) -> bool:
    if not any(lease["run"]["id"] == run for lease in leases(root).values()):
        return False
    with _changing(root) as found:
        for service, lease in list(found.items()):
            if lease["run"]["id"] == run:
                del found[service]
                if kept := how(lease):
                    found[service] = kept
    return True


@contextmanager
def _changing(root: Path) -> Iterator[dict[str, Lease]]:
    """Yield the leases, and write them if they were changed; half a file is never there."""
    path = root / ".lease.lock"
    message = (
        f"{path} is held after {WAIT_SECONDS} s. No instance was touched. See `lslocks` on the host for its "
        "process, then run the playbook again"
    )
    with locked(path, WAIT_SECONDS, message):
        found = leases(root)
        before = json.dumps(found)
        yield found
        if json.dumps(found) == before:
            return
        text = json.dumps({"format": FORMAT, "leases": found}, indent=1, sort_keys=True)
        atomic_files.write(root / ".lease.json", f"{text}\n")


def said(lease: Lease) -> str:
    """Return who holds a lease, in words that follow "held"."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(lease["since"]))
    return f"by {lease['run']['who']} ({lease['run']['playbook']}, since {since}, still running)"
