"""What software an inventory has its hosts run: the distribution and the version of each service."""

from __future__ import annotations

from typing import Final

from sizing.core.inventory import Inventory
from sizing.inventory.clusters import clusters

#: The services, each with the variable that names its distribution, kind or program.
_SERVICES: Final = {
    "kafka_broker": "",
    "kafka_rest": "kafka_rest_distribution",
    "rest_balancer": "",
    "mirror_maker": "mirror_maker_kind",
    "streams_app": "streams_app_name",
}


def versions(inventory: Inventory) -> dict[str, dict[str, dict[str, str]]]:
    """Return service -> host -> ``distribution`` and ``version``, each only where the inventory says it.

    A broker has the version of its cluster. A balancer's is that of its host's package, so it is not here.
    """
    of_broker = {
        host: cluster.version
        for name, cluster in clusters(inventory)[0].items()
        for host in inventory.group(cluster.brokers or f"kafka_{name}")
    }
    found: dict[str, dict[str, dict[str, str]]] = {}
    for service, names in _SERVICES.items():
        for host in inventory.group(service):
            variables = inventory.hosts[host]
            known = {
                "distribution": variables.get(names) if names else None,
                "version": of_broker.get(host) or variables.get(f"{service}_version"),
            }
            said = {key: str(value) for key, value in known.items() if value}
            found.setdefault(service, {})[host] = said
    return found
