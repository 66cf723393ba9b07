"""Checks that no service is left without the login that its cluster asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sizing.model import Finding, Inventory
from sizing.workload import clusters

_PROTOCOL: Final = "security.protocol"


def check_logins(inventory: Inventory) -> Iterator[Finding]:
    """Find Streams applications and mirrors of secured clusters whose own settings name no protocol.

    The plan gives logins to proxies and brokers alone; of others it would leave plain text in silence.
    """
    secured = {
        name: cluster.security.protocol
        for name, cluster in clusters(inventory)[0].items()
        if cluster.security is not None and cluster.security.protocol != "PLAINTEXT"
    }
    for host in inventory.group("streams_app"):
        variables = inventory.hosts[host]
        cluster = str(variables.get("streams_app_cluster"))
        if cluster in secured and not _names_protocol(variables.get("streams_app_settings")):
            yield _finding(f"{host} streams_app", cluster, secured[cluster], "streams_app_settings")
    for host in inventory.group("mirror_maker"):
        flows = inventory.hosts[host].get("mirror_maker_flows")
        for name, flow in flows.items() if isinstance(flows, Mapping) else ():
            for end in ("source", "target") if isinstance(flow, Mapping) else ():
                cluster = str(flow.get(end))
                own = [flow.get(key) for key in ("settings", "consumer_settings", "producer_settings")]
                if cluster in secured and not any(map(_names_protocol, own)):
                    place = f"the settings of mirror_maker_flows.{name}"
                    yield _finding(f"{host} mirror_maker", cluster, secured[cluster], place)


def _names_protocol(settings: Any) -> bool:
    return isinstance(settings, Mapping) and any(str(key).endswith(_PROTOCOL) for key in settings)


def _finding(where: str, cluster: str, protocol: str, place: str) -> Finding:
    return Finding(
        "error",
        "client.login",
        where,
        f"cluster {cluster} takes {protocol}, and the plan gives logins to REST proxies and brokers alone: "
        "this one would speak plain text, and reach nobody",
        f"write {_PROTOCOL} and what belongs to it into {place}, passwords from a vault",
    )
