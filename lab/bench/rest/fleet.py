"""The fleet under test: deployed with other variables, and put back as it was."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.services.rest.distributions import DISTRIBUTIONS

ROOT: Final = Path(__file__).resolve().parents[3]
#: What differs between cases; the rest of a fleet is deployed once, before.
_PART: Final = ("--limit", "localhost:kafka_rest:rest_balancer")
#: Where the plan says nothing of it; Kafka documentation, Consumer Configs.
_SESSION_MS: Final = 45_000
_PLAYBOOK: Final = str(Path(sys.executable).with_name("ansible-playbook"))


class FleetError(Exception):
    """The fleet cannot be brought to what is to be measured; the text says what a playbook said last."""


@dataclass(frozen=True)
class Proxies:
    """What is measured: whose proxies, and host, unit and URL of each.

    ``session_s`` is after how many seconds a group gives a member up that died.
    """

    distribution: str
    version: str
    instances: tuple[tuple[str, str, str], ...]
    session_s: float

    @property
    def urls(self) -> tuple[str, ...]:
        """The URL of each instance."""
        return tuple(url for _, _, url in self.instances)


def deployed(inventory: Path, extra: Mapping[str, Any]) -> Proxies:
    """Deploy the proxies with these variables over the inventory's; return what runs then."""
    play(inventory, extra, *_PART)
    return proxies(inventory, extra)


def proxies(inventory: Path, extra: Mapping[str, Any]) -> Proxies:
    """Return the planned proxies, plain ones alone: their listeners are asked without a login."""
    found = read_inventory(inventory, SERVICES, [json.dumps(dict(extra))] if extra else [])
    hosts = found.group("kafka_rest")
    if not hosts:
        raise FleetError(f"{inventory}: the group kafka_rest has no host")
    if any(found.hosts[host].get(f"kafka_rest_{what}") for host in hosts for what in ("tls", "users")):
        raise FleetError(
            f"{inventory}: kafka_rest_tls or kafka_rest_users is set; measure a fleet without them"
        )
    services = make_plan(found).services
    planned = [(host, each) for host in hosts for each in services.get(host, {}).get("kafka_rest", ())]
    instances = tuple(
        (host, f"kafka-rest@{each.name}", f"http://{found.address(host)}:{each.port}")
        for host, each in planned
    )
    one = found.hosts[hosts[0]]
    distribution, version = str(one["kafka_rest_distribution"]), str(one["kafka_rest_version"])
    key = f"{DISTRIBUTIONS[distribution].keys.prefix}consumer.session.timeout.ms"
    session_ms = max((int(each.value(key) or _SESSION_MS) for _, each in planned), default=0)
    return Proxies(distribution, version, instances, session_ms / 1000)


def play(inventory: Path, extra: Mapping[str, Any], *options: str, playbook: str = "deploy.yml") -> None:
    """Deploy, or run another playbook; raises FleetError with what it says went wrong where it fails."""
    done = subprocess.run(
        [_PLAYBOOK, "-i", str(inventory), playbook, "-e", json.dumps(dict(extra)), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )
    if done.returncode:
        raise FleetError(f"{playbook} failed: {_reason(done.stdout + done.stderr)}")


def _reason(printed: str) -> str:
    """Return what a playbook says went wrong, in one line: its errors, or its last lines."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("[ERROR]", "fatal:", "ERROR!"))]
    return " | ".join(errors or lines[-8:])


def end(inventory: Path, host: str, unit: str, signal: str) -> None:
    """End an instance: TERM and a new start, or KILL, after which its unit starts it again.

    Raises:
        FleetError: when its host did not do so.
    """
    command = f"systemctl kill --kill-whom=main --signal=KILL {unit}"
    if signal == "TERM":
        command = f"systemctl restart {unit}"
    tool = str(Path(sys.executable).with_name("ansible"))
    done = subprocess.run(
        [tool, host, "-i", str(inventory), "-m", "ansible.builtin.command", "-a", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise FleetError(f"{command} on {host} failed: {_reason(done.stdout + done.stderr)}")


@contextlib.contextmanager
def put_back(inventory: Path) -> Iterator[None]:
    """Deploy the inventory, and its proxies once more when the measurement ends, however it ends."""
    play(inventory, {})
    try:
        yield
    finally:
        deployed(inventory, {})
