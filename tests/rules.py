"""The rules that the code has: by reading it, and by planning inventories that use them.

``python -m tests.rules`` writes the keys that each rule sets into docs/rules.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sizing.core.inventory import Inventory
from sizing.core.rules import CHANGED
from sizing.core.settings import Choice, Sheet
from sizing.inventory.reading import read_inventory
from sizing.plan import make_plan
from sizing.services import SERVICES
from tests.planned import mirrors, of_topics, streams
from tests.rest_inventories import rest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules.md"
#: A row of a rule that sets values, in the sections before the findings: rule, text, and the keys that it sets.
ROW = re.compile(r"^(\| `([^`]+)` \|.*\|) (.*)\|$", flags=re.MULTILINE)
#: Names of these inventories in keys, and what the page has in their place.
_PLACES = {
    r"\b[\w-]+:\d+$": "HOST:PORT",
    r"^\w+->\w+(?=\.)": "SOURCE->TARGET",
    r"^leaf(?=\.)": "SOURCE",
    r"^agg(?=\.)": "TARGET",
    r"^(appender|rootLogger|logger|log4j)\..*": "log4j",
}
PROFILES = re.compile(r"clients\.(throughput|latency|durability|balanced)\..+")
_NAME = re.compile(r"[a-z]+(\.[a-z_0-9]+)+")
#: Where a call has its rule: the number of the argument.
_ARGUMENT = {
    "error": 0,
    "warning": 0,
    "note": 0,
    "report": 0,
    "Finding": 1,
    "put": 2,
    "Setting": 3,
    "rest_of_own": 1,
    "check_keys": 4,
    "_finding": 5,
    "check_acks": 5,
    "check_batch": 5,
}


@dataclass
class Rule:
    """What was seen of a rule: the forms of its advice, the keys that it sets, and where its values come from."""

    documented: bool = False
    measured: bool = False
    keys: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)


def named(rule: str) -> str:
    """Return the name by which the table has a rule: the rows of the profiles are one."""
    return "clients.PROFILE.KEY" if PROFILES.fullmatch(rule) else rule


def keys(rules: dict[str, Rule], text: str) -> str:
    """Return the page with the keys that each rule sets in its row; rules of your own values have none."""
    setting, heading, findings = text.partition("\n## Findings\n")
    return ROW.sub(lambda row: f"{row[1]} {_sets(row[2], rules)}|", setting) + heading + findings


def _sets(name: str, rules: dict[str, Rule]) -> str:
    if name not in rules or name.endswith((".own", ".KEY")):
        return ""
    names = sorted({_key(key) for key in rules[name].keys}, key=str.lower)
    return f"{', '.join(names)}{_since(name)} "


def _since(name: str) -> str:
    return f"; since {CHANGED[name]}" if name in CHANGED else ""


def _key(key: str) -> str:
    for place, said in _PLACES.items():
        key = re.sub(place, said, key)
    return "log4j's keys" if key == "log4j" else f"`{key}`"


def written() -> Iterator[str]:
    """Yield the rules that stand in the code as they are."""
    for path in sorted((ROOT / "sizing").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for default in node.args.defaults:
                    if isinstance(default, ast.Constant) and _NAME.fullmatch(str(default.value)):
                        yield str(default.value)
            if isinstance(node, ast.Call):
                called = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                at = _ARGUMENT.get(called, 99)
                given = node.args[at] if at < len(node.args) else None
                given = next((k.value for k in node.keywords if k.arg == "rule"), given)
                if isinstance(given, ast.Constant) and _NAME.fullmatch(str(given.value)):
                    yield str(given.value)


def inventories() -> list[Inventory]:
    """Return inventories that between them use every rule that sets a value."""
    places = [*ROOT.glob("inventories/*/hosts.yml"), *ROOT.glob("molecule/*/inventory/hosts.yml")]
    # Without the scenario that makes files of its inventory first.
    folders = sorted(place.parent for place in places if "rest_distributions" not in place.parts)
    read = [read_inventory(folder, SERVICES) for folder in folders]
    busy = {"consumers": 400, "partitions": 12, "records_per_request": 1, "delivery_latency_ms": 50}
    racked = {"rack": "r1", "host_cores": 4, "host_memory_mib": 16_384, "kafka_clusters": {
        "leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}}, "kafka_topics": [
        {"name": "t", "cluster": "leaf", "partitions": 1}]}  # fmt: skip
    many = {"consumers": 3000, "readers": 3000, "partitions": 48}
    return [
        *read,
        rest(1, distribution="strimzi", version="1.1.0", workload=busy),
        rest(1, workload=busy, settings={"client.id": "x"}, profile="throughput"),
        rest(2, version="7.9.1", zookeeper_connect="z:2181", workload=many, groups={"load_generator": ("rest1",)}),
        mirrors(kind="mirror_maker_2", version="4.3.1", flow={"exactly_once": True}),
        mirrors(flow={"round_trip_ms": 60, "link_mbit_per_s": 1000, "environment": {"A": "1"}, "metrics": {"first_port": 9410}}),
        mirrors(flow={"latency_budget_ms": 5000}, common={"advice": "measured"}),
        streams(2, jemalloc="/usr/lib/libjemalloc.so", exactly_once=True, latency_ms=100, record_bytes=100),
        streams(2, group_protocol="streams"),
        of_topics({"target_mb_per_s": 10, "production_mb_per_s": 1, "consumption_mb_per_s": 1}, {}),
        of_topics({"partitions": 1}, kafka_clients=[{"name": "app", "cluster": "leaf", "library": "spark",
                                                     "version": "4.0.0", "profile": "throughput"}]),
        Inventory({"kafka1": racked}, {"kafka_leaf": ("kafka1",), "kafka_broker": ("kafka1",)}),
        rest(1, groups={"rest_balancer": ("lb1",)}, common={"rest_balancer_port": 443}),
    ]  # fmt: skip


def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rule]:
    """Return the rules that set values in the inventories, by both advices."""
    rules: dict[str, Rule] = {}
    put = Sheet.put

    def seen(
        sheet: Sheet, file: str, key: str, rule: str, *choices: Choice | None, **named_choices: Any
    ) -> str | None:
        documented, measured = (*choices, named_choices.get("measured"))[:2]
        found = rules.setdefault(named(rule), Rule())
        found.keys.add(key)
        found.documented |= documented is not None and documented.value is not None
        found.measured |= measured is not None
        found.sources |= {c.source for c in (documented, measured) if c is not None}
        return put(sheet, file, key, rule, documented, measured)

    monkeypatch.setattr(Sheet, "put", seen)
    for inventory in inventories():
        for advice in ("documented", "measured"):
            for _, setting in make_plan(inventory, advice).settings():  # type: ignore[arg-type] # a literal of two
                rules.setdefault(named(setting.rule), Rule()).keys.add(setting.key)
    return rules


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patched:
        PAGE.write_text(keys(planned(patched), PAGE.read_text()))
