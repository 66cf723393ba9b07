"""What the recommendations of a verification change: the inventory's values, and the plan that follows."""

from __future__ import annotations

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.recommendations import NAME, with_recommendations, without
from kedge.plan.plan import Plan
from kedge.plan.settings import Advice
from kedge.plan.text import difference
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES


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
