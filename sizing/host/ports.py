"""Finds services that want the same port of the same address, and ports that they may not take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.plan import Instance
from sizing.host.planner import jmx_ports, ports_of

#: Services that run without the right to take a port below this; the balancer begins as root.
_PRIVILEGED: Final = 1024
#: Services without root rights, each with the variable of its port.
_UNPRIVILEGED: Final = {"kafka_rest": "kafka_rest_first_port", "kafka_broker": "kafka_broker_port"}


def check_ports(
    inventory: Inventory, services: Mapping[str, Mapping[str, tuple[Instance, ...]]]
) -> list[Finding]:
    """Return an error for each port that is wanted twice, or that its service may not take."""
    owners: dict[tuple[str, int], list[tuple[str, str]]] = {}
    found = []
    jmx: set[int] = set()
    for host, of_host in services.items():
        address = inventory.address(host)
        for service, instances in of_host.items():
            for instance in instances:
                jmx |= jmx_ports(instance)
                for port in sorted(ports_of({service: (instance,)})):
                    owners.setdefault((address, port), []).append((host, f"{service}@{instance.name}"))
                    if port < _PRIVILEGED and service in _UNPRIVILEGED:
                        found.append(_privileged(host, service, port))
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
                    "change kafka_rest_first_port, kafka_broker_port or rest_balancer_port, or the address "
                    "(ansible_host) of one of the hosts",
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


def _privileged(host: str, service: str, port: int) -> Finding:
    return Finding(
        "error",
        "inventory.port",
        f"{host}: port {port}",
        f"{service} would listen on port {port}, and a service without root rights may take none below "
        f"{_PRIVILEGED}",
        f"set {_UNPRIVILEGED[service]} to 1024 or above, and let a balancer have the port that clients know",
    )
