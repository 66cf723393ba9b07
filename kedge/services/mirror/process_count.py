"""How many processes carry a flow, by cores and round trip or by what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kedge.plan.findings import Finding
from kedge.plan.measured_capacity import Carriers, headroom, not_used, of_other_hosts, rate_of_one
from kedge.plan.placement import quotas
from kedge.plan.settings import Sheet
from kedge.services.clients.fetches import PARTITION_FETCH
from kedge.services.host.variables import HostFacts
from kedge.services.mirror.clients import batch_bytes
from kedge.services.mirror.flow import ARTICLE, BENCH, MEASURED, Flow
from kedge.services.mirror.variables import ROLE, MeasuredFlow, MirrorFlow, MirrorMaker


def check_flow(role: MirrorMaker, flows: Mapping[str, MirrorFlow]) -> Iterator[Finding]:
    """Complain of a measurement of a flow that is not there."""
    measured = role.measured_capacity
    if measured is not None and measured.flow not in flows:
        why = f"it is of flow {measured.flow}, and there are {', '.join(flows)}"
        yield not_used(ROLE, f"{ROLE}_measured_capacity", measured, why, rule="mirror.capacity")


def capacity_of(
    role: MirrorMaker, name: str, hosts: Sequence[str], facts: Mapping[str, HostFacts]
) -> tuple[MeasuredFlow | None, list[Finding]]:
    """Return what was measured of a flow, or the reason why that is not used."""
    measured = role.measured_capacity
    if measured is None or measured.flow != name:
        return None, []
    was, planned = f"{measured.kind} {measured.version}", f"{role.kind} {role.version}"
    refusals = (of_other_hosts(measured, was, planned, facts[host].cores) for host in hosts)
    if why := next(filter(None, refusals), None):
        variable = f"{ROLE}_measured_capacity"
        return None, [not_used(f"flow {name}", variable, measured, why, rule="mirror.capacity")]
    return measured, []


def processes_for(measured: MeasuredFlow, flow: MirrorFlow, hosts: int) -> int:
    """Return how many processes carry a flow's rate by measurement, also while the fullest host is away.

    Without a rate it is as many as were measured on so many hosts, and never more: that would be another
    configuration.
    """
    most = _measured_on(measured, hosts)
    load = load_of(measured, flow)
    if not load:
        return most
    left = measured.processes - math.ceil(measured.processes / measured.hosts)
    each = rate_of_one(measured, measured.processes, left)
    stay = (n - (math.ceil(n / hosts) if hosts > 1 else 0) for n in range(1, most + 1))
    return next((n for n, left in enumerate(stay, 1) if left * each >= load), most)


def _measured_on(measured: MeasuredFlow, hosts: int) -> int:
    return math.ceil(measured.processes * hosts / measured.hosts)


def load_of(measured: MeasuredFlow, flow: MirrorFlow) -> float:
    """Return a flow's rate in records/s of the size that was measured; 0 where nobody says what it is."""
    return (flow.mb_per_s or 0) * 1e6 / measured.record_bytes


def flow_headroom(
    measured: MeasuredFlow, name: str, flow: MirrorFlow, hosts: Sequence[str], count: int
) -> Iterator[Finding]:
    """Say what a flow's rate leaves of what was measured; ``count`` processes are planned on these hosts."""
    if load := load_of(measured, flow):
        what = f"{measured.kind} {measured.version}, records of {measured.record_bytes} bytes"
        fix = f"add hosts or processes, or lower mirror_maker_flows.{name}.mb_per_s to what is sustained"
        planned, were = (
            list(quotas(number, hosts).values()) for number in (count, _measured_on(measured, len(hosts)))
        )
        carriers = Carriers(planned, were)
        yield from headroom(f"flow {name}", measured, what, carriers, load, fix, rule="mirror.capacity")


_SHOWN: Final = 8
#: lab/bench/mirror: 435,224 records/s of 104.8 bytes on two cores, with both clusters on them.
_MB_A_CORE: Final = 22.8
_PARALLEL: Final = f"{ARTICLE}, Increase parallelism"


