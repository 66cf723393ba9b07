"""Starts, stops and asks for instances: by systemd, or by Warden, where a MapR node runs them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from typing import Any

#: What ``maprcli service list`` says of a service that runs, and of one that Warden gave up.
RUNNING, FAILED = 2, 4

#: How long a host's own programs may take to answer.
ANSWER_SECONDS = 120
#: How long one may take that starts or stops something, which systemd bounds by the unit's own times.
ACT_SECONDS = 3600

Done = subprocess.CompletedProcess[str]


def now_us() -> int:
    """Return the time in microseconds since the epoch."""
    return time.time_ns() // 1000


def run(*argv: str, seconds: float = ANSWER_SECONDS) -> Done:
    """Run a command; one that is not there ends with 127.

    Raises:
        TimeoutError: when it has not ended after ``seconds``; the message names it.
    """
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(argv, 127, "", str(error))
    except subprocess.TimeoutExpired:
        message = (
            f"`{' '.join(argv)}` did not end within {seconds:g} s on this host, and nothing was done after "
            "it. An instance may be drained or stopped: see `systemctl list-jobs` there; when it answers, "
            "run deploy.yml, which starts and puts back what is planned"
        )
        raise TimeoutError(message) from None


def act(action: str, unit: str, control: Mapping[str, Any]) -> Done:
    """Start or stop an instance.

    ``control`` is empty for systemd, which knows the instance as ``unit``; of Warden it has ``service`` and
    ``node``.
    """
    if not control:
        return run("systemctl", action, unit, seconds=ACT_SECONDS)
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
        seconds=ACT_SECONDS,
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
