"""The house keeps its order: imports go one way (`make lint` holds the arrows), and no path is mended."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sizing.services import SERVICES

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "evidence",
    "border",
    "comparison",
    "sizing",
    "control",
    "spark_checks",
    "plugins",
    "verify",
    "trials",
    "local",
    "bench",
)
#: What a process of the load imports: it must not carry Spark.
LOAD = "evidence.load_options, evidence.writing, verify.load.worker, verify.watch.watchers, verify.collect.remote"


def test_no_module_mends_the_path_that_python_imports_from() -> None:
    sources = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(sources) > 200
    assert [str(file.relative_to(ROOT)) for file in sources if "sys.path" in file.read_text()] == []


def test_every_exception_to_a_rule_of_security_has_its_reason_beside_it() -> None:
    exceptions = re.compile(r"# noqa:[^#]*\bS\d{3}\b(?! - \S)|# nosec")
    sources = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    found = [f"{file.relative_to(ROOT)}: {line.strip()}" for file in sources
             for line in file.read_text().splitlines() if exceptions.search(line)]  # fmt: skip
    assert found == []
    lint = (
        (ROOT / "pyproject.toml")
        .read_text()
        .split("[tool.ruff.lint]")[1]
        .split("[tool.mypy]")[0]
        .splitlines()
    )
    bare = [line for before, line in pairwise(lint)
            if re.search(r'"S\d*"', line) and not line.startswith("select") and "#" not in before + line]  # fmt: skip
    assert bare == []


@pytest.mark.process
def test_a_process_of_the_load_imports_no_spark() -> None:
    code = f"import sys, {LOAD}; print(sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pyspark" not in done.stdout
    assert "evidence" in done.stdout


def test_no_play_that_is_local_delegates_a_task_to_a_host() -> None:
    """A delegated task takes over the play's connection, unless the host's variables name another."""
    plays = [(path, play) for path in ROOT.glob("*.yml") for play in yaml.safe_load(path.read_text())]
    assert any(play.get("connection") == "local" for _, play in plays)
    wrong = [
        f"{path.name}: {task['name']}"
        for path, play in plays
        if play.get("connection") == "local"
        for task in play.get("tasks", [])
        if task.get("delegate_to", "localhost") != "localhost"
    ]
    assert wrong == []


def test_a_pattern_has_a_single_backslash_whatever_quotes_it_stands_in() -> None:
    """Ansible takes each backslash of an expression as it is: two would look for one in the text."""
    files = [*ROOT.glob("*.yml"), *(ROOT / "roles").rglob("*.yml")]
    texts = [(path.name, text) for path in files for text in _texts(yaml.safe_load(path.read_text()))]
    assert any("\\Z" in text for _, text in texts)
    assert [(path, text) for path, text in texts if re.search(r"\\\\\w", text)] == []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def test_a_fact_of_a_role_is_no_variable_of_a_service() -> None:
    """A second plan of the same run, as compare.yml makes, reads a host's facts beside its variables."""
    prefixes = tuple(f"{service.name}_" for service in SERVICES)
    facts = [
        (path, name)
        for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
        for task in _tasks(yaml.safe_load(path.read_text()))
        for name in task.get("ansible.builtin.set_fact", {})
    ]
    assert len(facts) > 5
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in facts if name.startswith(prefixes)] == []


def _tasks(tasks: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from _tasks(task.get(part))
