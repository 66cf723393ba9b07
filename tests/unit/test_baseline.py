"""What the last release planned is planned again, or the release that changed it says so."""

from __future__ import annotations

import re

import pytest

from kedge.plan import rules
from tests.baseline import INVENTORIES, KEPT, ROOT, kept, planned, unnamed, version
from tests.baseline import rules as named

#: What to do about a value that is not what the last release planned.
FIX = (
    f"changed since {version()}: give each rule its next release in kedge/plan/rules.py, and name it in "
    f"CHANGELOG.md under that; {version()} is released, so its plans stay as they are"
)


def releases() -> dict[str, str]:
    """Return the changelog's text of each release, after the words of its heading, newest first."""
    sections = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    return {heading: text for heading, _, text in (each.partition("\n") for each in sections)}


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_value_of_the_last_release_changes_only_where_its_rule_says_so(inventory: str) -> None:
    found = unnamed(kept(inventory), planned(inventory))
    assert not found, "\n".join([FIX, *found])


def test_a_rule_comes_and_goes_only_where_a_release_says_so() -> None:
    found = unnamed((KEPT / "rules").read_text().splitlines(), named())
    assert not found, "\n".join([FIX, *found])


def test_what_changed_is_reported_until_its_rule_has_a_later_release(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ["rest.gc | environment | A=1 | rest1", "rest.heap | environment | B=1 | rest1"]
    after = ["rest.gc | environment | A=2 | rest1", before[1]]
    both = ["-rest.gc | environment | A=1 | rest1", "+rest.gc | environment | A=2 | rest1"]
    assert sorted(unnamed(before, after)) == sorted(both)
    monkeypatch.setattr(rules, "CHANGED", {"rest.gc": version()})
    assert sorted(unnamed(before, after)) == sorted(both)
    monkeypatch.setattr(rules, "CHANGED", {"rest.gc": "99.10.0"})
    assert unnamed(before, after) == []


def test_the_changelog_names_each_rule_under_the_release_that_changed_it() -> None:
    text = {heading.split()[0]: said for heading, said in releases().items()}
    missing = [rule for rule, release in rules.CHANGED.items() if f"`{rule}`" not in text.get(release, "")]
    assert missing == []


def test_a_release_that_has_its_date_is_the_one_whose_plans_are_kept() -> None:
    newest = next(iter(releases()))
    assert re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)", newest), newest
    assert newest.endswith("(unreleased)") or newest.split()[0] == version(), "run python -m tests.baseline"
