"""The steps of a deploy, from what runs to what is planned, in their order. Pure: states in, steps out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kedge.plan.compact_names import fold
from kedge.plan.service import Do, Service
from kedge.services.registry import SERVICES

#: What is done to an instance by its state, as ``kedge.deploy.drift.describe`` names states.
_STARTED: Final = frozenset({"new", "off", "stopped"})
_RESTARTED: Final = frozenset({"differs", "edited", "older"})
_ADOPTED: Final = frozenset({"adopt"})
_SAID: Final[Mapping[Do, str]] = {
    "start": "start",
    "drain": "drain at the balancers",
    "stop": "stop for good",
    "adopt": "take over from what runs there, behind the gates, one at a time or in the plan's batches",
    "restart": "restart behind the gates, one at a time or in the plan's batches",
    "reload": "reload",
    "serve both": "reload with a health check that former and new proxies pass",
    "serve planned": "reload with the planned health check",
}
_RECORDS: Final = {service.name: service for service in SERVICES}
#: Steps that have an instance run what is planned, or of a balancer all of it but the health check.
_RUNS_PLANNED: Final = frozenset({"start", "adopt", "restart", "reload", "serve both"})


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done to one instance."""

    do: Do
    host: str
    service: str
    instance: str


#: Host -> service -> ``instances`` (name -> ``state``) and ``stale`` (names), as ``kedge.deploy.drift`` says.
States = Mapping[str, Mapping[str, Mapping[str, Any]]]


def steps(states: States, order: Mapping[str, Sequence[str]] | None = None) -> list[Step]:
    """Return the steps of a deploy in the order in which it takes them.

    ``order`` has the hosts of a service in the order of its restarts; else they come as in ``states``.
    """
    found = _Found(states, order or {})
    fronts = {service.after: service.name for service in SERVICES if service.after}
    done: list[Step] = []
    for service in sorted(SERVICES, key=lambda one: not one.last):
        if service.name in fronts:
            done += _behind(found, service.name, fronts[service.name])
        elif not service.after:
            done += _by_itself(found, service)
    return done


def _by_itself(found: _Found, service: Service) -> Iterator[Step]:
    ways: tuple[Do, ...] = ("stop", "start") if service.alone else ("start", "stop")
    for way in ("adopt", *ways, "restart"):
        if not (service.last and way == "stop"):
            yield from found.each(way, service.name)


def _behind(found: _Found, service: str, front: str) -> Iterator[Step]:
    """Yield the steps of a service with balancers in front: they serve old and new until all have changed."""
    yield from found.each("start", service)
    restarts = [*found.each("adopt", service), *found.each("restart", service)]
    if found.has(front):
        yield from found.each("drain", service)
    started, changed = (list(found.each(do, front)) for do in ("start", "restart"))
    between: Do = "serve both" if restarts else "reload"
    yield from started
    yield from (Step(between, s.host, s.service, s.instance) for s in changed)
    yield from found.each("stop", service)
    yield from restarts
    # One that is started while proxies change serves both from its start.
    if restarts:
        yield from (Step("serve planned", s.host, s.service, s.instance) for s in (*started, *changed))


@dataclass(frozen=True, slots=True)
class _Found:
    states: States
    order: Mapping[str, Sequence[str]]

    def has(self, service: str) -> bool:
        return any(service in of_host for of_host in self.states.values())

    def each(self, do: Do, service: str) -> Iterator[Step]:
        rank = {host: place for place, host in enumerate(self.order.get(service, ()))}
        hosts = sorted(self.states, key=lambda host: rank.get(host, len(rank)))
        for host in hosts:
            about = self.states[host].get(service, {})
            yield from (Step(do, host, service, name) for name in _names(do, about))


def _names(do: Do, about: Mapping[str, Any]) -> Iterable[str]:
    if do in ("drain", "stop"):
        return list(about.get("stale", ()))
    wanted = {"start": _STARTED, "adopt": _ADOPTED}.get(do, _RESTARTED)
    return [name for name, one in about.get("instances", {}).items() if one["state"] in wanted]


def step_lines(done: Sequence[Step], noticed: Mapping[tuple[str, str, str], str] | None = None) -> list[str]:
    """Return the steps as a person reads them: what is done alike in a row is a line.

    Below it stands what clients notice of it: always, and by ``noticed`` (host, service, instance).
    """
    lines: list[str] = []
    number = 0
    together: list[Step] = []
    for step in [*done, None]:
        if together and (step is None or (step.do, step.service) != (together[0].do, together[0].service)):
            hosts: dict[str, list[str]] = {}
            for one in together:
                hosts.setdefault(one.host, []).append(one.instance)
            where = "; ".join(f"{host} {fold(names)}" for host, names in hosts.items())
            number += 1
            do, service = together[0].do, _RECORDS[together[0].service]
            said = (service.taking_over if do == "adopt" else "") or _SAID[do]
            lines.append(f"{number}. {service.name}: {said}: {where}")
            lines += [f"   clients notice: {said}" for said in _noticed(together, noticed or {})]
            together = []
        if step is not None:
            together.append(step)
    return lines


def _noticed(together: Sequence[Step], noticed: Mapping[tuple[str, str, str], str]) -> list[str]:
    first = together[0]
    cost = _RECORDS[first.service].noticed.get(first.do)
    found = [cost] if cost else []
    # A new health check is no news to clients; what goes with the planned configuration is.
    if first.do in _RUNS_PLANNED:
        own = (noticed.get((s.host, s.service, s.instance), "") for s in together)
        found += [said for said in dict.fromkeys(own) if said]
    return found
