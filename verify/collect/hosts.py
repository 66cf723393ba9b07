"""How the hosts of a plan are reached, read from an Ansible inventory."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CollectError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


@dataclass(frozen=True)
class Access:
    """A host's address and what SSH needs; ``become`` tells to read as root."""

    name: str
    address: str
    port: int
    user: str | None
    key: str | None
    known_hosts: str | None
    strict: str
    become: bool


def ssh(access: Access, argv: Iterable[str]) -> list[str]:
    """Return the command that runs another one on a host, as root where Ansible becomes that."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "5",
        "StrictHostKeyChecking": access.strict,
        "Port": str(access.port),
        "User": access.user,
        "IdentityFile": access.key,
        "UserKnownHostsFile": access.known_hosts,
    }
    given = [word for name, value in options.items() if value for word in ("-o", f"{name}={value}")]
    as_root = ["sudo", "-n"] if access.become else []
    return ["ssh", *given, access.address, shlex.join([*as_root, *argv])]


def read_access(inventory: str, names: Iterable[str]) -> list[Access]:
    """Return how each of these hosts is reached.

    Raises CollectError when Ansible cannot read the inventory, a host is not in it, or a variable that SSH
    needs still holds a template: `ansible-inventory` leaves those as they are.
    """
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", inventory, "--list"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        hosts = json.loads(answer.stdout)["_meta"]["hostvars"]
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        raise CollectError(
            f"inventory {inventory} cannot be read: {lines[-1] if lines else error}"
        ) from error
    found = []
    for name in names:
        if name not in hosts:
            raise CollectError(
                f"host {name} is in the plan, but not in inventory {inventory}: was it renamed?"
            )
        found.append(to_access(name, hosts[name]))
    return found


def to_access(name: str, variables: Mapping[str, Any]) -> Access:
    """Turn a host's Ansible variables into an :class:`Access`; raises CollectError for a template."""
    used = {key: value for key, value in variables.items() if key.startswith(("ansible_", "kedge_"))}
    for key in ("host", "port", "user", "ssh_private_key_file", "ssh_common_args"):
        if "{{" in str(used.get(f"ansible_{key}", "")):
            raise CollectError(
                f"ansible_{key} of host {name} holds a template, {used[f'ansible_{key}']!r}: "
                f"give the inventory.yml that verify.yml writes into the run's folder"
            )
    arguments = f"{used.get('ansible_ssh_common_args', '')} {used.get('ansible_ssh_extra_args', '')}"
    options = ssh_options(arguments)
    return Access(
        name=name,
        address=str(used.get("ansible_host", name)),
        port=int(used.get("ansible_port", 22)),
        user=used.get("ansible_user"),
        key=used.get("ansible_ssh_private_key_file"),
        known_hosts=options.get("userknownhostsfile"),
        strict=options.get("stricthostkeychecking", "yes"),
        become=bool(used.get("ansible_become", False)),
    )


def ssh_options(arguments: str) -> dict[str, str]:
    """Return the ``-o`` options of an ssh command line, names in lower case."""
    words = shlex.split(arguments)
    texts = [word.removeprefix("-o") for word in words if word.startswith("-o") and word != "-o"]
    texts += [text for word, text in itertools.pairwise(words) if word == "-o"]
    return {name.lower(): value.strip('"') for name, _, value in (text.partition("=") for text in texts)}
