"""Starts, stops and asks for instances: by systemd, or by Warden, where a MapR node runs them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from typing import Any

#: What ``maprcli service list`` says of a service that runs, and of one that Warden gave up.
RUNNING, FAILED = 2, 4

Done = subprocess.CompletedProcess[str]


def now_us() -> int:
    """Return the time in microseconds since the epoch."""
    return time.time_ns() // 1000


def run(*argv: str) -> Done:
    """Run a command; one that is not there ends with 127."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))


def act(action: str, unit: str, control: Mapping[str, Any]) -> Done:
    """Start or stop an instance.

    ``control`` is empty for systemd, which knows the instance as ``unit``; of Warden it has ``service`` and
    ``node``.
    """
    if not control:
        return run("systemctl", action, unit)
    return run(
        "maprcli",
        "node",
        "services",
        "-name",
        control["service"],
        "-action",
        action,
        "-nodes",
        control["node"],
    )


def is_active(unit: str, control: Mapping[str, Any]) -> bool:
    """Return whether an instance runs."""
    if not control:
        return run("systemctl", "is-active", "--quiet", unit).returncode == 0
    return warden_state(control) == RUNNING


def warden_state(control: Mapping[str, Any]) -> int | None:
    """Return the state of a service as Warden tells it; None where it does not know the service."""
    said = run("maprcli", "service", "list", "-node", control["node"], "-json").stdout
    try:
        rows = json.loads(said)["data"]
    except (ValueError, LookupError, TypeError):
        return None
    return next((int(row["state"]) for row in rows if row["name"] == control["service"]), None)
