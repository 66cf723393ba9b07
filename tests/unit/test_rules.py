"""docs/rules.md has every rule of the code, once, with the forms of its advice; and no other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules import SEVERITIES, Rule, page, planned, severities, written

TABLE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
MEASURED, DOCUMENTED, ASKED, FOUND = (
    "Advice that was measured",
    "Advice of the documents as it stands",
    "What the components ask for",
    "Findings",
)
#: How the code's sources begin for each of the documents.
DOCUMENTS = (
    "Confluent REST Proxy production guide",
    "MapR article",
    "Jetty 9.4 documentation",
    "MirrorMaker Performance Tuning",
    "A Journey of Performance Tuning",
    "Configure Kafka for High Throughput",
)


def table() -> dict[str, list[str]]:
    """Return the rules of each section."""
    sections = TABLE.read_text().split("\n## ")[1:]
    return {s.partition("\n")[0]: re.findall(r"^\| `([^`]+)` \|", s, flags=re.MULTILINE) for s in sections}


@pytest.fixture(scope="module")
def code() -> Iterator[dict[str, Rule]]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield planned(monkeypatch)


def test_the_table_has_every_rule_of_the_code_once_and_no_other(code: dict[str, Rule]) -> None:
    rows = Counter(rule for rules in table().values() for rule in rules)
    assert [rule for rule, times in rows.items() if times > 1] == []
    assert rows.keys() == code.keys() | set(written())


def test_the_rules_with_a_measured_form_stand_with_it(code: dict[str, Rule]) -> None:
    rows = set(table()[MEASURED])
    assert {rule for rule, seen in code.items() if seen.measured} == rows & code.keys()
    for rule in rows & code.keys():
        said = next(line for line in TABLE.read_text().splitlines() if line.startswith(f"| `{rule}` |"))
        assert ("not named" in said.split("|")[2]) is not code[rule].documented, rule


def test_the_page_has_the_keys_that_each_rule_sets_and_the_severities_of_findings(
    code: dict[str, Rule],
) -> None:
    assert TABLE.read_text() == page(code, severities(), TABLE.read_text()), "run python -m tests.rules"


def test_severities_are_those_that_a_finding_can_have() -> None:
    raised = severities()
    # By name, by a name that holds the method, by a helper with the caller's severity, by a field.
    for rule, found in {
        "inventory.port": {"error"},
        "topics.leaders": {"warning", "note"},
        "keys.unknown": {"error", "warning"},
        "broker.keys": {"warning"},
        "rest.keys": {"error", "warning"},
        "inventory.archive": {"error", "warning"},
        "rest.capacity": {*SEVERITIES},
        "clients.acks": {"error"},
    }.items():
        assert raised[rule] == found, rule
    assert [rule for rule in table()[FOUND] if not raised.get(rule)] == []


def test_a_rule_that_a_later_release_changed_says_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rules.CHANGED", {"a.rule": "0.2.0"})
    rules = {"a.rule": Rule(keys={"k"}), "b.rule": Rule(keys={"k", "b"})}
    rows = "| `a.rule` | a |  |\n| `b.rule` | b | old |\n\n## Findings\n| `c.rule` | note | c |\n"
    assert page(rules, {"c.rule": {"note", "error"}}, rows) == (
        "| `a.rule` | a | `k`; since 0.2.0 |\n| `b.rule` | b | `b`, `k` |\n\n## Findings\n"
        "| `c.rule` | error, note | c |\n"
    )


def test_what_the_documents_say_and_nothing_measured_changed_stands_apart(code: dict[str, Rule]) -> None:
    of_documents = {
        rule
        for rule, seen in code.items()
        if not seen.measured and any(source.startswith(DOCUMENTS) for source in seen.sources)
    }
    assert of_documents == set(table()[DOCUMENTED])


def test_a_rule_that_sets_nothing_is_a_finding(code: dict[str, Rule]) -> None:
    assert set(table()[ASKED]) <= code.keys()
    assert not set(table()[FOUND]) & code.keys()
