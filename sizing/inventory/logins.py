"""Checks that Kedge's own clients can log in as services do by a person's own settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.service import Service
from sizing.inventory.clusters import clusters
from sizing.inventory.security import SPOKEN, Security, named, unspoken

_PROTOCOL: Final = "security.protocol"
#: Keys by which a client shows a certificate, and what they may stand behind: clients inside a service.
_SHOWN: Final = ("ssl.keystore.location", "ssl.keystore.certificate.chain")
_CLIENTS: Final = frozenset({"admin", "client", "consumer", "global", "kafka", "main", "producer", "restore"})


def check_mechanisms(inventory: Inventory, services: Iterable[Service]) -> Iterator[Finding]:
    """Find services whose own settings log in as Kedge's gates, load and audit cannot."""
    known = {name: cluster.security for name, cluster in clusters(inventory)[0].items()}
    found: dict[str, Finding] = {}
    for service in services:
        for host in service.hosts(inventory):
            for variable, cluster, own in _own_settings(service.name, inventory.hosts[host]):
                if cluster not in known:
                    continue
                where = f"{host} {service.name}"
                if login := unspoken(own, known[cluster]):
                    found[variable] = _not_spoken(where, variable, cluster, *login)
                elif key := _unshown(own, known[cluster], service.name, cluster):
                    found[variable] = _not_shown(where, variable, cluster, key)
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


def _unshown(own: Mapping[str, Any], security: Security | None, service: str, cluster: str) -> str:
    """Return the key of own settings that shows brokers a certificate where Kedge's clients speak no TLS.

    Empty where none does, and where the service has ``bootstrap.servers`` of its own.
    """
    if (security is not None and security.tls) or named(own, "bootstrap.servers"):
        return ""
    clients = {*_CLIENTS, cluster}
    for key in map(str, own):
        words = key.partition("ssl.keystore.")[0].split(".")[:-1]
        # Without a prefix it is a proxy's listener.
        listener = service == "kafka_rest" and not words
        if key.endswith(_SHOWN) and clients.issuperset(words) and not listener:
            return key
    return ""


def _not_shown(where: str, variable: str, cluster: str, key: str) -> Finding:
    return Finding(
        "error",
        "client.mechanism",
        where,
        f"{variable} has {key}, and gates, load and audit show brokers of cluster {cluster} no certificate: "
        "they would not reach it, and a deploy would stop at its first gate",
        f"write protocol, ca and client_tls into kafka_clusters.{cluster}.security, or give {variable} "
        "bootstrap.servers of its own",
    )


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
