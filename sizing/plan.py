"""The plan of a whole inventory: every subject's part, in the order in which one needs another."""

from __future__ import annotations

from sizing.balancer import plan_balancers
from sizing.broker import plan_brokers
from sizing.clients import plan_clients
from sizing.mirror import mirrored_clusters, plan_mirrors
from sizing.model import Advice, Finding, Inventory, Part, Plan, merge
from sizing.rest import plan_rest
from sizing.streams import plan_streams
from sizing.topics import plan_topics


def make_plan(inventory: Inventory) -> Plan:
    """Return the plan; pure: the same inventory gives the same plan.

    What is wrong with the inventory comes back as findings of severity error, never as an exception.
    """
    advice: Advice = inventory.common("advice", "measured")
    if advice not in ("measured", "documented"):
        wrong = Finding(
            "error",
            "inventory.variable",
            "all: advice",
            f"advice is {advice!r}",
            "write measured or documented",
        )
        return merge([Part(findings=(wrong,))])
    topics = plan_topics(inventory)
    rest = plan_rest(inventory, advice)
    used = frozenset(topics.topics) | {
        str(inventory.hosts[host].get(f"{role}_cluster"))
        for role in ("kafka_rest", "streams_app")
        for host in inventory.group(role)
    }
    return merge(
        [
            topics,
            rest,
            plan_balancers(inventory, rest, advice),
            plan_brokers(inventory, used | mirrored_clusters(inventory), advice),
            plan_mirrors(inventory, topics, advice),
            plan_streams(inventory, advice),
            plan_clients(inventory, topics),
        ]
    )
