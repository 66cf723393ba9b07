"""Memory of a host, held against what the units of its services may take together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kedge.plan.findings import Finding, Subject
from kedge.plan.hosts import Inventory
from kedge.plan.plan import PlannedInstance
from kedge.plan.service import PlannedInstances, Service
from kedge.services.host.variables import host_facts

SYSTEM_MIB: Final = 512  # the system itself, with its page cache


def room(
    inventory: Inventory, planned_services: PlannedInstances, services: Iterable[Service]
) -> list[Finding]:
    """Find hosts whose services together may take more memory than the host has."""
    variables = {service.name: service.memory for service in services if service.memory}
    found = []
    for host, of_host in planned_services.items():
        facts = host_facts(host, inventory.hosts[host])
        needs = {
            service: [mib for instance in instances if (mib := needed_mib(instance))]
            for service, instances in of_host.items()
        }
        total = sum(map(sum, needs.values()))
        parts = ", ".join(
            f"{service} {len(each)} x {max(each)} MiB" for service, each in needs.items() if each
        )
        if isinstance(facts, list):
            # A wrong size has a finding of its own.
            if total and "host_memory_mib" not in inventory.hosts[host]:
                what = "host_memory_mib is not set: nothing compares with it what the services of the host"
                unset = Subject("host_memory_mib", host=host)
                found.append(Finding("note", "host.memory", f"{host}: host_memory_mib",
                                     f"{what} may take, {total} MiB: {parts}",
                                     "set host_memory_mib and host_cores", unset))  # fmt: skip
        elif total > facts.memory_mib:
            found.append(
                Finding(
                    "error",
                    "host.memory",
                    f"{host}: host_memory_mib",
                    f"host_memory_mib is {facts.memory_mib}, and the services of the host may take {total} "
                    f"MiB: {parts}",
                    "move a service to another host, plan fewer instances or a smaller workload, "
                    + "".join(
                        f"set a smaller {variables[service]}, " for service in needs if service in variables
                    )
                    + "or correct host_memory_mib",
                    Subject("host_memory_mib", host=host),
                )
            )
        elif total > facts.memory_mib - SYSTEM_MIB:
            found.append(
                Finding(
                    "warning",
                    "host.memory",
                    f"{host}: host_memory_mib",
                    f"the services of the host may take {total} of its {facts.memory_mib} MiB ({parts}), "
                    f"which leaves less than {SYSTEM_MIB} to the system and its page cache",
                    "plan fewer instances or a smaller workload, or give the host more memory",
                    Subject("host_memory_mib", host=host),
                )
            )
    return found


def needed_mib(instance: PlannedInstance) -> int:
    """Return the memory that the unit of an instance may take, in MiB; 0 when the plan sets it no limit."""
    value = instance.value("MemoryMax") or instance.value("MemoryLow")
    match = re.fullmatch(r"(\d+)([KMGT]?)", value)
    if match is None:
        return 0
    scale = {"": 1 / 1024 / 1024, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
    return int(int(match[1]) * scale[match[2]])
