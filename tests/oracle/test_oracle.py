"""Plans held against sums that share no code with the rules, over inventories that nobody would think of."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from tests.oracle import inventories
from tests.oracle.accepted import Refused, refused
from tests.oracle.fixes import Finding, asks_for, fixed, subject
from tests.oracle.limits import broken, sums
from tests.oracle.planning import Plan, Spec, findings_of, plan_of, plans_made
from tests.oracle.quotes import quotes
from tests.oracle.sums import ORDER, over

pytestmark = pytest.mark.slow

SUBJECTS = ("rest", "mirrors", "streams", "topics", "shared")
#: Inventories of each subject in the suite, and of a long run.
FEW = {"rest": 120, "mirrors": 120, "streams": 80, "topics": 80, "shared": 40}
MANY = 4_000
#: Every sum, and the inventories that ask it.
LIMITS = {
    "host.memory": "shared",
    "rest.link": "rest",
    "rest.link.base64": "rest",
    "rest.link.readers": "rest",
    "balancer.link": "rest",
    "balancer.link.base64": "rest",
    "rest.bytes": "rest",
    "rest.bootstrap": "rest",
    "rest.cores.producers": "rest",
    "rest.cores.readers": "rest",
    "rest.record": "rest",
    "rest.request.buffer": "rest",
    "rest.record.cluster": "rest",
    "rest.files": "rest",
    "rest.threads": "rest",
    "rest.buffer": "rest",
    "rest.heap.limit": "rest",
    "rest.heap.bodies": "rest",
    "rest.heap.guide": "rest",
    "rest.heap.readers": "rest",
    "rest.heap.answers": "rest",
    "rest.memory": "rest",
    "mirror.link": "mirrors",
    "mirror.link.host": "mirrors",
    "mirror.link.whole": "mirrors",
    "mirror.cores": "mirrors",
    "mirror.processes": "mirrors",
    "mirror.round_trip": "mirrors",
    "mirror.buffer": "mirrors",
    "mirror.batch": "mirrors",
    "mirror.message": "mirrors",
    "mirror.linger": "mirrors",
    "mirror.heap.buffer": "mirrors",
    "mirror.heap": "mirrors",
    "mirror.memory": "mirrors",
    "streams.record": "streams",
    "streams.batch": "streams",
    "streams.link": "streams",
    "streams.memory": "streams",
    "streams.memtables": "streams",
    "streams.files": "streams",
    "streams.heap": "streams",
    "streams.heap.fetched": "streams",
    "streams.restore": "streams",
    "streams.standbys": "streams",
    "topics.replication": "topics",
    "topics.min_insync": "topics",
    "topics.partitions": "topics",
    "topics.cluster": "topics",
    "topics.growth": "topics",
    "topics.leaders": "topics",
    "topics.handles": "topics",
    "topics.handles.seen": "topics",
    "broker.link": "topics",
    "broker.link.out": "topics",
    "clients.buffer": "topics",
    "clients.batch": "topics",
    "clients.request": "topics",
}


@cache
def drawn(name: str, count: int) -> tuple[Spec, ...]:
    """Draw a subject's inventories: the same ones in every run."""
    found: list[Spec] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(getattr(inventories, name)())
    def draw(spec: Spec) -> None:
        found.append(spec)

    draw()
    return (*inventories.EXAMPLES[name], *found)


def smallest(name: str, wrong: Callable[[Spec], Any]) -> str:
    """Return the smallest inventory of a subject that is wrong, and how; for the message of a failed test."""
    quick = settings(max_examples=500, derandomize=True, database=None, deadline=None)
    spec = find(getattr(inventories, name)(), lambda each: bool(wrong(each)), settings=quick)
    return f"{wrong(spec)}\n{json.dumps(spec, indent=1)}"


def has_errors(plan: Plan) -> bool:
    return any(f["severity"] == "error" for f in plan["findings"])


def breaks(limit: str, spec: Spec) -> list[Any]:
    return [each for each in broken(spec.hosts, spec.groups, plan_of(spec)) if each.limit == limit]


@cache
def broken_by_any(name: str) -> frozenset[str]:
    """Return the limits that a subject's inventories break: all are asked in one pass."""
    return frozenset(
        each.limit
        for spec in drawn(name, FEW[name])
        for each in broken(spec.hosts, spec.groups, plan_of(spec))
    )


