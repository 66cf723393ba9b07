"""What an application was measured to sustain, held against its rate: used where it is of this one alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kedge.plan.findings import Finding
from kedge.plan.measured_capacity import Carriers, headroom, not_used, of_other_hosts
from kedge.services.host.variables import HostFacts
from kedge.services.streams.variables import ROLE, StreamsApp


def refused(spec: StreamsApp, facts: HostFacts) -> str | None:
    """Return why the measured capacity says nothing of a host; None where it does, or there is none."""
    measured = spec.measured_capacity
    if measured is None:
        return None
    was, planned = f"{measured.name} with {measured.version}", f"{spec.name} with {spec.version}"
    if why := of_other_hosts(measured, was, planned, facts.cores):
        return why
    if measured.instances_per_host != spec.instances_per_host:
        here = f"{spec.instances_per_host} are planned"
        return f"it is of {measured.instances_per_host} instances a host, and {here}"
    if measured.record_bytes != spec.record_bytes:
        return f"it is of {measured.record_bytes} bytes a record, not {spec.record_bytes}"
    return None


def application_headroom(
    name: str, hosts: Sequence[str], variables: Mapping[str, StreamsApp], facts: Mapping[str, HostFacts]
) -> Iterator[Finding]:
    """Say what an application's rate leaves of what was measured, or why that is not used."""
    spec = variables[hosts[0]]
    measured, where = spec.measured_capacity, f"application {name}"
    if measured is None:
        return
    if why := next(filter(None, (refused(variables[host], facts[host]) for host in hosts)), None):
        yield not_used(where, f"{ROLE}_measured_capacity", measured, why, rule="streams.capacity")
    elif spec.records_per_s:
        what = f"{measured.name} with {measured.version}, records of {measured.record_bytes} bytes"
        fix = f"add hosts, or lower {ROLE}_records_per_s to what they have to sustain"
        instances = [measured.instances_per_host] * len(hosts)
        carriers = Carriers(instances, instances)
        yield from headroom(where, measured, what, carriers, spec.records_per_s, fix, rule="streams.capacity")