def process_count(
    sheet: Sheet,
    flow: Flow,
    hosts: list[str],
    facts: Mapping[str, HostFacts],
    variables: Mapping[str, MirrorMaker],
    kind: str,
    brokers: int,
    here: MeasuredFlow | None,
) -> int:
    """Return how many processes carry a flow over all its hosts; ``here`` is what these were measured to."""
    spec, name, largest = flow.flow, flow.name, flow.limits.largest
    needed = _needed(sheet, flow, brokers)
    of_hosts = [max(1, facts[h].cores // len(variables[h].flows)) for h in hosts]
    cores = sum(of_hosts)
    if here is None:
        _check_cores(sheet, flow, sorted(of_hosts, reverse=True))
    if spec.processes is None and kind == "mirror_maker_2":
        return len(hosts)
    carrying = max(processes_for(here, spec, len(hosts)) if here else cores, needed)
    measured = min(largest, max(len(hosts), carrying))
    count = spec.processes or (measured if flow.advice == "measured" else largest)
    each = list(quotas(count, hosts).values())
    spread = ", ".join(map(str, each)) if len(each) <= _SHOWN else f"{min(each)} to {max(each)} each"
    if spec.processes is None and count != largest:
        because = (
            f"its hosts have {cores} cores for it, and more processes than cores brought nothing once "
            f"batches were full; {MEASURED}"
        )
        if here is not None:
            because = (
                f"{here.processes} carried {here.records_per_s:,} records/s in run {here.run} of {here.date}"
            )
        sheet.note(
            "mirror.processes",
            f"flow {name} has {count} processes by measurement ({because}) where {_PARALLEL} says {largest}, "
            "the partitions of the largest topic",
            f"set advice: documented to follow the document, or mirror_maker_flows.{name}.processes",
        )
    elif spec.processes is None:
        sheet.note(
            "mirror.processes",
            f"flow {name} has {count} processes, as many as its largest topic has partitions, on "
            f"{len(hosts)} hosts: {spread} ({_PARALLEL})",
            "",
        )
    if count > largest:
        sheet.warning(
            "mirror.processes",
            f"mirror_maker_flows.{name}.processes is {count}, and the largest topic has {largest} "
            f"partitions: {count - largest} processes would idle",
            f"set it to {largest} or less",
        )
    if count < len(hosts):
        sheet.note(
            "mirror.processes",
            f"flow {name} has {count} processes for {len(hosts)} hosts: {len(hosts) - count} run none",
            "take hosts out, or give its largest topic more partitions"
            if largest < len(hosts)
            else f"set mirror_maker_flows.{name}.processes to {len(hosts)}, or take hosts out",
        )
    return count


def _check_cores(sheet: Sheet, flow: Flow, of_hosts: list[int]) -> None:
    """Find a flow whose compression takes more cores than its hosts have, by what two of them did.

    Useful processes, and tasks, are no more than partitions: of more hosts some have nothing of the flow.
    """
    wanted = (flow.flow.mb_per_s or 0) / _MB_A_CORE
    most = min(flow.limits.largest, flow.flow.processes or flow.limits.largest)
    cores = sum(of_hosts[:most])
    times = math.ceil(wanted / cores)
    who = f"the {most} of its hosts that can run it have" if most < len(of_hosts) else "its hosts have"
    what = "cores or hosts" if times * len(of_hosts) <= most else "cores"
    if wanted > cores:
        sheet.warning(
            "mirror.cores",
            f"flow {flow.name} has {flow.flow.mb_per_s:g} MB/s before compression, which takes about "
            f"{wanted:.0f} cores at {_MB_A_CORE:g} MB/s each; {who} {cores}. Two cores, shared with "
            f"the clusters, did 45.6 MB/s of metrics and 54 of logs ({BENCH})",
            f"use {times} times as many {what}, or measure with capacity.yml what these sustain",
        )


def _needed(sheet: Sheet, flow: Flow, brokers: int) -> int:
    """Return how many producers the flow's rate needs over its round trip; 0 where nothing says so.

    What is on its way at a time bounds what a round trip carries. A producer has one request on its way to
    each broker (max.in.flight.requests.per.connection is 1): that of a classic process with batches of all
    partitions, that of a task of MirrorMaker 2 with those that the task reads. Mirrors near the target
    (``pull``) have fetches on their way, and produce without the round trip.
    """
    spec, limits, batch = flow.flow, flow.limits, batch_bytes(flow)
    if not spec.mb_per_s or not spec.round_trip_ms:
        return 0
    # A worker of MirrorMaker 2 has a producer for each of its tasks, however many workers there are.
    asked = spec.processes if flow.classic else None
    carrying = min(asked or limits.largest, limits.largest)
    if spec.direction == "pull":
        fetched = flow.fetches.held(limits.written, carrying)
        _check_round_trip(
            sheet,
            flow,
            fetched,
            f"fetches of {fetched} bytes on the way at a time, {flow.fetches.said(limits.written, carrying)}",
            f"raise {PARTITION_FETCH} of its consumers, or use a topic of more partitions",
        )
        return 0
    partitions = limits.written if flow.classic else math.ceil(limits.written / limits.largest)
    reached = min(brokers, partitions)
    batches = math.ceil(partitions / reached)
    request = min(limits.message_bytes, batches * batch)
    each = reached * request
    times = spec.mb_per_s * 1e6 * spec.round_trip_ms / 1000 / each
    wanted = math.ceil(batch * times / carrying)
    ratio = math.ceil(1000 * wanted / limits.message_bytes) / 1000
    to_ratio = f"{sheet.name(f'{flow.variable}.max_compression_ratio')} to {ratio:g}"
    if batches * wanted > limits.message_bytes:
        larger = ""
    elif "batch.size" in spec.producer_settings:
        more = f" and {to_ratio}, if records compress so far" if ratio > spec.max_compression_ratio else ""
        larger = f"set batch.size to {wanted}{sheet.either(f' in producer_settings{more}', '')}, "
    else:
        larger = f"set {to_ratio} if records compress so far (batch.size is {wanted} then), "
    needed = math.ceil(times)
    whose = f"{carrying} processes, each" if flow.classic else f"{carrying} tasks, each"
    processes = f"{needed} processes and " if flow.classic else ""
    _check_round_trip(
        sheet,
        flow,
        carrying * each,
        f"{carrying * each} bytes on the way at a time: {whose} with a request of {request} bytes, {batches} "
        f"x batch.size at most, to {reached} of the brokers",
        f"{larger}use {processes}a topic of {needed} partitions, or direction pull",
    )
    return needed


def _check_round_trip(sheet: Sheet, flow: Flow, on_the_way: int, said: str, fix: str) -> None:
    """Find a flow that has more to carry in a round trip than is on its way at a time."""
    spec = flow.flow
    carried = on_the_way / (spec.round_trip_ms / 1000) / 1e6
    wanted = spec.mb_per_s or 0
    if wanted > carried:
        sheet.warning(
            "mirror.round_trip",
            f"flow {flow.name} has {wanted:g} MB/s before compression, and {said}. Every "
            f"{spec.round_trip_ms:g} ms that is {float(f'{carried:.2g}'):g} MB/s: enough only if the "
            f"records compress {wanted / carried:.1f} times",
            fix,
        )
