"""What proxies were measured to sustain, in place of what others' did: used where it is of these alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kedge.plan.findings import Finding
from kedge.plan.measured_capacity import Carriers, headroom, not_used, of_other_hosts, rate_of_one
from kedge.plan.settings import Sheet
from kedge.services.host.variables import HostFacts
from kedge.services.rest.variables import KafkaRest, MeasuredCapacity


def refused(variables: KafkaRest, facts: HostFacts) -> str | None:
    """Return why the measured capacity says nothing of a host; None where it does, or there is none."""
    measured = variables.measured_capacity
    if measured is None:
        return None
    per_request = variables.workload.records_per_request
    was = f"{measured.distribution} {measured.version}"
    if why := of_other_hosts(measured, was, f"{variables.distribution} {variables.version}", facts.cores):
        return why
    if per_request != measured.records_per_request:
        return (
            f"it is of {measured.records_per_request} records a request, and the workload has {per_request}"
        )
    if variables.workload.record_bytes != measured.record_bytes:
        return f"it is of {measured.record_bytes} bytes a record, not {variables.workload.record_bytes}"
    return None


def instances_for(sheet: Sheet, variables: KafkaRest, facts: HostFacts) -> int | None:
    """Return how many instances the load of a host takes by measurement; None where none is of this host."""
    measured, rate = variables.measured_capacity, variables.workload.records_per_s
    if measured is None:
        return None
    if why := refused(variables, facts):
        name = "kafka_rest_measured_capacity"
        sheet.findings.append(not_used(sheet.where, name, measured, why, rule="rest.capacity"))
        return None
    if rate is None:
        return None
    # What the hosts carry together was measured with these instances; more of them is another configuration.
    most, one = measured.instances_per_host, each(measured)
    return min(most, math.ceil(rate / one)) if one else most


def each(measured: MeasuredCapacity) -> float:
    """Return the records/s of one instance, also while a host is away."""
    of_hosts = measured.instances_per_host
    return rate_of_one(measured, measured.hosts * of_hosts, (measured.hosts - 1) * of_hosts)


def rest_headroom(
    hosts: Sequence[tuple[str, KafkaRest, HostFacts]], instances: Mapping[str, int]
) -> Iterator[Finding]:
    """Say what the workload of hosts with one configuration leaves of what was measured.

    ``instances`` are those that are planned, by host.
    """
    used = [one for one in hosts if one[1].measured_capacity and not refused(one[1], one[2])]
    if not used or len(used) < len(hosts):
        return
    measured = used[0][1].measured_capacity
    assert measured is not None
    # The workload of a host is what it carries while another is away.
    others = max(1, len(used) - 1) / len(used)
    load = others * sum(variables.workload.records_per_s or 0 for _, variables, _ in used)
    if load:
        yield from headroom(
            f"{used[0][0] if len(used) == 1 else 'all'} kafka_rest",
            measured,
            f"{measured.distribution} {measured.version}",
            Carriers([instances[host] for host, _, _ in used], [measured.instances_per_host] * len(used)),
            load,
            "add hosts or instances, or lower kafka_rest_workload.records_per_s to what they have to sustain",
            rule="rest.capacity",
        )
