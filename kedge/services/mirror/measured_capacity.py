"""What a flow was measured to sustain, in place of a process a core: used where it is of this flow alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kedge.plan.findings import Finding
from kedge.plan.measured_capacity import Carriers, headroom, not_used, of_other_hosts, rate_of_one
from kedge.plan.placement import quotas
from kedge.services.host.variables import HostFacts
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
