"""Plans each host: kernel settings for what runs on it, its ports, room for all of it in its memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.service import PlannedInstances, Service
from kedge.plan.settings import Advice, Choice, Sheet
from kedge.plan.variables import role_variables
from kedge.services.host.kernel import (
    FACTS,
    LIMITS,
    SYSCTL,
    bandwidth_delays,
    port_ranges,
    put_buffers,
    put_high_load,
    take_own,
)
from kedge.services.host.memory import room
from kedge.services.host.ports import ports_of
from kedge.services.host.variables import HostTuning

SERVICE: Final = "host_tuning"


def plan_hosts(
    inventory: Inventory, planned_services: PlannedInstances, services: Sequence[Service], advice: Advice
) -> Part:
    """Plan the kernel of every host that has a service or makes load.

    A wanted value is never meant to lower what the host has: the role sets ``effective(key, now, wanted)``.
    """
    busy = {host for service in services if service.many_connections for host in service.hosts(inventory)}
    links = bandwidth_delays(inventory, services)
    planned: dict[str, dict[str, tuple[PlannedInstance, ...]]] = {}
    findings: list[Finding] = []
    without_instances = {
        host
        for service in services
        if service.plan is None and not service.everywhere
        for host in service.hosts(inventory)
    }
    single = {service.name: service.kernel_of(inventory) for service in services}
    for host in sorted({*planned_services, *without_instances}):
        variables = role_variables(HostTuning, SERVICE, host, inventory.hosts[host])
        if isinstance(variables, list):
            findings += variables
            continue
        of_host = planned_services.get(host, {})
        sheet = Sheet(f"{host} {SERVICE}", advice, variables.settings, f"{SERVICE}_settings")
        put_buffers(sheet, links.get(host), busy=host in busy)
        if host in busy:
            put_high_load(sheet)
        for service in services:
            if service.name in of_host or (service.plan is None and host in service.hosts(inventory)):
                for need in (*service.kernel, *single[service.name].get(host, ())):
                    sheet.put(LIMITS if need.limit else SYSCTL, need.key, need.rule, need.choice)
        ports = ports_of(of_host, services)
        if ports and (host in busy or host in links):
            sheet.put(
                SYSCTL,
                "net.ipv4.ip_local_reserved_ports",
                "host.ports",
                Choice(
                    port_ranges(ports),
                    "the ports of this host's services: the kernel gives them to no outgoing connection",
                    FACTS,
                    "derived",
                ),
            )
        findings += take_own(sheet, host)
        findings += sheet.findings
        if sheet.settings:
            planned[host] = {SERVICE: (PlannedInstance("host", sheet.by_file()),)}
    findings += room(inventory, planned_services, services)
    return Part(services=planned, findings=tuple(findings))
