"""Rules for the Java of a host: one release, on which every service of the host starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import wrong_variable
from sizing.core.plan import Instance, Part
from sizing.core.settings import Setting
from sizing.keys.catalogue import numbers

SERVICE: Final = "java"
#: What a host gets where no service asks for a later one and the inventory says nothing.
DEFAULT: Final = 17
_FACTS: Final = "broker, client and JVM facts, Java"
_PROXIES: Final = "REST proxy facts"
#: Services that run in a JVM of the host; MapR's proxy runs on the Java that its cluster's software brings.
_JVMS: Final = ("kafka_broker", "kafka_rest", "mirror_maker", "streams_app")

_Services = Mapping[str, Mapping[str, tuple[Instance, ...]]]


def plan_java(inventory: Inventory, services: _Services) -> Part:
    """Plan the release of each host that runs a JVM, and find ``java_version`` where a service needs a later.

    The plan of a host is one instance ``jdk`` of the service ``java``, with the setting ``release``.
    """
    planned: dict[str, dict[str, tuple[Instance, ...]]] = {}
    findings: list[Finding] = []
    for host, of_host in services.items():
        variables = inventory.hosts[host]
        needs = [
            _needed(inventory, service, of_host[service], variables)
            for service in of_host
            if service in _JVMS and not _brings_its_own(service, variables)
        ]
        findings += _check(host, variables, needs)
        if needs:
            planned[host] = {SERVICE: (Instance("jdk", (_release(variables, needs),)),)}
    return Part(services=planned, findings=tuple(findings))


def _release(variables: Mapping[str, Any], needs: list[tuple[int, str, str]]) -> Setting:
    needed, what, source = max(needs)
    because = f"{what} starts on Java {needed} or later"
    if "java_version" in variables:
        release = str(variables["java_version"])
        return Setting("", "release", release, "host.java", because, "the inventory", by="person")
    if needed < DEFAULT:
        because += f"; {DEFAULT} is what the measurements were made on"
    return Setting("", "release", str(max(needed, DEFAULT)), "host.java", because, source)


def _check(host: str, variables: Mapping[str, Any], needs: list[tuple[int, str, str]]) -> Iterator[Finding]:
    release = variables.get("java_version", max((needed for needed, _, _ in needs), default=DEFAULT))
    if isinstance(release, bool) or not isinstance(release, int):
        quoted = isinstance(release, str) and release.isdecimal()
        fix = f"write {release} without quotes" if quoted else "write the number of a release, such as 17"
        yield wrong_variable("java_version", host, f"is {release!r}", fix)
        return
    for needed, what, source in needs:
        if release < needed:
            yield Finding(
                "error",
                "host.java",
                f"{host}: java_version",
                f"{what} starts on Java {needed} or later, and java_version is {release} ({source})",
                f"set java_version to {needed} for the host or take it out, and set java_packages where its "
                "system has others",
            )


def _brings_its_own(service: str, variables: Mapping[str, Any]) -> bool:
    return service == "kafka_rest" and variables.get("kafka_rest_distribution") == "mapr"


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