def left(spec: Spec) -> Iterator[tuple[Finding, str, Finding]]:
    """Yield the findings that a fix leaves, or raises of its own rule: the finding, the words, what is there then."""
    before = plan_of(spec)["findings"]
    there = {(subject(f), f["severity"]) for f in before}
    for finding in before:
        for words, changed in fixed(spec, finding):
            for then in findings_of(changed):
                same = subject(then) == subject(finding) and then["severity"] == finding["severity"]
                new = (subject(then), then["severity"]) not in there
                # What a document says instead is offered, not asked for.
                ours = (
                    "advice" not in words
                    and then["rule"] == finding["rule"]
                    and ORDER[then["severity"]] >= max(1, ORDER[finding["severity"]])
                )
                if same or (new and (ours or then["rule"] == "inventory.variable")):
                    yield finding, words, then


def own_choices(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield service, key and value of what the plan chose."""
    for host in plan["hosts"].values():
        for service, found in host["services"].items():
            for instance in found["instances"]:
                yield from (
                    (service, s["key"], s["value"]) for s in instance["settings"] if s["by"] == "plan"
                )


def asked_of_itself(spec: Spec) -> Iterator[Finding]:
    """Yield the findings that ask to change a value which the plan chose."""
    plan = plan_of(spec)
    chosen = list(own_choices(plan))
    for finding in plan["findings"]:
        about = finding["where"].replace("flow ", "mirror_maker ").replace("cluster ", "host_tuning ")
        numbers = re.findall(r"-?\d+", finding["message"])
        for key, wanted in asks_for(finding):
            if any(
                service in about and f".{k}".endswith(f".{key}") and v != wanted and v in numbers
                for service, k, v in chosen
            ):
                yield finding


def refusals(spec: Spec) -> list[Refused]:
    plan = plan_of(spec)
    return [] if has_errors(plan) else list(refused(plan))


def misquotes(spec: Spec) -> list[Any]:
    plan = plan_of(spec)
    return [quote for quote in quotes(spec.hosts, plan) if not quote.right]


@pytest.mark.parametrize("limit", LIMITS)
def test_no_plan_without_errors_breaks_a_limit(limit: str) -> None:
    name = LIMITS[limit]
    wrong = limit in broken_by_any(name)
    assert not wrong, smallest(name, lambda spec: breaks(limit, spec))


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_planned_value_is_one_that_its_component_refuses(name: str) -> None:
    wrong = {r.key: r for spec in drawn(name, FEW[name]) for r in refusals(spec)}
    assert wrong == {}


@pytest.mark.long
@pytest.mark.parametrize("name", SUBJECTS[:-1])
def test_no_fix_leaves_its_finding(name: str) -> None:
    wrong = {
        f["rule"]: (f["message"], words, then["message"])
        for spec in drawn(name, FEW[name])
        for f, words, then in left(spec)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_finding_asks_for_another_value_than_the_plan_chose(name: str) -> None:
    wrong = {f["rule"]: f for spec in drawn(name, FEW[name]) for f in asked_of_itself(spec)}
    assert wrong == {}


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_quoted_number_differs_from_its_document(name: str) -> None:
    wrong = {q.about: q for spec in drawn(name, FEW[name]) for q in misquotes(spec)}
    assert wrong == {}


def test_the_inventories_ask_every_sum_and_half_of_them_are_planned_without_errors(
    record_property: Callable[[str, object], None],
) -> None:
    specs = [spec for name in SUBJECTS for spec in drawn(name, FEW[name])]
    clean = [spec for spec in specs if not has_errors(plan_of(spec))]
    asked = [each for spec in clean for each in sums(spec.hosts, spec.groups, plan_of(spec))]
    reached = {
        each.limit for spec in specs for each in sums(spec.hosts, spec.groups, plan_of(spec)) if over(each)
    }
    record_property(
        "counted",
        f"oracle: {len(specs)} inventories, {len(clean)} of them without errors, {plans_made()} plans with those of "
        f"fixes, {len(asked)} sums, {len(reached)} of {len(LIMITS)} limits reached",
    )
    assert {each.limit for each in asked} == LIMITS.keys()
    assert len(clean) >= len(specs) / 2


#: A value that is wrong -> the limit that has to break.
DOCTORED = {
    ("rest", "LimitNOFILE", "10"): "rest.files",
    ("rest", "MemoryMax", "300M"): "rest.memory",
    ("rest", "thread.pool.max", "1"): "rest.threads",
    ("rest", "KAFKAREST_HEAP_OPTS", "-Xms16m -Xmx16m"): "rest.buffer",
    ("rest", "producer.max.request.size", "1"): "rest.record",
    ("mirrors", "batch.size", "900000000"): "mirror.batch",
    ("mirrors", "max.request.size", "2000000000"): "mirror.message",
    ("mirrors", "linger.ms", "2000000000"): "mirror.linger",
    ("mirrors", "KAFKA_HEAP_OPTS", "-Xmx16m"): "mirror.heap.buffer",
    ("mirrors", "MemoryMax", "16M"): "mirror.memory",
    ("streams", "MemoryMax", "16M"): "streams.memory",
    ("streams", "memtables.bytes", "1000"): "streams.memtables",
    ("streams", "LimitNOFILE", "5"): "streams.files",
    ("streams", "KAFKA_HEAP_OPTS", "-Xmx16m"): "streams.heap",
    ("streams", "num.standby.replicas", "100"): "streams.standbys",
    ("shared", "MemoryMax", "9000000M"): "host.memory",
    ("topics", "replication.factor", "30"): "topics.replication",
    ("topics", "min.insync.replicas", "30"): "topics.min_insync",
    ("topics", "partitions", "1000000"): "topics.cluster",
}


def doctored(plan: Plan, key: str, value: str) -> Plan:
    """Return a plan that has a value wherever it has the key, and reports nothing."""
    changed = copy.deepcopy(plan)
    parts = [i for h in changed["hosts"].values() for s in h["services"].values() for i in s["instances"]]
    parts += [t for topics in changed["topics"].values() for t in topics.values()]
    for part in parts:
        for setting in part["settings"]:
            if setting["key"] == key or setting["key"].endswith(f".{key}"):
                setting["value"] = value
    return {**changed, "findings": []}


@pytest.mark.parametrize(("name", "key", "value"), DOCTORED)
def test_a_plan_with_a_wrong_value_breaks_its_limit(name: str, key: str, value: str) -> None:
    plans = ((spec, doctored(plan_of(spec), key, value)) for spec in drawn(name, FEW[name]))
    assert any(
        each.limit == DOCTORED[name, key, value]
        for spec, plan in plans
        for each in broken(spec.hosts, spec.groups, plan)
    )


def test_the_sums_share_no_code_with_the_rules() -> None:
    imported: dict[str, set[str]] = {}
    # What Kafka's own classes are asked is held against findings and catalogues.
    asked = {"asking.py", "test_applications.py", "test_clients.py", "test_defaults.py", "test_mirrors.py"}
    for page in Path(__file__).parent.glob("*.py"):
        if page.name in asked:
            continue
        for node in ast.walk(ast.parse(page.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = ("kedge", "verify", "tests")
            found = {n for n in names if n and n.split(".")[0] in ours and not n.startswith("tests.oracle")}
            imported[page.name] = imported.get(page.name, set()) | found
    assert {page: names for page, names in imported.items() if names} == {
        "planning.py": {"kedge.plan.hosts", "kedge.services.planning"}
    }


@pytest.mark.long
@pytest.mark.parametrize("name", SUBJECTS)
def test_thousands_of_inventories_show_nothing_more(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    specs = drawn(name, MANY)
    limits = {each.limit for spec in specs for each in broken(spec.hosts, spec.groups, plan_of(spec))}
    keys = {r.key for spec in specs for r in refusals(spec)}
    rules = {f["rule"] for spec in specs for f, _, _ in left(spec)} if name != "shared" else set()
    asked = {f["rule"] for spec in specs for f in asked_of_itself(spec)}
    quoted = {q.about for spec in specs for q in misquotes(spec)}
    record_property("counted", f"oracle: {len(specs)} inventories of {name}, {plans_made()} plans so far")
    assert limits == set()
    assert keys == set()
    assert rules == set()
    assert asked == set()
    assert quoted == set()
