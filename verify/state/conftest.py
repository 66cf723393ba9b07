"""What the state tests share: the plan, and the part of it that belongs to the host under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

# Modules find what they share as ansible.module_utils; so do the state tests that ask one of them.
ansible.module_utils.__path__.append(str(Path(__file__).resolve().parents[2] / "plugins" / "module_utils"))

Instances = list[dict[str, Any]]
#: Asked of /proc, for not every host has ss.
_OPENED = """
import os, socket, sys

pid, held = sys.argv[1], set()
for fd in os.listdir(f"/proc/{pid}/fd") if pid else ():
    try:
        held.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    except OSError:  # closed meanwhile
        pass
for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
    try:
        lines = open(f"/proc/{pid or 'self'}/net/{table}").read().splitlines()[1:]
    except OSError:  # the kernel has no IPv6
        continue
    for words in map(str.split, lines):
        if words[3] == state and (not pid or f"socket:[{words[9]}]" in held):
            packed, _, port = words[1].partition(":")
            raw = b"".join(bytes.fromhex(packed[i : i + 8])[::-1] for i in range(0, len(packed), 8))
            raw = raw[12:] if raw.startswith(bytes(10) + bytes([255, 255])) else raw
            name = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
            name = f"[{name}]" if ":" in name else name
            print("*" if not any(raw) else name, int(port, 16), sep=":")
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kedge-plan", required=True, type=Path, help="the plan that was deployed, as JSON")


@pytest.fixture(scope="session")
def plan(request: pytest.FixtureRequest) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(request.config.getoption("--kedge-plan").read_text())
    return document


@pytest.fixture
def planned(plan: dict[str, Any], host: Any) -> Callable[[str], Instances]:
    """The planned instances of a service on the host under test; one at least."""
    name = name_of(host)

    def of(service: str) -> Instances:
        instances: Instances = plan["hosts"][name]["services"][service]["instances"]
        assert instances, f"the plan has no instance of {service} on {name}"
        return instances

    return of


def name_of(host: Any) -> str:
    """The inventory's name of the host under test."""
    return str(host.backend.get_pytest_id().rpartition("://")[2])


def in_file(instance: dict[str, Any], path: str) -> dict[str, str | None]:
    """The planned keys of a file of pairs with their values; a secret's is None: the plan has it nowhere."""
    return {
        s["key"]: None if s.get("secret") else str(s["value"])
        for s in instance["settings"]
        if s["file"] == path and not s.get("copied")
    }


def differing(planned: dict[str, str | None], text: str) -> list[str]:
    """The keys that a file of pairs does not have as planned, or has and no plan does; never their values.

    A secret has to be there and to be filled in.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = dict(line.partition("=")[::2] for line in lines)
    as_planned = [
        key
        for key, wanted in planned.items()
        if key in found
        and (found[key] == wanted if wanted is not None else found[key] and "<secret " not in found[key])
    ]
    return sorted({*planned, *found} - set(as_planned))


def contents(host: Any, path: str) -> str:
    """What a file holds; a command that fails says its name alone, so that no secret is printed."""
    return str(host.file(path).content_string)


def copied_files(instance: dict[str, Any]) -> dict[str, list[Path]]:
    """The files that hold certificates and keys, with the files of this machine that they come from."""
    found: dict[str, list[Path]] = {}
    for setting in instance["settings"]:
        if setting.get("copied"):
            found.setdefault(setting["file"], []).append(Path(setting["value"]))
    return found


def opened(host: Any, pid: int | str = "") -> set[str]:
    """Where a host or a process of it listens, ADDRESS:PORT of TCP and UDP; ``*`` is every address."""
    return set(host.check_output("python3 -c %s %s", _OPENED, str(pid)).split())


def value(instance: dict[str, Any], key: str) -> str:
    """The planned value of a key."""
    return next(str(s["value"]) for s in instance["settings"] if s["key"] == key)
