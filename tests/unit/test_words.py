"""Docs, messages, plans, reports and task names use the field's terms, not words of this project alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.unit.test_messages import ROOT, of_handlers, of_python, of_yaml, tasks

#: A private word or phrase, and the term that a reader knows.
TERMS: Final = {
    r"(?<![A-Z_`/])\bhomes?\b": "owning instance, failback",
    r"\b(chosen|(?<!server-)generated) (names?|ids?)\b": "client-set, server-generated id",
    r"\b(teach\w*|learns|learned)\b": "replicate the stick table",
    r"\blet(s|ting)? go of\b": "deregister",
    r"\b(goes|go|went|going) (first|ahead)\b": "canary instance",
    r"\bwaves?\b": "batch",
    r"(?<!take )(?<!taken )(?<!takes )(?<!took )(?<!right )(?<!straight )(?<!pen )\baway\b": "unavailable, down",
    r"\bat once\b": "max unavailable, immediately, together",
    r"\b(no|spare) room\b|\brooms\b": "headroom; package",
    r"\bstall(s|ed)?\b": "delivery gap",
    r"\bownerless\b": "unassigned",
    r"\bshare[sd]? out\b|\bout anew\b": "rebalance",
    r"\b(three|of|\d+|one) looks?\b|\blooks (in|of)\b": "sample",
    r"\btold\b": "reported",
    r"\balike\b": "identical",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bbeside (the )?heap\b": "native overhead",
    r"\bhouse\b": "layout",
    r"\byours\b": "override",
    r"\bstock\b": "defaults",
    r"\blanding\b": "ingest",
    r"\bfold(s|ed|ing)?\b": "aggregate",
    r"\b(arms?|trials?)\b": "variant, load test",
    r"\bcarr(y|ies|ied|ying)\b": "sustain",
    r"\b(the|this) kit\b|\bkit's\b": "Kedge",
    r"\bdoubles of\b|\ba double\b": "stub",
    r"\bput(s|ting)? .{0,30}in force\b": "activate",
}
#: What a computer reads: code, commands and addresses.
CODE = re.compile(r"^```.*?^```|^    \S.*?$|`[^`\n]*`|\]\([^)]*\)", flags=re.DOTALL | re.MULTILINE)
#: What a person reads of an inventory: the reference, arguments of roles, the example.
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "sources.md"),
    *sorted((ROOT / "bench").rglob("*.md")),
    *sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")),
    *sorted((ROOT / "inventories" / "example").rglob("*.yml")),
]
#: Packages whose strings are printed in plans, reports and messages.
PRINTING = ("sizing", "spark_checks", "comparison", "border", "trials", "local", "bench")
#: What a string has of names: options, variables, modules, files.
NAMES = re.compile(
    r"`[^`]*`|-m [\w.]+|roles/\w+|[\w./]+\.(?:yml|py|md|json)|(?:-e )?\b[\w.]+=\S*|\w+_\w+|--[\w-]+"
)
TEMPLATES = [
    *sorted((ROOT / "spark_checks/report").glob("*.j2")),
    ROOT / "verify/measure/page.html.j2",
    ROOT / "sizing/plan_page.html.j2",
]
#: Words that a page may use, with the reason.
ALLOWED = {
    ("docs/architecture.md", "trials"): "the package's name",
    ("docs/measurements/README.md", "trials"): "the page's name",
    ("bench/rebalance/__main__.py", "at once"): "a value of the evidence's summary",
    ("docs/checks.md", "homes"): "the evidence table's name",
    ("roles/trials/meta/argument_specs.yml", "trials"): "the role's name",
    ("roles/trials/meta/argument_specs.yml", "arms"): "a variable",
    ("roles/trials/meta/argument_specs.yml", "away"): "a value of trials_conditions",
    ("roles/trials/meta/argument_specs.yml", "stock"): "a value of arms",
    ("sizing/inventory/checks.py", "stock"): "a value of advice",
    ("spark_checks/rebalance/ownership.py", "at once"): "a value of the evidence's summary",
}


def private(where: str, text: str) -> list[str]:
    """Return each private word of a text, with the term in its place."""
    return [
        f"{where}: {found[0]!r}, say {term}: ...{text[max(0, found.start() - 40) : found.end() + 20]!r}"
        for word, term in TERMS.items()
        for found in re.finditer(word, text, flags=re.IGNORECASE)
        if (where, found[0].lower()) not in ALLOWED
    ]


def printed(tree: ast.Module) -> Iterator[str]:
    """Return the strings of a module that have words, but docstrings."""
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield "" if id(node) in documented else NAMES.sub("", node.value)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_uses_the_terms_of_the_field(page: Path) -> None:
    assert private(str(page.relative_to(ROOT)), CODE.sub("", page.read_text())) == []


def test_messages_use_the_terms_of_the_field() -> None:
    for message in [*of_python(), *of_handlers(), *of_yaml()]:
        assert (
            private(message.where, re.sub(r"`[^`]*`|\{\{.*?\}\}|[\w/]+\.(yml|py|md|json)", "", message.text))
            == []
        )


@pytest.mark.parametrize("package", PRINTING)
def test_what_is_printed_uses_the_terms_of_the_field(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        for text in printed(ast.parse(path.read_text())):
            assert private(str(path.relative_to(ROOT)), text) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.parent.name)
def test_the_templates_of_reports_use_the_terms_of_the_field(template: Path) -> None:
    words = re.sub(r"\{[{%#].*?[}%#]\}|<style.*?</style>|<script.*?</script>|<[^>]*>", " ", template.read_text(),
                   flags=re.DOTALL)  # fmt: skip
    assert private(str(template.relative_to(ROOT)), words) == []


def test_names_of_tasks_and_plays_say_the_action_in_the_terms_of_the_field() -> None:
    paths = [*ROOT.glob("*.yml"), *ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("molecule/*/*.yml")]
    for path in sorted(paths):
        document = yaml.safe_load(path.read_text())
        for task in tasks(document) if isinstance(document, list) else ():
            name = str(task.get("name", ""))
            assert private(str(path.relative_to(ROOT)), name) == []
            assert not name.startswith("Have "), f"{path}: {name}"


def test_a_private_word_is_found_and_code_is_left_alone() -> None:
    assert len(private("x", "The kit tells a consumer its home.")) == 2
    assert private("x", CODE.sub("", "Set `rollout.at_once`, see [a page](home.md).")) == []
