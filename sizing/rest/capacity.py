"""What hosts were measured to carry, in place of what others' hosts did: used where it is of these alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sizing.core.findings import Finding
from sizing.core.settings import Sheet
from sizing.host.variables import HostFacts
from sizing.rest.variables import KafkaRest, MeasuredCapacity


def refused(variables: KafkaRest, facts: HostFacts) -> str | None:
    """Return why the measured capacity says nothing of a host; None where it does, or there is none."""
    measured = variables.measured_capacity
    if measured is None:
        return None
    per_request = variables.workload.records_per_request
    here = f"{variables.distribution} {variables.version}"
    there = f"{measured.distribution} {measured.version}"
    if here != there:
        return f"it is of {there}, and {here} is planned"
    if facts.cores != measured.cores:
        return f"it is of hosts with {measured.cores} cores, and this one has {facts.cores}"
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
        sheet.warning(
            "rest.capacity",
            f"kafka_rest_measured_capacity of run {measured.run} is not used: {why}",
            "measure again with capacity.yml, or take it out",
        )
        return None
    if rate is None:
        return None
    # What the hosts carry together was measured with these instances; more of them is another configuration.
    return min(measured.instances_per_host, math.ceil(rate / each(measured)))


def each(measured: MeasuredCapacity) -> float:
    """Return the records/s of one instance."""
    return measured.records_per_s / (measured.hosts * measured.instances_per_host)


def headroom(hosts: Sequence[tuple[str, KafkaRest, HostFacts]]) -> Iterator[Finding]:
    """Say how much of what was measured the workload takes, healthy and with one host away.

    ``hosts`` are those with one configuration. An error where it does not suffice.
    """
    used = [one for one in hosts if one[1].measured_capacity and not refused(one[1], one[2])]
    if not used or len(used) < len(hosts):
        return
    measured = used[0][1].measured_capacity
    # The workload of a host is what it carries while another is away.
    others = max(1, len(used) - 1) / len(used)
    load = others * sum(variables.workload.records_per_s or 0 for _, variables, _ in used)
    assert measured is not None
    if not load:
        return
    where = f"{used[0][0] if len(used) == 1 else 'all'} kafka_rest"
    of_host = measured.records_per_s / measured.hosts
    healthy = of_host * len(used)
    away = of_host * (len(used) - 1)
    how = "what a host of it does"
    if len(used) == measured.hosts and measured.one_away_records_per_s is not None:
        away, how = measured.one_away_records_per_s, "as measured"
    for what, carried, because in (("healthy", healthy, ""), ("with one host away", away, f", {how}")):
        if what != "healthy" and len(used) == 1:
            continue
        said = (
            f"{what} {'at least ' if measured.at_least else ''}{carried:,.0f} records/s are carried (run "
            f"{measured.run} of {measured.date}, {measured.distribution} {measured.version}, "
            f"{measured.cores} cores{because}), and the workload is {load:,.0f}"
        )
        if load <= carried:
            share = f": {load / carried:.0%} of it, {carried - load:,.0f} are left"
            yield Finding("note", "rest.capacity", where, said + share, "nothing")
        else:
            fix = "add hosts, or lower kafka_rest_workload.records_per_s to what they are to carry"
            # What carries at least so much may carry more.
            yield Finding("warning" if measured.at_least else "error", "rest.capacity", where, said, fix)
