"""Rules for rollouts: what an instance waits for, how many are away at once, and which go together."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.plan import Part, RestartBatches
from kedge.plan.service import ROOM_PERCENT, Away, OfHosts, Service
from kedge.plan.service import PlannedInstances as Services
from kedge.plan.settings import Basis, Setting
from kedge.plan.variable_messages import wrong_variable
from kedge.plan.variables import Count, DefaultRule, Positive, Strict, read_model
from kedge.services.host.variables import host_facts

VARIABLE: Final = "rollout"
RACK: Final = "rack"
_OURS: Final = "REST proxy measurements, Groups and restarts"
_STARTS: Final = "Real proxy measurements, How long a start takes"
#: One computes while another waits.
STARTS_PER_CORE: Final = 2
_SHARE: Final = r"^([1-9]\d?|100)%$"


class Rollout(Strict):
    """How the instances of a service are restarted."""

    at_once: Literal["auto"] | Positive | Annotated[str, Field(pattern=_SHARE, examples=["10%"])] = 1
    """How many instances may be unavailable together; `auto`: as many as the plan allows."""
    first: Annotated[Count | None, DefaultRule("rollout.first")] = None
    """Number of canary instances, which restart first, one at a time."""
    room_percent: Count = ROOM_PERCENT
    """Load beyond its share that an instance may get while others are unavailable."""
    hold_seconds: Positive = 30
    """How long canary instances are observed before others follow (soak)."""
    worse_percent: Positive = 100
    """How much slower than unchanged instances the canary instances may answer."""


def plan_rollouts(inventory: Inventory, planned_services: Services, services: Iterable[Service]) -> Part:
    """Plan what a deploy or a rolling restart of each service waits for, and which instances go together."""
    waiting = [service for service in services if service.waits]
    found: dict[str, dict[str, tuple[Setting, ...]]] = {}
    for host, of_host in planned_services.items():
        for service in waiting:
            if service.name in of_host:
                planned = (*_waits(service, inventory.hosts[host]), _start(host, inventory.hosts[host]))
                drain = service.drain(planned_services) if service.drain else ()
                found.setdefault(host, {})[service.name] = planned + drain
    together: dict[str, RestartBatches] = {}
    findings: list[Finding] = []
    for service in waiting:
        of_hosts = {h: of[service.name] for h, of in planned_services.items() if service.name in of}
        if of_hosts:
            together[service.name], said = _restart_batches(inventory, service, of_hosts)
            findings += said
    return Part(rollouts=found, restart_batches=together, findings=tuple(findings))


def ahead(hosts: Sequence[str], instances: Mapping[str, int], first: int) -> dict[str, int]:
    """Return how many instances of each host go first: those of the first hosts, ``first`` in all."""
    found: dict[str, int] = {}
    for host in hosts:
        if first <= 0:
            break
        found[host] = min(first, instances[host])
        first -= instances[host]
    return found


def batches(
    instances: Mapping[str, int], gone: Mapping[str, int], racks: Mapping[str, str], at_once: int
) -> tuple[tuple[str, ...], ...]:
    """Return which hosts restart together, an instance each at a time, one batch after another.

    ``instances`` are those of each host, of which some are ``gone`` first. No two hosts of a batch have the
    same of ``racks``; the largest rack comes first, which makes the fewest batches. It takes time in
    proportion to the hosts.
    """
    together: dict[str, list[str]] = {}
    for host, number in instances.items():
        if number > gone.get(host, 0):
            together.setdefault(f"rack {racks[host]}" if host in racks else f"host {host}", []).append(host)
    # By how many are left, then by the order of the hosts.
    heap = [(-len(members), place, members[::-1]) for place, members in enumerate(together.values())]
    heapq.heapify(heap)
    found = []
    while heap:
        taken = [heapq.heappop(heap) for _ in range(min(at_once, len(heap)))]
        found.append(tuple(members.pop() for _, _, members in taken))
        for left, place, members in taken:
            if members:
                heapq.heappush(heap, (left + 1, place, members))
    return tuple(found)


def _restart_batches(
    inventory: Inventory, service: Service, of_hosts: OfHosts
) -> tuple[RestartBatches, list[Finding]]:
    given, findings = _given(inventory, service.name, of_hosts)
    racks = {host: str(rack) for host in of_hosts if (rack := inventory.hosts[host].get(RACK))}
    number = {host: len(of_host) for host, of_host in of_hosts.items()}
    away = _bounded(service.away(inventory, of_hosts, given.room_percent), of_hosts, racks)
    instances = sum(number.values())
    at_once, too_many = _at_once(given, instances, away)
    if too_many:
        findings.append(
            Finding(
                "warning",
                "rollout.at_once",
                f"{service.name}: {VARIABLE}.at_once",
                f"{given.at_once} are wanted together, and at most {away.most} may be unavailable: "
                f"{away.because}",
                f"write {away.most} or auto, spread the workload over more hosts, or say how much more an "
                f"instance sustains ({VARIABLE}.room_percent)",
            )
        )
    first = given.first if given.first is not None else int(int(at_once.value) > 1)
    first = 0 if away.always or instances == 1 else first
    settings = (at_once, *_first(given, first, instances))
    gone = ahead(list(of_hosts), number, first)
    found = batches(number, gone, racks, int(at_once.value))
    return RestartBatches(settings, gone, found, racks), findings


def _bounded(away: Away, of_hosts: OfHosts, racks: Mapping[str, str]) -> Away:
    """Return how many may be away, one at least, and never two of one host or of one rack."""
    apart = len({racks.get(host, f"host {host}") for host in of_hosts})
    if apart < away.most:
        what = "racks" if racks else "hosts"
        return Away(
            apart,
            f"there are {apart} {what}, and no two instances of one are unavailable together",
            _OURS,
            "derived",
        )
    return away._replace(most=max(1, away.most))


def _at_once(given: Rollout, instances: int, away: Away) -> tuple[Setting, bool]:
    """Return how many instances are away at once, and whether more are wanted than the plan allows."""

    def setting(number: int, because: str, source: str, basis: Basis) -> Setting:
        return Setting("", "at_once", str(number), "rollout.at_once", because, source, basis)

    if away.always:
        return setting(1, f"one at a time: {away.because}", away.source, away.basis), False
    if given.at_once == "auto":
        because = f"as many as the plan allows: {away.because}"
        return setting(away.most, because, away.source, away.basis), False
    if isinstance(given.at_once, int):
        wanted = given.at_once
    else:
        wanted = max(1, math.floor(instances * int(given.at_once[:-1]) / 100))
    if wanted > away.most:
        because = f"{given.at_once} are wanted, and the plan allows no more: {away.because}"
        return setting(away.most, because, away.source, away.basis), True
    if given.at_once == Rollout.model_fields["at_once"].default:
        because = f"one at a time unless the inventory asks for more ({VARIABLE}.at_once)"
        return setting(wanted, because, _OURS, "derived"), False
    because = "set in the inventory, and within what the plan allows"
    return setting(wanted, because, "the inventory", "yours"), False


def _first(given: Rollout, first: int, instances: int) -> Iterator[Setting]:
    def setting(key: str, value: int, because: str) -> Setting:
        own = getattr(given, key) != Rollout.model_fields[key].default
        basis: Basis = "yours" if own else "derived" if key == "first" else "estimate"
        source = "the inventory" if own else _OURS
        return Setting("", key, str(value), "rollout.first", because, source, basis)

    if not first:
        yield setting("first", 0, "there is no canary instance (rollout.first)")
        return
    why = f"{first} of {instances} instances have to hold their levels before the others follow"
    yield setting("first", first, why)
    why = "so long groups have to be stable, and answers as good as those of instances not yet changed"
    yield setting("hold_seconds", given.hold_seconds, why)
    why = f"what answers more than {given.worse_percent} percent slower goes back to its former release"
    yield setting("worse_percent", given.worse_percent, why)


def _given(inventory: Inventory, service: str, of_hosts: OfHosts) -> tuple[Rollout, list[Finding]]:
    """Return what the inventory says of a service's rollouts, alike for all its hosts, and what is wrong."""
    hosts = list(of_hosts)
    said = [inventory.hosts[host].get(VARIABLE) for host in hosts]
    other = next((host for host, one in zip(hosts, said, strict=True) if one != said[0]), None)
    if other is not None:
        fix = f"set it once, in group_vars/{service}"
        wrong = wrong_variable(VARIABLE, other, f"is not what it is on {hosts[0]}", fix)
        return Rollout(), [wrong]
    if VARIABLE not in inventory.hosts[hosts[0]]:
        return Rollout(), []
    read = read_model(Rollout, said[0], f"{VARIABLE}.", service)
    return (Rollout(), read) if isinstance(read, list) else (read, [])


def _start(host: str, variables: Mapping[str, Any]) -> Setting:
    """Return how many instances of a host start side by side."""
    facts = host_facts(host, variables)
    cores = 1 if isinstance(facts, list) else facts.cores
    because = (
        f"{STARTS_PER_CORE} for each of {cores} cores: a start keeps a core busy for seconds, then waits "
        "for the cluster. All 40 of a host with two cores together took 45 to 75 s each"
    )
    return Setting(
        "", "start_at_once", str(STARTS_PER_CORE * cores), "rollout.start", because, _STARTS, "estimate"
    )


def _waits(service: Service, variables: Mapping[str, Any]) -> Iterable[Setting]:
    assert service.variables is not None, f"{service.name} waits, and no variable says how long"
    for key, rule, because, source, basis in service.waits:
        own = variables.get(f"{service.name}_{key}")
        default = service.variables.model_fields[key].default
        if own is None or own == default:
            yield Setting("", key, str(default), rule, because, source, basis)
        else:
            why = f"set in the inventory; the plan would have said {default}: {because}"
            yield Setting("", key, str(own), rule, why, "the inventory", "yours")
