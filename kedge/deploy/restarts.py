"""Which instances restart together, and which hosts must not reboot: of the plan and hosts' answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kedge.deploy.planned import named, rollout_value
from kedge.plan.document import planned_instances
from kedge.services.registry import SERVICES
from kedge.services.rollout import ahead, batches

_MISSED: Final = {service.name: service.missed for service in SERVICES}


def rollout_ahead(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, int]:
    """Return how many instances of which of these hosts go first."""
    instances = _rolled(plan, service, hosts)
    # Where there is no other to follow, nothing goes first.
    first = rollout_value(plan, service, "first") if sum(instances.values()) > 1 else 0
    return ahead(list(instances), instances, first)


def rollout_batches(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> list[list[str]]:
    """Return which of these hosts restart together after those, an instance each at a time."""
    instances = _rolled(plan, service, hosts)
    if not instances:
        return []
    gone = rollout_ahead(plan, service, instances)
    found = batches(instances, gone, plan["waves"][service]["racks"], rollout_value(plan, service, "at_once"))
    return [list(batch) for batch in found]


def rollout_down(
    plan: Mapping[str, Any], service: str, hosts: Iterable[str], seen: Iterable[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Return which instances of which of these hosts a balancer has down, by what haproxy_compare found."""
    down = {server for result in seen for server in result.get("down", ())}
    found = {
        host: [
            str(i["name"])
            for i in planned_instances(plan, host, service)
            if f"{host}:{i.get('port')}" in down
        ]
        for host in _rolled(plan, service, hosts)
    }
    return {host: names for host, names in found.items() if names}


def rollout_refusal(plan: Mapping[str, Any], service: str, hosts: list[str], gone: Sequence[str] = ()) -> str:
    """Return why these hosts must not restart together, or nothing.

    ``--limit`` may have mixed batches. ``gone`` are hosts of the play that an earlier play or batch lost:
    Ansible goes on after one whose only host is unreachable, though any error is fatal.
    """
    if gone:
        return f"{', '.join(gone)} stopped answering"
    at_once = rollout_value(plan, service, "at_once")
    if len(hosts) > at_once:
        return f"{', '.join(hosts)} would restart together, and the plan allows {at_once} at once"
    seen: dict[str, str] = {}
    for host in hosts:
        rack = plan["waves"][service]["racks"].get(host)
        if rack in seen:
            return f"{seen[rack]} and {host} of rack {rack} would restart together"
        if rack:
            seen[rack] = host
    return ""


def rounds(
    planned: Sequence[Mapping[str, Any]],
    part: str,
    *,
    due: Iterable[str] | None,
    revived: Iterable[str] = (),
    down: Iterable[str] = (),
    ahead: int = 0,
    killed: bool = False,
    gate: Mapping[str, Any],
    gates: Mapping[str, Mapping[str, Any]],
    staged: Mapping[str, Any],
    former: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return the instances of a host that restart one after the other, each with its gate and its release.

    Args:
        planned: the host's instances.
        part: of those that are due, ``down`` (what balancers have down), ``ahead`` (the first ``ahead``),
            ``behind`` (the others) or ``all``; or ``gates``, whose gates are asked where the host leaves.
        due: names of the instances that are due; None: all.
        revived: names of those that were down, and have been restarted before the others.
        down: names of those that balancers have down.
        ahead: how many of the host go first.
        killed: whether a crash is tested, of one instance.
        gate: what the cluster of all of them is asked, or nothing.
        gates: what is asked instead, by name, where each has groups of its own.
        staged: what ``kedge_release`` or ``kedge_previous_release`` answered in this run.
        former: name to the release that it ran before it went first: those alone go back to it.
    """
    done = set(revived)
    left = [i for i in planned if (due is None or i["name"] in due) and i["name"] not in done]
    if killed:
        chosen = left[:1]
    elif part == "gates":
        # Groups of a cluster are those of all its instances.
        chosen = list(planned) if gates else list(planned[:1])
    elif part == "down":
        chosen = named(left, down)
    elif part == "ahead":
        chosen = left[:ahead]
    else:
        chosen = left[ahead:] if part == "behind" else left
    releases = {i["name"]: i["release"] for i in staged.get("instances", ())} if former is None else former
    return [
        {
            "name": i["name"],
            "port": i.get("port"),
            "gate": gates.get(i["name"], gate),
            "release": releases.get(i["name"]),
        }
        for i in chosen
        if former is None or i["name"] in former
    ]


def former_releases(facts: Mapping[str, Any], service: str) -> dict[str, str]:
    """Return what instances of a host ran before this run changed them, as ``kedge_instance`` noted it."""
    prefix = f"kedge_former_{service}_"
    return {name.removeprefix(prefix): str(of) for name, of in facts.items() if name.startswith(prefix)}


def services_to_leave(plan: Mapping[str, Any], host: str) -> list[str]:
    """Return the services that run on a host, in the order in which they leave it: brokers last."""
    records = sorted((s for s in SERVICES if s.plan), key=lambda one: one.last)
    return [one.name for one in records if planned_instances(plan, host, one.name)]


def reboot_hosts(plan: Mapping[str, Any], groups: Mapping[str, Iterable[str]], asked: str) -> list[str]:
    """Return those hosts of the ``asked`` groups that run something, in the plan's order."""
    wanted = {host for group in _names(asked) for host in groups.get(group, ())}
    return [host for host in plan["hosts"] if host in wanted and services_to_leave(plan, host)]


def reboot_refusal(plan: Mapping[str, Any], host: str, service: str) -> str:
    """Return why clients would notice a reboot of a host, unless ``service`` names what they miss."""
    missed = {name: said for name in services_to_leave(plan, host) if (said := _MISSED[name](plan, host))}
    if missed.keys() <= set(_names(service)):
        return ""
    return f"{', and '.join(missed.values())} (-e service={','.join(missed)})"


def _names(asked: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in asked.split(",")]


def _rolled(plan: Mapping[str, Any], service: str, hosts: Iterable[str]) -> dict[str, int]:
    """Return the number of a service's instances on each of these hosts, in the plan's order."""
    wanted = set(hosts)
    # Ansible resolves the hosts of a play also where nothing is planned, to check its syntax.
    return {
        host: len(of_host["services"][service]["instances"])
        for host, of_host in plan["hosts"].items()
        if host in wanted and service in of_host["services"]
    }
