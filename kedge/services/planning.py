"""The plan of a whole inventory: every subject's part, in the order in which one needs another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from kedge.plan.findings import WITH_INVENTORY, Finding, of_what_starts
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import check_archives
from kedge.plan.inventory.checks import check_example_names, check_inventory, check_numbers
from kedge.plan.inventory.deprecated import with_successors
from kedge.plan.inventory.logins import check_mechanisms, check_stores
from kedge.plan.inventory.recommendations import NAME, with_recommendations, without
from kedge.plan.plan import Part, Plan, merge
from kedge.plan.plan_secrets import hide
from kedge.plan.service import Given, Service
from kedge.plan.settings import Advice, Setting
from kedge.plan.text import difference
from kedge.services.broker_links import check_broker_links
from kedge.services.clients.planner import plan_clients
from kedge.services.host.java import plan_java
from kedge.services.host.planner import plan_hosts
from kedge.services.host.ports import check_ports
from kedge.services.registry import SERVICES
from kedge.services.rollout import plan_rollouts
from kedge.services.topics.planner import plan_topics
from kedge.services.verification import check_verification


def make_plan(
    inventory: Inventory,
    advice: Advice | None = None,
    *,
    archives: Mapping[str, str | None] | None = None,
    deploying: bool = False,
    services: Sequence[Service] = SERVICES,
) -> Plan:
    """Return the plan; pure: the same inventory gives the same plan.

    ``advice`` overrides the inventory's own choice between measured and documented values; ``archives`` is
    what was found of them, and ``deploying`` whether they are needed now (see ``check_archives``). What is
    wrong with the inventory comes back as findings of severity error, never as an exception.
    """
    inventory, deprecated = with_successors(inventory, services)
    if beyond := check_numbers(inventory):
        return hide(merge([Part(findings=tuple(beyond))]), inventory, services)
    recommended = with_recommendations(inventory, services)
    inventory = recommended.inventory
    checked = Part(
        findings=(
            *deprecated,
            *recommended.findings,
            *check_inventory(inventory, services),
            # Where somebody plans, and no test or bench.
            *(check_example_names(inventory) if archives is not None else ()),
            *check_verification(inventory, services),
            *check_mechanisms(inventory, services),
            *check_stores(inventory, services),
            *check_archives(inventory, services, archives, deploying=deploying),
        )
    )
    wanted = inventory.common("advice", "measured")
    if wanted not in get_args(Advice):
        return hide(merge([checked]), inventory, services)
    asked: Advice = advice or wanted
    form: Advice = "documented" if asked == "stock" else asked
    topics = plan_topics(inventory)
    of_services = _of_services(inventory, form, topics, services)
    if asked == "stock":
        of_services = (_without_tuning(part, services) for part in of_services)
    links = Part(findings=tuple(check_broker_links(inventory, topics)))
    parts = [checked, topics, links, *of_services, plan_clients(inventory, topics)]
    planned = merge(parts).services
    of_hosts = [
        plan_java(inventory, planned, services),
        plan_hosts(inventory, planned, services, form),
        plan_rollouts(inventory, planned, services),
        Part(findings=tuple(check_ports(inventory, planned, services))),
    ]
    plan = merge([*parts, *of_hosts])
    plan = replace(plan, findings=tuple(map(recommended.as_written, of_what_starts(plan.findings))))
    if inventory.reader is WITH_INVENTORY and (left := _without_wrong(inventory, plan.findings)) is not None:
        behind = make_plan(left, advice, archives=archives, deploying=deploying, services=services).findings
        said = [f.where for f in plan.findings]
        told = {(f.rule, f.message) for f in plan.findings}
        more = tuple(f for f in behind if f.rule in _OF_KEYS and (f.rule, f.message) not in told)
        # What held a wrong value is another one without it.
        whole = [f for f in behind if f.what and not any(w.startswith(f.where) for w in said)]
        more += tuple(f for f in whole if f.severity == "error" and not f.consequence)
        plan = replace(plan, findings=(*plan.findings, *more))
    return hide(plan, inventory, services)


#: Findings of a key, whatever else there is.
_OF_KEYS: Final = ("rest.keys", "keys.unknown", "clients.refused")


def _without_wrong(inventory: Inventory, findings: Iterable[Finding]) -> Inventory | None:
    """Return an inventory without the values that findings call wrong; None where none of them can go."""
    hosts = {host: dict(variables) for host, variables in inventory.hosts.items()}
    for finding in findings:
        of = finding.subject
        # Without a cluster, all that names it would be wrong.
        named = of is not None and re.fullmatch(r"kafka_clusters\.[^.]+", of.variable)
        if finding.what and of is not None and not named:
            # What is the same everywhere was read of one host.
            for host, variables in hosts.items():
                hosts[host] = _without(variables, ".".join([of.variable, *of.keys]))
    return replace(inventory, hosts=hosts) if hosts != inventory.hosts else None


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a mapping without the value of that full name, whose keys may have dots themselves."""
    found = {key: value for key, value in values.items() if key != name}
    for key, value in found.items():
        if isinstance(value, Mapping) and name.startswith(f"{key}."):
            found[key] = _without(value, name.removeprefix(f"{key}."))
    return found


def _without_tuning(part: Part, services: Sequence[Service]) -> Part:
    """Return a part without the settings that only tune a service; a person's own stay."""
    tuning = {service.name: service.tuning for service in services}

    def left(service: str, setting: Setting) -> bool:
        return setting.by == "person" or not setting.rule.startswith(tuning[service] or "-")

    kept = {
        host: {
            name: tuple(
                replace(one, settings=tuple(s for s in one.settings if name not in tuning or left(name, s)))
                for one in instances
            )
            for name, instances in of_host.items()
        }
        for host, of_host in part.services.items()
    }
    return replace(part, services=kept)


def _of_services(
    inventory: Inventory, advice: Advice, topics: Part, services: Sequence[Service]
) -> Iterator[Part]:
    used = frozenset(topics.topics).union(*(service.clusters(inventory) for service in services))
    given = Given(inventory, advice, topics, {}, used, services)
    place = {service.name: number for number, service in enumerate(services)}
    for service in sorted(services, key=lambda s: (place[s.after or s.name], s.after is not None)):
        if service.plan is not None:
            part = service.plan(given)
            given = replace(given, parts={**given.parts, service.name: part})
            yield part


def what_changes(inventory: Inventory, plan: Plan, advice: Advice | None = None) -> str:
    """Return, for an inventory with recommendations, what they change; empty without any.

    ``plan`` is that of the inventory; with errors there is none to compare.
    """
    if inventory.common(NAME) is None or plan.has_errors:
        return ""
    lines = ["", "What the recommendations change", ""]
    for change in with_recommendations(inventory, SERVICES).changes:
        was = "not set" if change.before is None else change.before
        lines.append(f"{change.variable}: {was} -> {change.after}")
    before = make_plan(without(inventory), advice)
    return "\n".join([*lines, "", difference(plan, before, "recommended", "without"), ""])
