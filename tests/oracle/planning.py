"""The plan's front door: what goes in is an inventory as data, what comes out is plan.json.

The one page here that imports from ``kedge``, and of it only how a plan is made.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan

Plan = dict[str, Any]


class Spec(NamedTuple):
    """An inventory as data: host -> variables, group -> hosts."""

    hosts: dict[str, dict[str, Any]]
    groups: dict[str, list[str]]


def plan_of(spec: Spec) -> Plan:
    """Return the plan of an inventory in the shape of plan.json; nobody may change it."""
    return _planned(json.dumps(spec, sort_keys=True))


def findings_of(spec: Spec) -> list[dict[str, str]]:
    """Return the findings of an inventory's plan alone: a tenth of the time of a large plan's document."""
    return _found(json.dumps(spec, sort_keys=True))


def plans_made() -> int:
    """Return how many plans this process has made."""
    return _planned.cache_info().misses + _found.cache_info().misses


@lru_cache(maxsize=20_000)
def _planned(written: str) -> Plan:
    plan: Plan = json.loads(json.dumps(make_plan(_inventory(written)).to_json()))
    return plan


@lru_cache(maxsize=20_000)
def _found(written: str) -> list[dict[str, str]]:
    names = ("severity", "rule", "where", "message", "fix")
    return [{name: getattr(f, name) for name in names} for f in make_plan(_inventory(written)).findings]


def _inventory(written: str) -> Inventory:
    hosts, groups = json.loads(written)
    return Inventory(hosts, {name: tuple(members) for name, members in groups.items()})
