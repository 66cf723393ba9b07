"""The nodes of a fleet, as an inventory describes them."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kedge.setup.paths import GENERATED, PROJECT, VENV
from kedge.setup.problem import Problem

_PLACE = re.compile(r"[A-Za-z0-9.-]+:\d{1,5}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")
_CORES = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


@dataclass(frozen=True)
class Forwarding:
    """What a node forwards: ports of its own, and where each leads (`host:port`); the round trip in ms."""

    ways: tuple[tuple[int, str], ...]
    round_trip_ms: float


@dataclass(frozen=True)
class Node:
    """One systemd container; `memory` is a limit such as 2g or empty; `on_demand` starts when named.

    `cores` are those that it may use; empty for all. `link` is what it forwards where it is the way between
    two data centres: changed on a node that runs.
    """

    name: str
    address: str
    on_demand: bool = False
    memory: str = ""
    cores: tuple[int, ...] = ()
    link: Forwarding | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Fleet:
    """Nodes on one network; `source` is the inventory, which messages point to."""

    name: str
    network: str
    subnet: ipaddress.IPv4Network
    nodes: tuple[Node, ...]
    source: Path

    @property
    def folder(self) -> Path:
        """Keys, known hosts and SSH configuration of this fleet."""
        return GENERATED / "fleet" / self.name

    def container(self, node: Node) -> str:
        """The container's name; with the fleet's, so that two fleets can have a node of the same name."""
        return f"{self.name}-{node.name}"


def read_fleet(inventory: Path) -> Fleet:
    """Read `inventory` with ansible-inventory; raises Problem where it describes no usable fleet."""
    if not inventory.exists():
        raise Problem(f"inventory {inventory}: there is no such file or folder")
    command = [str(VENV / "bin" / "ansible-inventory"), "-i", str(inventory.resolve()), "--list"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    except FileNotFoundError as error:
        raise Problem("ansible-inventory is missing: run 'make setup'") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if "ERROR" in line), lines[-1])
        raise Problem(f"inventory {inventory} cannot be read: {reason}")
    return parse_fleet(json.loads(done.stdout), inventory)


def parse_fleet(listing: dict[str, Any], source: Path) -> Fleet:
    """Take the fleet from what `ansible-inventory --list` prints; raises Problem with the value to mend."""
    hosts: dict[str, dict[str, Any]] = listing.get("_meta", {}).get("hostvars", {})
    described = {name: facts for name, facts in hosts.items() if "fleet" in facts}
    if not described:
        raise Problem(
            f"inventory {source}: no host has 'fleet' (name, subnet, network), so none can start here"
        )
    settings = next(iter(described.values()))["fleet"]
    if any(facts["fleet"] != settings for facts in described.values()):
        raise Problem(f"inventory {source}: hosts differ in 'fleet'; give each fleet an inventory of its own")
    name = _fleet_name(settings, source)
    subnet = _subnet(settings, source)
    nodes: dict[str, Node] = {}
    for host, facts in sorted(described.items()):
        address = _address(host, facts, subnet, source)
        if address in nodes:
            raise Problem(
                f"inventory {source}: {host} and {nodes[address].name} have the same ansible_host {address}"
            )
        on_demand = facts.get("fleet_start", "always") == "on_demand"
        memory, cores = str(facts.get("fleet_memory", "")), _cores(host, facts, source)
        nodes[address] = Node(host, address, on_demand, memory, cores, _link(host, facts, source))
    return Fleet(name, str(settings.get("network", name)), subnet, tuple(nodes.values()), source)


def _fleet_name(settings: object, source: Path) -> str:
    if not isinstance(settings, dict):
        raise Problem(f"inventory {source}: 'fleet' must have name, subnet and network; found {settings!r}")
    name = settings.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Problem(
            f"inventory {source}: fleet.name must be small letters, digits and dashes; found {name!r}"
        )
    return name


def _subnet(settings: dict[str, Any], source: Path) -> ipaddress.IPv4Network:
    text = settings.get("subnet", "")
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as error:
        raise Problem(
            f"inventory {source}: fleet.subnet must look like 10.77.0.0/24; found {text!r} ({error})"
        ) from error


def _address(host: str, facts: dict[str, Any], subnet: ipaddress.IPv4Network, source: Path) -> str:
    if not _NAME.fullmatch(host):
        raise Problem(
            f"inventory {source}: host {host!r} is no host name: use small letters, digits and dashes"
        )
    text = facts.get("ansible_host", "")
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise Problem(
            f"inventory {source}: {host} needs ansible_host, an address in {subnet}; found {text!r}"
        ) from error
    taken = {subnet.network_address, subnet.network_address + 1, subnet.broadcast_address}
    if address not in subnet or address in taken:
        raise Problem(
            f"inventory {source}: ansible_host {address} of {host} is not free in fleet.subnet {subnet} "
            f"({subnet.network_address + 1} is this machine's)"
        )
    return str(address)


def _cores(host: str, facts: dict[str, Any], source: Path) -> tuple[int, ...]:
    given = str(facts.get("fleet_cores", ""))
    found: set[int] = set()
    for part in given.split(",") if given else ():
        match = _CORES.fullmatch(part)
        cores = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not cores:
            raise Problem(
                f"inventory {source}: fleet_cores of {host} must look like '0-1' or '0,2', without spaces; "
                f"found {given!r}"
            )
        found.update(cores)
    return tuple(sorted(found))


def _link(host: str, facts: dict[str, Any], source: Path) -> Forwarding | None:
    if "fleet_link" not in facts:
        return None
    given = facts["fleet_link"]
    try:
        ways = tuple((int(port), str(to)) for port, to in given["ways"].items())
        trip = float(given.get("round_trip_ms", 0))
    except (AttributeError, KeyError, TypeError, ValueError):
        ways, trip = (), 0.0
    if not ways or not all(0 < port < 65536 and _PLACE.fullmatch(to) for port, to in ways):
        raise Problem(
            f"inventory {source}: fleet_link of {host} must have round_trip_ms and ways, a port of {host} to "
            f"host:port, such as {{9094: 10.77.1.12:9094}}; found {given!r}"
        )
    return Forwarding(ways, trip)


def choose(fleet: Fleet, limit: Collection[str], also: Collection[str]) -> list[Node]:
    """The nodes to act on: those in `limit`, or all but the on-demand ones; and those in `also`."""
    known = {node.name for node in fleet.nodes}
    unknown = sorted({*limit, *also} - known)
    if unknown:
        raise Problem(
            f"inventory {fleet.source} has no node {', '.join(unknown)}; it has {', '.join(sorted(known))}"
        )
    if limit:
        return [node for node in fleet.nodes if node.name in limit or node.name in also]
    return [node for node in fleet.nodes if not node.on_demand or node.name in also]
