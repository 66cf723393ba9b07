"""How many REST proxies a host gets: by its cores, the heap of each, and what they or others sustained."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kedge.plan.findings import Finding
from kedge.plan.measured_capacity import Carriers, headroom, not_used, of_other_hosts, rate_of_one
from kedge.plan.plan import PlannedInstance
from kedge.plan.settings import Advice, Sheet
from kedge.services.clients.fetches import Fetches
from kedge.services.host.variables import HostFacts
from kedge.services.rest.distribution import Distribution
from kedge.services.rest.heap import MOST_INSTANCES, heap_each, instances_for_heap
from kedge.services.rest.memory import HEAP_LIMIT_MIB
from kedge.services.rest.source_names import GUIDE, MEASURED, REAL
from kedge.services.rest.traffic import READER_RECORDS, Cost, readers_of
from kedge.services.rest.variables import KafkaRest, MeasuredCapacity, RestWorkload


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


#: Measurements, Conditions: a JVM that has just started does half.
_COLD: Final = 2
#: Measurements: the cores of one process.
_CORES_MEASURED: Final = 2
#: Measurements, Reading: what a reader of 100 records/s takes of a core, with fetch.min.bytes=1 and without.
_READER_AT_ONCE: Final = 0.23
_READER: Final = 0.07


def instance_count(
    sheet: Sheet,
    distribution: Distribution,
    variables: KafkaRest,
    facts: HostFacts,
    advice: Advice,
    fetched: Fetches,
    *,
    dedicated: bool,
) -> tuple[int, bool]:
    """Return the number of processes of a host, and whether their readers' fetches are bounded.

    From cores and load, then as many more as keep every heap within 8 GiB; a person's number stands, and is
    held against the same limits. ``fetched`` is how their consumers fetch.
    """
    given = variables.instances_per_host
    load = _from_load(sheet, distribution.cost, variables, facts)
    count = given or _from_cores(sheet, facts, advice, load, dedicated=dedicated)
    if variables.heap_mib is not None or distribution.jvm is None:
        return count, False
    connection = distribution.connection
    needed, small_fetch = instances_for_heap(variables, count, connection, fetched, advice)
    if needed > MOST_INSTANCES:
        sheet.error(
            "rest.heap.split",
            f"the workload of the host needs more than {MOST_INSTANCES} processes of {HEAP_LIMIT_MIB} MiB "
            "heap",
            "spread kafka_rest_workload over more hosts, or correct it",
        )
        return count, small_fetch
    if needed == count:
        return count, small_fetch
    one = heap_each(variables, count, connection, fetched, advice, small_fetch=small_fetch)
    if given:
        sheet.error(
            "rest.heap.split",
            f"kafka_rest_instances_per_host is {given}, and each of them would need {one} MiB of heap, above "
            f"{HEAP_LIMIT_MIB}; a process is split over more instances, never grown",
            f"set kafka_rest_instances_per_host to {needed} or more, or take it out",
        )
        return count, small_fetch
    sheet.note(
        "rest.heap.split",
        f"{needed} instances instead of {count}: {variables.workload.consumers} consumer instances and the "
        f"requests in flight on {count} would need {one} MiB of heap each, above {HEAP_LIMIT_MIB}",
        "to have fewer, spread the workload over more hosts",
    )
    return needed, small_fetch


def _from_cores(sheet: Sheet, facts: HostFacts, advice: Advice, load: int, *, dedicated: bool) -> int:
    if not dedicated:
        sheet.note(
            "rest.dedicated",
            "the host runs other services as well, so it gets one proxy; a dedicated host has the best "
            "performance (MapR article, Run the Proxy on dedicated server(s))",
            "give the proxies hosts of their own, or set kafka_rest_instances_per_host",
        )
        return load
    cores = max(2, facts.cores // 16)
    if advice == "measured" and facts.cores < 2 * _CORES_MEASURED:
        sheet.note(
            "rest.instances",
            f"one instance on {facts.cores} cores: with no core idle, two processes with half the heap each "
            f"did 0.63 of one ({REAL}, The advice on a fleet); MapR article, Cluster Architecture says two "
            "or more",
            "set kafka_rest_instances_per_host to 2 if one has to serve while the other restarts",
        )
        cores = 1
    return max(cores, load)


def produced_per_s(cost: Cost, workload: RestWorkload) -> int:
    """Return the records a second that a process carries on two cores, just started."""
    return max(1, int(_CORES_MEASURED / _COLD * 1e6 / cost.of_record_us(workload)))


def processes_with_cores(facts: HostFacts) -> int:
    """Return how many processes of a host have the cores with which one was measured."""
    return max(1, facts.cores // _CORES_MEASURED)


def _from_load(sheet: Sheet, cost: Cost, variables: KafkaRest, facts: HostFacts) -> int:
    """Return how many processes the produced records take, and find a host that has no room for them."""
    workload = variables.workload
    by_measurement = instances_for(sheet, variables, facts)
    if workload.records_per_s is None:
        return 1
    if by_measurement is not None:
        return by_measurement
    wanted = math.ceil(cost.cores(workload) * _COLD / _CORES_MEASURED)
    of_cores = processes_with_cores(facts)
    room = min(variables.instances_per_host or of_cores, of_cores)
    if wanted > room:
        larger = cost.request_us / workload.records_per_request > cost.of_record_us(workload) / 2
        given = f", and kafka_rest_instances_per_host is {room}" if room < of_cores else ""
        sheet.warning(
            "rest.load",
            f"{workload.records_per_s} records/s of {workload.record_bytes} bytes in requests of "
            f"{workload.records_per_request} ask for {wanted} processes of {_CORES_MEASURED} cores: "
            f"{cost.said(workload)}, {_COLD} times as many just after a start ({MEASURED}, Conditions); "
            f"{facts.cores} cores have room for {of_cores}{given}",
            f"spread the load over {math.ceil(wanted / room)} times as many hosts"
            + (", or send more records in a request" if larger else "")
            + (", or take kafka_rest_instances_per_host out" if given and wanted <= of_cores else "")
            + "; or measure what these hosts sustain with capacity.yml",
        )
    return min(wanted, room)


def _share(workload: RestWorkload, hosts: int) -> RestWorkload:
    """Return what one of so many hosts produces of a workload, in whole records a second."""
    return workload.model_copy(update={"records_per_s": math.ceil((workload.records_per_s or 0) / hosts)})


def check_cores(
    sheet: Sheet, cost: Cost, variables: KafkaRest, facts: HostFacts, instance: PlannedInstance
) -> None:
    """Find more readers and records than the cores serve.

    By what was measured at 100 records/s a reader, and for a read that ``instance`` answers with its first
    record. What these hosts were measured to produce counts in place of others' figures.
    """
    workload = variables.workload
    readers = readers_of(workload)
    at_once = instance.value("fetch.min.bytes") == "1"
    each = _READER_AT_ONCE if at_once else _READER
    own = variables.measured_capacity is not None and refused(variables, facts) is None
    produced = 0 if own else cost.cores(workload)
    needed = readers * each + produced
    if not readers or needed <= facts.cores:
        return
    what = "load" if produced else "readers"
    least = math.ceil(needed / facts.cores)

    def fits(hosts: int) -> bool:
        shared = 0 if own else cost.cores(_share(workload, hosts))
        return math.ceil(readers / hosts) * each + shared <= facts.cores

    # A host gets whole readers and records, so that its share may be more than the quotient. It falls with
    # each host; where one reader and one record are too much already, no number is enough.
    tried = range(least, max(least, readers, workload.records_per_s or 0) + 1)
    enough = bisect_left(tried, True, key=fits)
    times = tried[enough] if enough < len(tried) else least
    sheet.warning(
        "rest.cores.readers",
        f"{readers} readers, "
        + ("measured at" if workload.reader_records_per_s else "assumed to read")
        + f" {READER_RECORDS} records/s each, take {each} of a core each ({MEASURED}, Reading; what "
        "their bytes cost was not measured)"
        + (f", and {cost.said(workload)}" if produced else "")
        + f": {needed:.1f} cores, and host_cores is {facts.cores}; a proxy with many consumers needs "
        f"more cores ({GUIDE}, CPUs)",
        f"spread the {what} over {times} times as many hosts"
        + (
            f", or let them wait longer (kafka_rest_workload.delivery_latency_ms): {_READER} of a core each"
            if at_once and readers * _READER + produced <= facts.cores
            else ""
        ),
    )
