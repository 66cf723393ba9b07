"""The plan of a whole inventory: every subject's part, in the order in which one needs another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from sizing.balancer.planner import plan_balancers
from sizing.broker.planner import plan_brokers
from sizing.clients.planner import plan_clients
from sizing.core.inventory import Inventory
from sizing.core.plan import Part, Plan, merge
from sizing.core.settings import Advice
from sizing.host.java import plan_java
from sizing.host.planner import plan_hosts
from sizing.host.ports import check_ports
from sizing.inventory.archives import check_archives
from sizing.inventory.checks import check_inventory
from sizing.inventory.logins import check_logins
from sizing.inventory.recommendations import with_recommended
from sizing.mirror.planner import mirrored_clusters, plan_mirrors
from sizing.rest.planner import plan_rest
from sizing.rollout import plan_rollouts
from sizing.streams.planner import plan_streams
from sizing.topics.planner import plan_topics


def make_plan(
    inventory: Inventory,
    advice: Advice | None = None,
    *,
    archives: Mapping[str, str | None] | None = None,
    deploying: bool = False,
) -> Plan:
    """Return the plan; pure: the same inventory gives the same plan.

    ``advice`` overrides the inventory's own choice between measured and documented values; ``archives`` is
    what was found of them, and ``deploying`` whether they are needed now (see ``check_archives``). What is
    wrong with the inventory comes back as findings of severity error, never as an exception.
    """
    accepted = with_recommended(inventory)
    inventory = accepted.inventory
    on_archives = check_archives(inventory, archives, deploying=deploying)
    checked = Part(
        findings=(*accepted.wrong, *check_inventory(inventory), *check_logins(inventory), *on_archives)
    )
    wanted = inventory.common("advice", "measured")
    if wanted not in get_args(Advice):
        return merge([checked])
    form: Advice = advice or wanted
    topics = plan_topics(inventory)
    rest = plan_rest(inventory, form)
    used = frozenset(topics.topics) | {
        str(inventory.hosts[host].get(f"{role}_cluster"))
        for role in ("kafka_rest", "streams_app")
        for host in inventory.group(role)
    }
    parts = [
        checked,
        topics,
        rest,
        plan_balancers(inventory, rest, form),
        plan_brokers(inventory, used | mirrored_clusters(inventory), form),
        plan_mirrors(inventory, topics, form),
        plan_streams(inventory, form),
        plan_clients(inventory, topics),
    ]
    services = merge(parts).services
    hosts = plan_hosts(inventory, services, form)
    ports = Part(findings=tuple(check_ports(inventory, services)))
    plan = merge([*parts, plan_java(inventory, services), hosts, plan_rollouts(inventory, services), ports])
    return replace(plan, findings=tuple(map(accepted.named, plan.findings))) if accepted.names else plan
