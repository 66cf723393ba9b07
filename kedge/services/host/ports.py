"""The ports of a host's services: which they are, wanted twice, or not to be taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.metrics import served
from kedge.plan.plan import PlannedInstance
from kedge.plan.service import PlannedInstances, Service

#: A process without root rights may take no port below this.
_PRIVILEGED: Final = 1024
_JMX_FLAG: Final = re.compile(r"-Dcom\.sun\.management\.jmxremote\.(?:rmi\.)?port=(\d+)")


def ports_of(
    of_host: Mapping[str, tuple[PlannedInstance, ...]], services: Iterable[Service]
) -> frozenset[int]:
    """Return every port on which the planned services of a host listen."""
    others = {service.name: service.ports.others for service in services if service.ports}
    found = set()
    for name, instances in of_host.items():
        for instance in instances:
            if instance.port:
                found.add(instance.port)
            found |= jmx_ports(instance)
            found |= {agent[1] for s in instance.settings if (agent := served(s.value))}
            if name in others:
                found |= set(others[name](instance))
    return frozenset(found)


def jmx_ports(instance: PlannedInstance) -> set[int]:
    """Return the ports that a person's own values open for JMX, by the start script's variable or a flag."""
    own = [s for s in instance.settings if s.key.endswith(("JMX_PORT", "_OPTS")) and s.by == "person"]
    said = [s.value for s in own if s.key == "JMX_PORT"]
    said += [port for s in own if s.key.endswith("_OPTS") for port in _JMX_FLAG.findall(s.value)]
    return {int(port) for port in said if port.isdecimal()}


def check_ports(
    inventory: Inventory, planned_services: PlannedInstances, services: Sequence[Service]
) -> list[Finding]:
    """Return an error for each port that is wanted twice, or that its service may not take."""
    owners: dict[tuple[str, int], list[tuple[str, str]]] = {}
    found = []
    jmx: set[int] = set()
    movable = {service.name: service.ports for service in services if service.ports}
    for host, of_host in planned_services.items():
        address = inventory.address(host)
        for name, instances in of_host.items():
            moved = movable.get(name)
            for instance in instances:
                jmx |= jmx_ports(instance)
                for port in sorted(ports_of({name: (instance,)}, services)):
                    owners.setdefault((address, port), []).append((host, f"{name}@{instance.name}"))
                    if port < _PRIVILEGED and moved and not moved.root:
                        found.append(_privileged(host, name, moved.variable, port))
    variables = " or ".join(", ".join(ports.variable for ports in movable.values()).rsplit(", ", 1))
    for (address, port), wanting in owners.items():
        if len(wanting) > 1:
            names = " and ".join(f"{name} of {host}" for host, name in wanting)
            if port in jmx:
                found.append(_shared_jmx(wanting[0][0], address, port, names))
                continue
            found.append(
                Finding(
                    "error",
                    "inventory.port",
                    f"{wanting[0][0]}: port {port}",
                    f"port {port} of {address} is wanted by {names}",
                    f"change {variables}, or the address (ansible_host) of one of the hosts, or a "
                    "metrics.first_port",
                )
            )
    return found


def _shared_jmx(host: str, address: str, port: int, names: str) -> Finding:
    return Finding(
        "error",
        "inventory.jmx",
        f"{host}: port {port}",
        f"JMX on port {port} of {address} is wanted by {names}: the first takes it, and the others do not "
        "start",
        "take JMX_PORT out, for one value cannot serve several instances; what a run needs is read without "
        "JMX",
    )


def _privileged(host: str, service: str, variable: str, port: int) -> Finding:
    return Finding(
        "error",
        "inventory.port",
        f"{host}: port {port}",
        f"{service} would listen on port {port}, and a service without root rights may take none below "
        f"{_PRIVILEGED}",
        f"set {variable} to 1024 or above, and let a balancer have the port that clients know",
    )
