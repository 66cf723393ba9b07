"""Rules for the Java that a host has: every service of it must start on the one release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sizing.complaints import wrong_variable
from sizing.keys import numbers
from sizing.model import Finding, Instance, Inventory

#: What the role java installs where the inventory says nothing.
DEFAULT: Final = 17
_FACTS: Final = "broker, client and JVM facts, Java"
_PROXIES: Final = "REST proxy facts"


def check_java(
    inventory: Inventory, services: Mapping[str, Mapping[str, tuple[Instance, ...]]]
) -> Iterator[Finding]:
    """Find hosts with a service that asks for a later release than ``java_version``."""
    for host, of_host in services.items():
        variables = inventory.hosts[host]
        release = variables.get("java_version", DEFAULT)
        if isinstance(release, bool) or not isinstance(release, int):
            fix = "write the number of a release, such as 17"
            yield wrong_variable("java_version", host, f"is {release!r}", fix)
            continue
        for service in of_host:
            needed, what, source = _needed(inventory, service, of_host[service], variables)
            if release < needed:
                yield Finding(
                    "error",
                    "host.java",
                    f"{host}: java_version",
                    f"{what} starts on Java {needed} or later, and java_version is {release} ({source})",
                    f"set java_version to {needed} for the host, and java_packages where its system has "
                    "others",
                )


def _needed(
    inventory: Inventory, service: str, instances: tuple[Instance, ...], variables: Mapping[str, Any]
) -> tuple[int, str, str]:
    """Return the least release for a service, its name and where that is known from."""
    version = str(variables.get(f"{service}_version", ""))
    if service == "kafka_rest":
        distribution = str(variables.get("kafka_rest_distribution"))
        what = f"{distribution} {version}"
        if distribution == "strimzi":
            return 21 if numbers(version) >= (1,) else 17, f"{what}, its HTTP bridge,", _PROXIES
        modern = distribution == "sandbox" or (distribution == "confluent" and numbers(version) >= (8,))
        return 17 if modern else 8, what, _PROXIES
    if service == "kafka_broker":
        declared = inventory.common("kafka_clusters") or {}
        version = str((declared.get(instances[0].name) or {}).get("version", ""))
    if service in ("kafka_broker", "mirror_maker"):
        return 17 if numbers(version) >= (4,) else 8, f"{service} {version}", _FACTS
    return 11 if service == "streams_app" and numbers(version) >= (4,) else 8, f"{service} {version}", _FACTS
