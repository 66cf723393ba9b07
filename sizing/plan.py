"""The plan of a whole inventory: every subject's part, in the order in which one needs another."""

from __future__ import annotations

from sizing.balancer import plan_balancers
from sizing.broker import plan_brokers
from sizing.model import Advice, Finding, Inventory, Part, Plan, merge
from sizing.rest import plan_rest
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
        str(inventory.hosts[host].get("kafka_rest_cluster")) for host in inventory.group("kafka_rest")
    }
    return merge(
        [topics, rest, plan_balancers(inventory, rest, advice), plan_brokers(inventory, used, advice)]
    )
