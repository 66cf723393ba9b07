"""What software an inventory has its hosts run: the distribution and the version of each service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.secrets import Known
from kedge.plan.service import Service

#: What a service calls the one of its kind that it is, the most telling first.
_KINDS: Final = ("distribution", "kind", "name")
#: Further variables of a service that say what is installed, beside its archives.
_MORE: Final = ("install", "package", "lock")


def versions(
    inventory: Inventory, planned: Mapping[str, Iterable[str]], services: Iterable[Service]
) -> dict[str, dict[str, dict[str, str]]]:
    """Return host -> service -> ``distribution`` and ``version``, each only where the inventory says it.

    ``planned`` is host -> the names of its planned services. The version of what is a package of its host is
    not here.
    """
    records = {service.name: service for service in services}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for host, names in planned.items():
        variables = inventory.hosts[host]
        for service in names:
            kinds = (variables.get(f"{service}_{kind}") for kind in _KINDS)
            version = records[service].version(inventory, host) if service in records else None
            known = {
                "distribution": next(filter(None, kinds), None),
                "version": version or variables.get(f"{service}_version"),
            }
            if said := {key: str(value) for key, value in known.items() if value}:
                found.setdefault(host, {})[service] = said
    return found


def with_software(
    hosts: Mapping[str, Mapping[str, Any]], inventory: Inventory, services: Iterable[Service]
) -> dict[str, dict[str, Any]]:
    """Return the hosts of a plan's document with the ``software`` of each service, by the inventory.

    ``distribution`` and ``version`` as :func:`versions` has them; the rest by the names of its variables:
    archives and jars with their checksums, the way of installation, the package, a lock of more jars. Secrets
    in them, such as the password in a URL, are masked.
    """
    records = {service.name: service for service in services}
    known = Known(inventory)
    of_hosts = versions(inventory, {host: part["services"] for host, part in hosts.items()}, services)
    found: dict[str, dict[str, Any]] = {}
    for host, part in hosts.items():
        found[host] = {**part, "services": {}}
        for service, of_service in part["services"].items():
            more = _installed(service, inventory.hosts[host], records.get(service))
            said = of_hosts.get(host, {}).get(service, {}) | more
            software = {name: known.masked(value) for name, value in said.items()}
            found[host]["services"][service] = {**of_service, "software": software}
    return found


def _installed(name: str, variables: Mapping[str, Any], service: Service | None) -> dict[str, str]:
    named = [(f"{name}_{one}", variables.get(f"{name}_{one}")) for one in _MORE]
    for one in service.archives(variables) if service else ():
        named += [(one.variable, one.path), (one.checksum, one.wanted)]
    return {variable.removeprefix(f"{name}_"): str(value) for variable, value in named if value}
