"""What is there before a fleet starts: its own nodes, its leftovers, and what is someone else's."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet.engine import Engine
from lab.fleet.inventory import Fleet

FLEET_LABEL = "kedge.fleet"
PROJECT_LABEL = "kedge.project"
NODE_LABEL = "kedge.node"
#: Where root's podman keeps which container has which address.
LEASES = Path("/run/containers/networks/ipam.db")


@dataclass(frozen=True)
class Container:
    """A container as the engine records it; `alive` says whether its processes really run."""

    id: str
    name: str
    labels: dict[str, str]
    alive: bool


@dataclass(frozen=True)
class Network:
    """A network of the engine; `interface` is its bridge on this machine."""

    name: str
    subnets: tuple[str, ...]
    interface: str
    labels: dict[str, str]


def containers(engine: Engine) -> list[Container]:
    """All containers of this machine."""
    ids = engine.run("ps", "--all", "--quiet", "--no-trunc").split()
    return [parse_container(record, engine) for record in engine.inspect("container", ids)]


def parse_container(record: dict[str, Any], engine: Engine) -> Container:
    """Read one record of `container inspect`."""
    identity = record["Id"]
    state = record.get("State", {})
    alive = state.get("Status") == "running"
    if alive and engine.name == "podman":
        # After a killed login or machine, podman's records still say "running" of what is long gone.
        alive = monitor_runs(state.get("ConmonPid", 0), identity) and _exists(state.get("Pid", 0))
    return Container(
        identity, record["Name"].lstrip("/"), record.get("Config", {}).get("Labels") or {}, alive
    )


def monitor_runs(pid: int, container: str, proc: Path = Path("/proc")) -> bool:
    """Whether process `pid` is the monitor of this container, not a later process of that number."""
    try:
        return bool(pid) and container.encode() in (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


def _exists(pid: int) -> bool:
    return bool(pid) and Path(f"/proc/{pid}/stat").exists()


def networks(engine: Engine) -> list[Network]:
    """All networks of the engine."""
    names = engine.run("network", "ls", "--format", "{{.Name}}").split()
    return [parse_network(record) for record in engine.inspect("network", names)]


def parse_network(record: dict[str, Any]) -> Network:
    """Read one record of `network inspect`, podman's or Docker's."""
    if "subnets" in record or "network_interface" in record:
        subnets = tuple(part["subnet"] for part in record.get("subnets") or [])
        return Network(
            record["name"], subnets, record.get("network_interface", ""), record.get("labels") or {}
        )
    subnets = tuple(part["Subnet"] for part in record.get("IPAM", {}).get("Config") or [])
    bridge = (record.get("Options") or {}).get(
        "com.docker.network.bridge.name", f"br-{record.get('Id', '')[:12]}"
    )
    return Network(record["Name"], subnets, bridge, record.get("Labels") or {})


def routes(table: str) -> list[tuple[str, ipaddress.IPv4Network]]:
    """Interface and destination of each route in the text of /proc/net/route, default routes left out."""
    found = []
    for line in table.splitlines()[1:]:
        interface, destination, *_, mask = line.split()[:8]
        network = ipaddress.IPv4Network((_from_hex(destination), str(ipaddress.IPv4Address(_from_hex(mask)))))
        if network.prefixlen:
            found.append((interface, network))
    return found


def _from_hex(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")


def check_subnet(
    fleet: Fleet, known: Iterable[Network], routed: Iterable[tuple[str, ipaddress.IPv4Network]]
) -> None:
    """Raise Problem where someone else already uses the fleet's addresses."""
    mend = f"change fleet.subnet and the ansible_host addresses in {fleet.source}"
    own = set()
    for network in known:
        if network.labels.get(FLEET_LABEL) == fleet.name and network.name == fleet.network:
            own.add(network.interface)
        elif any(_overlap(fleet.subnet, subnet) for subnet in network.subnets):
            raise Problem(
                f"subnet {fleet.subnet} is in use by the container network '{network.name}': {mend}"
            )
    for interface, destination in routed:
        if interface not in own and fleet.subnet.overlaps(destination):
            raise Problem(f"subnet {fleet.subnet} is in use by interface {interface} ({destination}): {mend}")


def left_bridges(
    fleet: Fleet,
    known: Iterable[Network],
    routed: Iterable[tuple[str, ipaddress.IPv4Network]],
    interfaces: Path = Path("/sys/class/net"),
) -> list[str]:
    """Name podman's bridges on the fleet's addresses that have no port and belong to no network.

    podman removes a bridge with its last container. Where that container was killed, the bridge stays, also
    when its network is removed.
    """
    own = {network.interface for network in known}
    return [
        interface
        for interface, destination in routed
        if interface not in own
        and interface.startswith("podman")
        and fleet.subnet.overlaps(destination)
        and (interfaces / interface / "brif").is_dir()
        and not any((interfaces / interface / "brif").iterdir())
    ]


def clear_leases(
    engine: Engine, found: Iterable[Container], known: Iterable[Network], leases: Path = LEASES
) -> None:
    """Remove podman's table of addresses where there is no container, and no network but its own.

    The address of a container that was killed with its podman stays in the table, also when its network is
    removed, and the next container that is to have it does not start.
    """
    if engine.name == "podman" and not list(found) and all(one.name == "podman" for one in known):
        with contextlib.suppress(PermissionError):  # another user's podman has a table of its own
            leases.unlink(missing_ok=True)


def _overlap(subnet: ipaddress.IPv4Network, text: str) -> bool:
    other = ipaddress.ip_network(text, strict=False)
    return isinstance(other, ipaddress.IPv4Network) and subnet.overlaps(other)


def is_foreign(container: Container) -> bool:
    """Whether another project's live fleet has this container; a dead one may be cleared by anyone."""
    return container.alive and container.labels.get(PROJECT_LABEL) != str(PROJECT)


def check_owner(fleet: Fleet, found: Iterable[Container], known: Iterable[Network]) -> None:
    """Raise Problem where a name is something else's, or another project runs this fleet."""
    names = {fleet.container(node) for node in fleet.nodes}
    for container in found:
        if container.labels.get(FLEET_LABEL) != fleet.name:
            if container.name in names:
                raise Problem(
                    f"container {container.name} exists and is not this fleet's: remove or rename it, "
                    f"or change fleet.name in {fleet.source}"
                )
        elif is_foreign(container):
            other = container.labels.get(PROJECT_LABEL)
            raise Problem(
                f"fleet {fleet.name} already runs for the project in {other}: run 'make fleet-down' there, "
                f"or change fleet.name and fleet.subnet in {fleet.source}"
            )
    for network in known:
        if network.name == fleet.network and network.labels.get(FLEET_LABEL) != fleet.name:
            raise Problem(
                f"network {network.name} exists and is not this fleet's: remove it, "
                f"or change fleet.network in {fleet.source}"
            )
