"""Checks that no application is left without the login that its cluster asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.service import Service
from sizing.inventory.clusters import clusters

_PROTOCOL: Final = "security.protocol"


def check_logins(inventory: Inventory, services: Iterable[Service]) -> Iterator[Finding]:
    """Find services of secured clusters that log in by a person's own settings, and these name no protocol.

    The plan gives logins to proxies, mirrors and brokers; an application it would leave to plain text, in
    silence.
    """
    secured = {
        name: cluster.security.protocol
        for name, cluster in clusters(inventory)[0].items()
        if cluster.security is not None and cluster.security.protocol != "PLAINTEXT"
    }
    for service in services:
        if service.login is None:
            continue
        for host in service.hosts(inventory):
            variables, settings = inventory.hosts[host], service.login.settings
            cluster = str(variables.get(service.login.cluster))
            if cluster in secured and not names_protocol(variables.get(settings)):
                yield _finding(f"{host} {service.name}", cluster, secured[cluster], settings)


def names_protocol(settings: Any) -> bool:
    """Return whether a person's own settings name the protocol of a client, under whatever prefix."""
    return isinstance(settings, Mapping) and any(str(key).endswith(_PROTOCOL) for key in settings)


def _finding(where: str, cluster: str, protocol: str, place: str) -> Finding:
    return Finding(
        "error",
        "client.login",
        where,
        f"cluster {cluster} takes {protocol}, and the plan gives applications no login: "
        "this one would speak plain text, and reach nobody",
        f"write {_PROTOCOL} and what belongs to it into {place}, passwords from a vault",
    )
