"""What a playbook's files have to keep to, which neither Ansible nor its linter sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kedge.services.registry import SERVICES

ROOT = Path(__file__).resolve().parents[2]


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
