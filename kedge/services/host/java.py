"""Rules for the Java of a host: one release, on which every service of the host starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.service import JavaNeed, PlannedInstances, Service
from kedge.plan.settings import Basis, Setting
from kedge.plan.variable_messages import wrong_variable

SERVICE: Final = "java"
#: What a host gets where no service asks for a later one and the inventory says nothing.
DEFAULT_JAVA: Final = 17


def plan_java(inventory: Inventory, planned_services: PlannedInstances, services: Iterable[Service]) -> Part:
    """Plan the release of each host that runs a JVM, and find ``java_version`` where a service needs a later.

    The plan of a host is one instance ``jdk`` of the service ``java``, with the setting ``release``.
    """
    planned: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    findings: list[Finding] = []
    needed_by = {service.name: service.java for service in services if service.java}
    for host, of_host in planned_services.items():
        variables = inventory.hosts[host]
        needs = [
            need
            for name, instances in of_host.items()
            if name in needed_by and (need := needed_by[name](inventory, variables, instances))
        ]
        findings += _check(host, variables, needs)
        if needs:
            planned[host] = {SERVICE: (PlannedInstance("jdk", (_release(variables, needs),)),)}
    return Part(services=planned, findings=tuple(findings))


def release_of(variables: Mapping[str, Any], default: int | None = DEFAULT_JAVA) -> int | None:
    """Return the release of Java that a host has by its variables."""
    release = variables.get("java_version")
    return release if isinstance(release, int) and not isinstance(release, bool) else default


def oldest_java(hosts: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the oldest release of hosts, None where some are before 9 and some are not."""
    releases = [release for variables in hosts if (release := release_of(variables)) is not None]
    return None if min(releases) < 9 <= max(releases) else min(releases)


def _release(variables: Mapping[str, Any], needs: list[JavaNeed]) -> Setting:
    needed, what, source = max(needs)
    because = f"{what} starts on Java {needed} or later"
    if "java_version" in variables:
        release = str(variables["java_version"])
        return Setting("", "release", release, "host.java", because, "the inventory", "yours")
    basis: Basis = "documented"
    if needed < DEFAULT_JAVA:
        basis = "derived"
        because += f"; {DEFAULT_JAVA} is what the measurements were made on"
    return Setting("", "release", str(max(needed, DEFAULT_JAVA)), "host.java", because, source, basis)


def _check(host: str, variables: Mapping[str, Any], needs: list[JavaNeed]) -> Iterator[Finding]:
    release = variables.get("java_version", max((needed for needed, _, _ in needs), default=DEFAULT_JAVA))
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
