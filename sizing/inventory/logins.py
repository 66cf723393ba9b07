"""Checks that no application is left without the login that its cluster asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.service import Service
from sizing.inventory.clusters import clusters
from sizing.inventory.security import SPOKEN, unspoken

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


def check_mechanisms(inventory: Inventory, services: Iterable[Service]) -> Iterator[Finding]:
    """Find services whose own settings log in as Kedge's gates, load and audit cannot."""
    known = {name: cluster.security for name, cluster in clusters(inventory)[0].items()}
    found: dict[str, Finding] = {}
    for service in services:
        for host in service.hosts(inventory):
            for variable, cluster, own in _own_settings(service.name, inventory.hosts[host]):
                if cluster in known and (named := unspoken(own, known[cluster])):
                    found[variable] = _not_spoken(f"{host} {service.name}", variable, cluster, *named)
    yield from found.values()


def _own_settings(service: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the own settings of a service's clients: the variable, its cluster, and what it holds."""
    own = variables.get(f"{service}_settings")
    if isinstance(own, Mapping):
        yield f"{service}_settings", str(variables.get(f"{service}_cluster")), own
    flows = variables.get(f"{service}_flows")
    for name, flow in flows.items() if isinstance(flows, Mapping) else ():
        if not isinstance(flow, Mapping):
            continue
        for end, client in (("source", "consumer"), ("target", "producer")):
            # A listener of its own is not the one of the gates.
            if flow.get(f"{end}_bootstrap_servers"):
                continue
            cluster, place = str(flow.get(end)), f"{service}_flows.{name}"
            one = flow.get(f"{client}_settings")
            if isinstance(one, Mapping):
                yield f"{place}.{client}_settings", cluster, one
            both = flow.get("settings")
            if isinstance(both, Mapping):
                of_end = {k: v for k, v in both.items() if str(k).startswith(f"{cluster}.")}
                yield f"{place}.settings", cluster, of_end


def _not_spoken(where: str, variable: str, cluster: str, key: str, mechanism: str) -> Finding:
    return Finding(
        "error",
        "client.mechanism",
        where,
        f"{variable} has {key}: {mechanism}, and gates, load and audit log in by {', '.join(SPOKEN[:-1])} or "
        f"{SPOKEN[-1]}: they would not reach cluster {cluster}, and a deploy would stop at its first gate",
        f"give kafka_clusters.{cluster} the bootstrap_servers and the security of a listener that takes one "
        f"of these, and {variable} bootstrap.servers of its own",
    )


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
