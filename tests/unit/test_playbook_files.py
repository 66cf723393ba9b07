"""What a playbook's files have to keep to, which neither Ansible nor its linter sees."""

from __future__ import annotations

import builtins
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

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


@pytest.mark.parametrize("there", [True, False])
def test_haproxy_is_installed_and_its_own_unit_masked_where_it_is_missing(there: bool) -> None:
    found = {"stat": {"exists": there}}
    tasks = yaml.safe_load((ROOT / "roles/rest_balancer/tasks/install.yml").read_text())
    done = [
        next(key for key in task if key.startswith("ansible.builtin."))
        for task in tasks
        if _value(task.get("when", "true"), _rest_balancer_found=found)
    ]
    missing = [
        "ansible.builtin.file",
        "ansible.builtin.include_role",
    ]  # in this order: the package starts its unit
    assert done == ["ansible.builtin.stat", *([] if there else missing)]


def _value(expression: str, **variables: Any) -> Any:
    return Environment().compile_expression(expression)(**variables)


def _tasks(tasks: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from _tasks(task.get(part))


def test_packages_are_installed_in_one_place_which_reads_empty_or_old_lists_anew() -> None:
    installing = {
        path.relative_to(ROOT / "roles").parts[0]
        for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
        for task in _tasks(yaml.safe_load(path.read_text()))
        if task.get("ansible.builtin.package", {}).get("state") == "present"
    }
    assert installing == {"packages"}
    (block,) = yaml.safe_load((ROOT / "roles/packages/tasks/main.yml").read_text())
    (again,) = block["rescue"]
    assert [task.get("ansible.builtin.apt") for task in again["block"]] == [
        None,
        {"update_cache": True},
        None,
    ]


def test_the_image_for_awx_has_the_ansible_of_the_lock() -> None:
    image = yaml.safe_load((ROOT / "requirements/execution-environment.yml").read_text())
    assert image["dependencies"]["ansible_core"]["package_pip"] in (ROOT / "requirements.txt").read_text()


@pytest.mark.parametrize(
    ("missing", "said"), [("kedge", f"PYTHONPATH={ROOT} (docs/ci.md)"), ("pydantic", "make setup installs")]
)
def test_plugins_without_the_kit_say_in_a_line_what_to_run(
    missing: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = builtins.__import__

    def lacks(name: str, *rest: Any) -> Any:
        if name.startswith("kedge."):
            raise ModuleNotFoundError(name, name=missing)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacks)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "plugins/callback/kedge_events.py"))
    assert "No host was touched. Run " in str(ended.value.code)
    assert str(ended.value.code).endswith(said)
    assert len(str(ended.value.code).splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "played"),
    [
        ({"verify_steps": "state"}, set[str]()),
        ({"verify_steps": "load"}, {"Hold what is verified", "Load the deployment"}),
        ({}, {"Hold what is verified", "Load the deployment", "Restart the service while the load runs"}),
    ],
)
def test_what_verify_does_to_a_deployment_is_what_was_asked_for(
    given: dict[str, str], played: set[str]
) -> None:
    names = {"Hold what is verified", "Load the deployment", "Restart the service while the load runs"}
    plays = yaml.safe_load((ROOT / "verify.yml").read_text())
    steps = [step for play in plays for step in (play, *play.get("tasks", ())) if step["name"] in names]
    assert {step["name"] for step in steps} == names
    assert {s["name"] for s in steps if Environment().compile_expression(s["when"])(given)} == played
