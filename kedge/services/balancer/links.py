"""What passes through a balancer, held against its host's link."""

from __future__ import annotations

import math
from collections.abc import Collection

from kedge.plan.hosts import Inventory
from kedge.plan.service import PlannedInstances
from kedge.plan.settings import MBIT, Sheet
from kedge.plan.variables import role_variables
from kedge.services.host.variables import host_facts
from kedge.services.rest.distribution import SERVICE as REST
from kedge.services.rest.traffic import BASE64, bytes_per_s, read_per_s
from kedge.services.rest.variables import KafkaRest


def check_link(
    sheet: Sheet, inventory: Inventory, host: str, rest: PlannedInstances, addresses: Collection[str]
) -> None:
    """Find requests and answers of all proxies that the link of a balancer does not sustain.

    Each byte comes in and goes out. Readers pass through it where ``rest``, the planned instances, send
    them to one of the planned balancers' ``addresses``; else they follow the URL of their instance.
    """
    facts = host_facts(host, inventory.hosts[host])
    if isinstance(facts, list) or facts.link_mbit_per_s is None:
        return
    link = facts.link_mbit_per_s
    certain, assumed = _passing(inventory, rest, addresses)
    most = (certain + assumed) * BASE64
    if most <= link * MBIT:
        return
    report = sheet.error if certain > link * MBIT else sheet.warning
    report(
        "balancer.link",
        f"its proxies take {certain / 1e6:.1f} MB/s of records through it"
        + (f", readers an assumed {assumed / 1e6:.1f}" if assumed else "")
        + f", {most / 1e6:.1f} as base64 in JSON, and host_link_mbit_per_s is {link}, {link * MBIT / 1e6:g} "
        "MB/s each way",
        f"use a link of {math.ceil(most / MBIT)} Mbit/s for it, or let clients reach the instances "
        "themselves",
    )


def _passing(inventory: Inventory, rest: PlannedInstances, addresses: Collection[str]) -> tuple[float, float]:
    """Return the bytes a second of records through the balancer, as the inventory says and as assumed."""
    hosts = inventory.group(REST)
    # What one host sustains while another is away.
    share = (len(hosts) - 1) / len(hosts) if len(hosts) > 1 else 1
    certain = assumed = 0.0
    for host in hosts:
        variables = role_variables(KafkaRest, REST, host, inventory.hosts[host])
        if isinstance(variables, list):
            continue
        workload = variables.workload
        certain += share * bytes_per_s(workload)
        told = {i.value("advertised.listeners").partition("://")[2] for i in rest.get(host, {}).get(REST, ())}
        # Strimzi's bridge has no such key: its consumers come back to the name that they asked for.
        if told & {*addresses} or (told <= {""} and variables.consumers_via == "balancer"):
            read = share * read_per_s(workload)
            certain, assumed = (
                (certain + read, assumed) if workload.reader_records_per_s else (certain, assumed + read)
            )
    return certain, assumed
