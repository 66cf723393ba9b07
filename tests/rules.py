"""The rules that the code has: by reading it, and by planning inventories that use them.

``python -m tests.rules`` writes the keys that each rule sets, and the severities of findings, into
docs/rules.md.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kedge.plan.hosts import Inventory
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.rules import CHANGED
from kedge.plan.settings import Choice, Setting, Sheet
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from tests.planned import CLUSTERS, JOINS, mirrors, of_topics, streams
from tests.rest_inventories import rest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rules.md"
#: A row of a rule that sets values, in the sections before the findings: rule, text, and the keys that it sets.
ROW = re.compile(r"^(\| `([^`]+)` \|.*\|) (.*)\|$", flags=re.MULTILINE)
#: A row of the findings: rule, severities, and when the rule raises one.
FINDING = re.compile(r"^\| `([^`]+)` \| [^|]*\| (.*) \|$", flags=re.MULTILINE)
SEVERITIES = ("error", "warning", "note")
#: Names of these inventories in keys, and what the page has in their place.
_PLACES = {
    r"\b[\w-]+:\d+$": "HOST:PORT",
    r"^leaf->agg(?=\.)": "SOURCE->TARGET",
    r"^agg->leaf(?=\.)": "TARGET->SOURCE",
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
    "deviation": 0,
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
    """What was seen of a rule: the keys that it sets."""

    keys: set[str] = field(default_factory=set)


def named(rule: str) -> str:
    """Return the name by which the table has a rule: the rows of the profiles are one."""
    return "clients.PROFILE.KEY" if PROFILES.fullmatch(rule) else rule


def page(rules: dict[str, Rule], raised: dict[str, set[str]], text: str) -> str:
    """Return the page with the keys that each rule sets in its row, and the severities of each finding.

    Rules of your own values have no keys.
    """
    setting, heading, findings = text.partition("\n## Findings\n")
    setting = ROW.sub(lambda row: f"{row[1]} {_sets(row[2], rules)}|", setting)
    findings = FINDING.sub(lambda row: f"| `{row[1]}` | {_severe(row[1], raised)} | {row[2]} |", findings)
    return setting + heading + findings


def _severe(name: str, raised: dict[str, set[str]]) -> str:
    return ", ".join(severity for severity in SEVERITIES if severity in raised.get(name, ()))


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
    for tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield from _default_rules(node)
            if isinstance(node, ast.Call) and (rule := _rule(node)):
                yield rule


@functools.cache
def _trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted((ROOT / "kedge").rglob("*.py"))]


def _default_rules(function: ast.FunctionDef) -> Iterator[str]:
    for default in function.args.defaults:
        if isinstance(default, ast.Constant) and _NAME.fullmatch(str(default.value)):
            yield str(default.value)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _rule(call: ast.Call) -> str | None:
    """Return the rule that a call names; None where it names none, or passes one on."""
    at = _ARGUMENT.get(_called(call), 99)
    given = call.args[at] if at < len(call.args) else None
    given = next((k.value for k in call.keywords if k.arg == "rule"), given)
    if isinstance(given, ast.Constant) and _NAME.fullmatch(str(given.value)):
        return str(given.value)
    return None


class _Severities:
    """The severities of the findings that each rule raises, as the code has them.

    A call has them in its name or its arguments. A function that gets the rule has them in its body.
    """

    def __init__(self, trees: list[ast.Module]) -> None:
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self._functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        self._given_a_rule: dict[str, list[ast.FunctionDef]] = {}
        for function in self._functions:
            if "rule" in _parameters(function):
                self._given_a_rule.setdefault(function.name, []).append(function)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._calls: dict[str, list[ast.Call]] = {}
        for call in calls:
            self._calls.setdefault(_called(call), []).append(call)
        #: What fields of that name are given: their default, and keywords.
        self._fields: list[tuple[str | None, ast.expr]] = [
            *((node.target.id, node.value) for node in nodes
              if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value),
            *((keyword.arg, keyword.value) for call in calls for keyword in call.keywords),
        ]  # fmt: skip

    def by_rule(self) -> dict[str, set[str]]:
        """Return the severities of each rule that raises a finding."""
        found: dict[str, set[str]] = {}
        for function in self._functions:
            for call in _calls_in(function):
                if rule := _rule(call):
                    found.setdefault(rule, set()).update(self._of_call(call, function, direct=True))
            for rule in _default_rules(function):
                found.setdefault(rule, set()).update(self._of_body(function))
                for call in self._to(function):
                    if _rule(call) is None:
                        found[rule] |= _constants(_arguments(call))
        return found

    def _to(self, function: ast.FunctionDef) -> list[ast.Call]:
        return self._calls.get(function.name, [])

    def _of_body(self, function: ast.FunctionDef) -> set[str]:
        """Return what a function raises of a rule that it gets: each call that passes the rule on."""
        passed = (
            call
            for call in _calls_in(function)
            if any(isinstance(one, ast.Name) and one.id == "rule" for one in _arguments(call))
        )
        return {found for call in passed for found in self._of_call(call, function, direct=False)}

    def _of_call(self, call: ast.Call, function: ast.FunctionDef, *, direct: bool) -> set[str]:
        name = _called(call)
        if name in SEVERITIES:
            return {name}
        found = {s for one in (call.func, *_arguments(call)) for s in self._of(one, function, direct=direct)}
        for helper in self._given_a_rule.get(name, ()):
            found |= self._of_body(helper)
        return found

    def _of(self, given: ast.expr, function: ast.FunctionDef, *, direct: bool) -> set[str]:
        """Return the severities that an expression may be; ``direct`` if any caller decides a parameter."""
        if isinstance(given, ast.IfExp):
            either = (given.body, given.orelse)
            return {found for one in either for found in self._of(one, function, direct=direct)}
        if isinstance(given, ast.Attribute):
            values = [value for name, value in self._fields if name == given.attr]
            return _constants([given, *values])
        if not isinstance(given, ast.Name):
            return _constants([given])
        assigned = [
            node.value
            for node in _within(function)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == given.id
        ]
        found = {one for value in assigned for one in self._of(value, function, direct=direct)}
        if (default := _parameters(function).get(given.id)) is not None:
            found |= _constants([default])
        if direct and given.id in _parameters(function):
            found |= {s for call in self._to(function) for s in _constants(_arguments(call))}
        return found


def severities() -> dict[str, set[str]]:
    """Return the severities of the findings that each rule raises."""
    return _Severities(_trees()).by_rule()


@functools.cache
def _within(function: ast.FunctionDef) -> list[ast.AST]:
    return list(ast.walk(function))


def _calls_in(function: ast.FunctionDef) -> list[ast.Call]:
    return [node for node in _within(function) if isinstance(node, ast.Call)]


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _parameters(function: ast.FunctionDef) -> dict[str, ast.expr | None]:
    """Return the parameters of a function with their defaults."""
    plain = [*function.args.posonlyargs, *function.args.args]
    defaults = [*[None] * (len(plain) - len(function.args.defaults)), *function.args.defaults]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {arg.arg: default for arg, default in (*zip(plain, defaults, strict=True), *named)}


def _constants(given: Iterable[ast.expr]) -> set[str]:
    """Return the severities that stand in expressions: as constants, or as methods of a sheet."""
    found: set[str] = set()
    for one in given:
        if isinstance(one, ast.IfExp):
            found |= _constants([one.body, one.orelse])
        elif isinstance(one, ast.Constant):
            found |= {str(one.value)} & {*SEVERITIES}
        elif isinstance(one, ast.Attribute):
            found |= {one.attr} & {*SEVERITIES}
    return found


@functools.cache
def inventories() -> tuple[Inventory, ...]:
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
    return (
        *read,
        rest(1, distribution="strimzi", version="1.1.0", workload=busy),
        rest(1, workload=busy, settings={"client.id": "x"}, profile="throughput"),
        rest(1, workload={"concurrent_requests": 200}, common={"host_round_trip_ms": 20}),
        rest(1, workload={"consumers": 4}, common={"kafka_clusters": CLUSTERS | {"leaf": CLUSTERS["leaf"] | {"group_session_ms": 10_000}}}),
        rest(2, version="7.9.1", zookeeper_connect="z:2181", workload=many, groups={"load_generator": ("rest1",)}),
        mirrors(kind="mirror_maker_2", version="4.3.1", flow={"exactly_once": True}),
        mirrors(flow={"round_trip_ms": 60, "link_mbit_per_s": 1000, "environment": {"A": "1"}, "metrics": {"first_port": 9410}}),
        mirrors(flow={"latency_budget_ms": 5000}, common={"advice": "measured"}),
        streams(2, jemalloc="/usr/lib/libjemalloc.so", exactly_once=True, latency_ms=100, record_bytes=100),
        streams(2, group_protocol="streams"),
        streams(stores=[JOINS | {"records_per_s": 9, "record_bytes": 99}, {"name": "k", "kind": "key_value", "partitions": 1}]),
        of_topics({"target_mb_per_s": 10, "production_mb_per_s": 1, "consumption_mb_per_s": 1}, {}),
        of_topics({"partitions": 1}, kafka_clients=[{"name": "app", "cluster": "leaf", "library": "spark",
                                                     "version": "4.0.0", "profile": "throughput",
                                                     "producer_settings": {"kafka.client.id": "x"}}]),
        Inventory({"kafka1": racked}, {"kafka_leaf": ("kafka1",), "kafka_broker": ("kafka1",)}),
        rest(1, groups={"rest_balancer": ("lb1",)}, common={"rest_balancer_port": 443}),
        rest(1, groups={"canary": ("rest1",)}, common={"canary_cluster": "leaf"}),
    )  # fmt: skip


@functools.cache
def put_and_planned() -> tuple[tuple[tuple[str, str, str], ...], tuple[Setting, ...]]:
    """Return what these inventories' plans try, by both advices, as key, rule and source; and their settings."""
    tried: set[tuple[str, str, str]] = set()
    put = Sheet.put

    def seen(
        sheet: Sheet,
        file: str,
        key: str,
        rule: str,
        documented: Choice | None,
        measured: Choice | None = None,
    ) -> str | None:
        tried.update((key, rule, choice.source) for choice in (documented, measured) if choice)
        return put(sheet, file, key, rule, documented, measured)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Sheet, "put", seen)
        plans = [
            make_plan(inventory, advice)  # type: ignore[arg-type] # a literal of two
            for inventory in inventories()
            for advice in ("documented", "measured")
        ]
    return tuple(tried), tuple(setting for plan in plans for _, setting in plan.settings())


def planned() -> dict[str, Rule]:
    """Return the rules that set values in the inventories, by both advices."""
    rules: dict[str, Rule] = {}
    tried, settings = put_and_planned()
    for key, rule in {*((key, rule) for key, rule, _ in tried), *((s.key, s.rule) for s in settings)}:
        rules.setdefault(named(rule), Rule()).keys.add(key)
    return rules


if __name__ == "__main__":
    PAGE.write_text(page(planned(), severities(), PAGE.read_text()))
