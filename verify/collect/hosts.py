"""How the hosts of a plan are reached, read from an Ansible inventory."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kedge.evidence.secrets import from_environment

#: What ssh is told by Access: of an option, its first value counts.
_OWN = (
    *("batchmode", "connecttimeout", "serveraliveinterval", "stricthostkeychecking"),
    *("port", "user", "identityfile", "userknownhostsfile"),
    # Ansible's connection is used where it is open; none is kept open by what collects.
    *("controlmaster", "controlpersist"),
)


class CollectError(Exception):
    """Something that the person has to mend; its text is one line: what, where, how."""


@dataclass(frozen=True)
class Access:
    """A host's address and what SSH needs; ``become`` tells to read as root.

    ``options`` are what else of ssh's own options the inventory gives (``-o NAME=VALUE``, ``-J HOST``), such
    as the way over a bastion. ``asks`` tells that sudo asks for a password there.
    """

    name: str
    address: str
    port: int
    user: str | None
    key: str | None
    known_hosts: str | None
    strict: str
    become: bool
    options: tuple[str, ...] = ()
    asks: bool = False

    @property
    def as_root(self) -> list[str]:
        """What begins a command there: a password of sudo comes by standard input, and by no command line."""
        if not self.become:
            return []
        return ["sudo", "-S", "-p", ""] if self.asks else ["sudo", "-n"]


def become_password(name: str) -> str | None:
    """Return the password by which a login becomes root on a host, which KEDGE_SECRETS alone holds."""
    found = from_environment().get("become", {}).get(name)
    return str(found) if found else None


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
    # The first of an option counts: what is said above stands.
    return ["ssh", *given, *access.options, access.address, shlex.join([*access.as_root, *argv])]


def forward(access: Access) -> list[str]:
    """Return the command whose standard input and output are a connection to a host over another one.

    Empty where it is reached directly. ssh itself goes the way, with the keys that it has for it.
    """
    named: dict[str, str] = {}
    for flag, text in zip(access.options[::2], access.options[1::2], strict=True):
        name, _, value = ("proxyjump", "", text) if flag == "-J" else text.partition("=")
        named.setdefault(name.strip().lower(), value.strip().strip('"'))
    if hops := [hop for hop in named.get("proxyjump", "").split(",") if hop not in ("", "none")]:
        first = ["-J", ",".join(hops[:-1])] if hops[1:] else []
        last = f"ssh://{hops[-1]}" if ":" in hops[-1] and "://" not in hops[-1] else hops[-1]
        return [
            *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *first),
            *("-W", f"{access.address}:{access.port}", last),
        ]
    command = named.get("proxycommand", "none")
    places = {"%h": access.address, "%p": str(access.port), "%r": access.user or "%r"}
    words = shlex.split(command) if command != "none" else []
    return [re.sub("%[hpr]", lambda place: places[place[0]], word) for word in words]


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
    arguments_of = ("ssh_args", "ssh_common_args", "ssh_extra_args")
    for key in ("host", "port", "user", "ssh_private_key_file", *arguments_of):
        if "{{" in str(used.get(f"ansible_{key}", "")):
            raise CollectError(
                f"ansible_{key} of host {name} holds a template, {used[f'ansible_{key}']!r}: "
                f"give the inventory.yml that verify.yml writes into the run's folder"
            )
    for name_of, reached in (
        ("connection", ("ssh", "smart", "ansible.builtin.ssh")),
        ("become_method", ("sudo",)),
    ):
        value = used.get(f"ansible_{name_of}", reached[0])
        if value not in reached:
            raise CollectError(
                f"ansible_{name_of} of host {name} is {value}: evidence comes by {reached[0]} alone. "
                f"Set ansible_{name_of}: {reached[0]} for it, at least for this playbook (-e)"
            )
    arguments = " ".join(str(used.get(f"ansible_{key}", "")) for key in arguments_of)
    others = way_options(name, arguments)
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
        options=others,
        asks=become_password(name) is not None,
    )


def way_options(name: str, arguments: str) -> tuple[str, ...]:
    """Return of ssh's arguments those that say how a host is reached, each as ssh takes it.

    Only ``-o`` and ``-J``, and of these none that :func:`ssh` gives itself. They go to ssh as
    arguments, by no shell of ours.

    Raises:
        CollectError: when the arguments are no words.
    """
    try:
        words = iter(shlex.split(arguments))
    except ValueError as error:
        raise CollectError(
            f"ansible_ssh_args, ansible_ssh_common_args or ansible_ssh_extra_args of host {name}: {error}; "
            "close its quotes"
        ) from error
    found: list[str] = []
    for word in words:
        if not word.startswith(("-o", "-J")):
            continue
        text = word[2:] or next(words, "")
        if text and (word[1] == "J" or text.partition("=")[0].strip().lower() not in _OWN):
            found += [word[:2], text]
    return tuple(found)


def ssh_options(arguments: str) -> dict[str, str]:
    """Return the ``-o`` options of an ssh command line, names in lower case; the first of a name counts."""
    words = shlex.split(arguments)
    texts = [word.removeprefix("-o") for word in words if word.startswith("-o") and word != "-o"]
    texts += [text for word, text in itertools.pairwise(words) if word == "-o"]
    named = [text.partition("=") for text in reversed(texts)]
    return {name.lower(): value.strip('"') for name, _, value in named}
