"""What software an inventory has its hosts run: the distribution and the version of each service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sizing.core.inventory import Inventory
from sizing.inventory.clusters import clusters

#: What a service calls the one of its kind that it is, the most telling first.
_KINDS: Final = ("distribution", "kind", "name")


def versions(
    inventory: Inventory, services: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, dict[str, str]]]:
    """Return host -> service -> ``distribution`` and ``version``, each only where the inventory says it.

    ``services`` is host -> the names of its planned services. A broker has the version of its cluster. A
    balancer's is that of its host's package, so it is not here.
    """
    of_broker = {
        host: cluster.version
        for name, cluster in clusters(inventory)[0].items()
        for host in inventory.group(cluster.brokers or f"kafka_{name}")
    }
    found: dict[str, dict[str, dict[str, str]]] = {}
    for host, names in services.items():
        variables = inventory.hosts[host]
        for service in names:
            kinds = (variables.get(f"{service}_{kind}") for kind in _KINDS)
            version = of_broker.get(host) if service == "kafka_broker" else None
            known = {
                "distribution": next(filter(None, kinds), None),
                "version": version or variables.get(f"{service}_version"),
            }
            if said := {key: str(value) for key, value in known.items() if value}:
                found.setdefault(host, {})[service] = said
    return found
