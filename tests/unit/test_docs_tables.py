"""docs/reference.md, the roles' argument_specs and the example inventory have every variable, as its model has it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from pydantic import BaseModel, ValidationError

from kedge.plan.inventory.clusters import KafkaCluster
from kedge.plan.inventory.misspelt_names import COMMON
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.inventory.variables import OfHost, Shared
from kedge.plan.sources import sources
from kedge.plan.variables import DefaultRule, Since, Strict
from kedge.services.clients.variables import ClientProfile
from kedge.services.host.variables import HostFacts
from kedge.services.registry import SERVICES
from kedge.services.topics.variables import DeclaredTopic, PartitionRates
from tests import rules as rules_page
from tests import sources as sources_page
from tests import supported
from tests.reference import (
    EXTRA,
    PAGE,
    ROOT,
    argument_specs,
    generated_roles,
    inventory_variables,
    page,
    role_variables,
    specs,
    variables,
    with_parts,
)

STALE = "run python -m tests.reference, which writes it"
ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
EXAMPLE = ROOT / "inventories" / "example"
#: Models of the variables that an inventory has, by what begins their names.
MODELS: dict[str, type[BaseModel]] = {
    "": Shared,
    "host_": HostFacts,
    **{f"{service.name}_": service.variables for service in SERVICES if service.variables},
}
ENTRIES: dict[str, type[BaseModel]] = {
    "kafka_topics": DeclaredTopic,
    "kafka_clients": ClientProfile,
    "kafka_partition_rates": PartitionRates,
}


def defaults(role: str) -> dict[str, Any]:
    path = ROOT / "roles" / role / "defaults" / "main.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text()) if path.exists() else {}
    return found


def test_the_reference_is_what_the_models_and_roles_say() -> None:
    assert PAGE.read_text() == page(), f"{PAGE} is stale: {STALE}"


def test_the_page_of_sources_is_made_from_their_file() -> None:
    assert sources_page.PAGE.read_text() == sources_page.page(sources()), "run python -m tests.sources"


def test_the_table_of_real_proxies_is_what_their_runs_came_to() -> None:
    written = supported.PAGE.read_text()
    assert written == supported.page(written, supported.read())


def test_a_cell_of_real_proxies_is_a_run_of_all_its_tests_and_says_what_failed() -> None:
    whole = {"date": "2026-11-27", "passed": 3, "failed": 0}
    runs = {"a": {"x 1": whole, "x 2": whole | {"failed": 1}}, "b": {"x 2": whole}}
    row = "| a | 2026-11-27, 3 tests | 2026-11-27, 4 tests, **1 failed** |"
    assert {row, "| b | not run | 2026-11-27, 3 tests |"} <= set(
        supported.page(supported.PAGE.read_text(), runs).splitlines()
    )


def test_a_part_of_the_tests_of_a_promise_replaces_no_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supported, "_RUNS", tmp_path / "runs.json")
    for passed, kept in ((3, 3), (2, 3), (4, 4)):
        plugin = supported.Promises()
        plugin.counts["a", "x 1"] = Counter(passed=passed)
        plugin.pytest_sessionfinish()
        assert supported.read()["a"]["x 1"]["passed"] == kept


def test_the_page_of_rules_has_every_rule_with_what_it_sets_or_finds() -> None:
    written = rules_page.PAGE.read_text()
    code = rules_page.planned()
    rows = re.findall(r"^\| `([^`]+)` \|", written, flags=re.MULTILINE)
    assert sorted(rows) == sorted(code.keys() | set(rules_page.written()))
    assert written == rules_page.page(code, rules_page.severities(), written), "run python -m tests.rules"


@pytest.mark.parametrize("role", generated_roles())
def test_the_argument_specs_of_a_role_are_what_its_model_says(role: str) -> None:
    path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
    assert path.read_text() == argument_specs(role), f"{path} is stale: {STALE}"


def test_the_reference_has_every_variable_that_an_inventory_may_have() -> None:
    read = {*COMMON, *(name for service in SERVICES for name in (*service.of_role, *service.fields()))}
    named = {v.name for v in inventory_variables()} | {v.name for v in role_variables("plan")} | {*EXTRA}
    assert read - named == set()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_no_variable_that_its_argument_specs_lack(role: str) -> None:
    folders = [ROOT / "roles" / role / part for part in ("tasks", "vars", "defaults")]
    text = "\n".join(path.read_text() for folder in folders for path in folder.glob("*.yml"))
    read = set(re.findall(rf"(?<![\w.'-])({role}_\w+)\b", text))
    made = set(re.findall(r"(?:register|loop_var|index_var):\s*(\w+)", text))
    made |= set(re.findall(r"^\s*(\w+):", text, flags=re.MULTILINE))
    asked = {name for entry in specs(role).values() for name in entry["options"]}
    assert read - made - asked == set()
    assert set(defaults(role)) <= asked


@pytest.mark.parametrize("role", ROLES)
def test_a_default_is_the_same_in_the_role_and_its_argument_specs(role: str) -> None:
    asked = {name: option for entry in specs(role).values() for name, option in entry["options"].items()}
    assert {name: asked[name].get("default") for name in defaults(role)} == defaults(role)


@pytest.mark.parametrize("name", ["example", "local", "local-mirror", "local-streams", "mapr"])
def test_a_role_takes_what_the_plan_takes(name: str) -> None:
    inventory = read_inventory(ROOT / "inventories" / name, SERVICES)
    taken = 0
    for service in SERVICES:
        for host in service.hosts(inventory) if service.variables else ():
            asked = specs(service.name)["main"]["options"]
            given = {k: v for k, v in inventory.hosts[host].items() if k in asked}
            assert ArgumentSpecValidator(asked).validate(given).error_messages == [], (host, service.name)
            taken += len(given)
    assert taken > 0


def test_a_role_refuses_what_its_model_refuses() -> None:
    asked = specs("kafka_rest")["main"]["options"]
    (said,) = (
        ArgumentSpecValidator({"kafka_rest_consumers_via": asked["kafka_rest_consumers_via"]})
        .validate({"kafka_rest_consumers_via": "proxy"})
        .error_messages
    )
    assert "instance, balancer" in said


def test_every_rule_that_gives_a_variable_its_value_is_in_the_table_of_rules() -> None:
    rules = (ROOT / "docs" / "rules.md").read_text()
    named = {v.planned for v in with_parts(inventory_variables()) if v.planned}
    assert {"rest.instances", "rollout.ready", "topics.partitions"} <= named
    assert [rule for rule in sorted(named) if f"| `{rule}` |" not in rules] == []


def test_a_planned_variable_is_told_from_one_that_is_left_out_and_a_late_one_says_since_when() -> None:
    class Toy(Strict):
        given: int
        """Given."""
        left: int | None = None
        """Left."""
        planned: Annotated[int | None, DefaultRule("toy.rule"), Since("1.1")] = None
        """Planned."""

    given, left, planned = variables(Toy, "toy_")
    assert (given.required, left.required, planned.required) == (True, False, False)
    assert (left.planned, planned.planned) == (None, "toy.rule")
    assert planned.said == "Planned. Since 1.1."


#: Imported by others, which set their variables.
IMPORTED = ("restart_batches.yml", "lease.yml", "watch.yml")
PLAYBOOKS = sorted(path.name for path in ROOT.glob("*.yml") if path.name not in IMPORTED)
OF_INVENTORY = {v.name for v in inventory_variables()} | {v.name for v in role_variables("plan")}


def read_by(playbook: str) -> str:
    """Return the text of a playbook with that of a watch; of one that sends loads by itself, with its role's."""
    text = (ROOT / playbook).read_text()
    if "watch.yml" in text:
        text += (ROOT / "watch.yml").read_text()
    role = [path.read_text() for path in (ROOT / "roles" / "trials").glob("[tv]*/*.yml")]
    return "\n".join([text, *role]) if "role: trials" in text else text


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_the_variables_of_command_lines_are_those_of_the_playbooks(playbook: str) -> None:
    text = (ROOT / playbook).read_text()
    listed = {name for name, (playbooks, *_) in EXTRA.items() if playbook in playbooks.split(", ")}
    head = "".join(re.findall(r"(?m)^#.*\n", text))
    assert {*re.findall(r"-e ([a-z_]+)=", head)} - OF_INVENTORY == listed
    may_be_given = re.findall(r"(?<![\w.])([a-z_]+) (?:\| default\(|is (?:not )?defined)", text)
    made = re.findall(r"(?m)^\s*(\w+):", text)
    assert {n for n in may_be_given if not n.startswith("ansible_")} - {*made} - OF_INVENTORY <= listed


@pytest.mark.parametrize("name", EXTRA)
def test_a_variable_of_a_command_line_is_read_with_the_default_that_the_reference_has(name: str) -> None:
    playbooks, _, default, _ = EXTRA[name]
    for playbook in playbooks.split(", "):
        said = read_by(playbook).replace("'", "")
        assert (
            f"{name} | default({default.strip('`')}" in said if default else re.search(rf"\b{name}\b", said)
        )


def example_files() -> list[Path]:
    return sorted(EXAMPLE.rglob("*.yml"))


def test_the_example_inventory_has_every_variable_if_only_in_a_comment() -> None:
    text = "\n".join(path.read_text() for path in example_files())
    lacking = [
        v.name
        for v in with_parts(inventory_variables())
        if not re.search(rf"(?m)(^|[\s{{#-]){v.name.rpartition('.')[2]}(:|  )", text)
    ]
    assert lacking == []


def commented() -> list[tuple[str, Any]]:
    """Return the variables that stand in comments of the example, each with its value."""
    found = []
    known = {v.name for v in inventory_variables()}
    for path in example_files():
        for block in re.findall(r"^# \w+:.*\n(?:#  .*\n)*", path.read_text(), flags=re.MULTILINE):
            text = re.sub(r"^# ", "", block, flags=re.MULTILINE)
            text = re.sub(r"{{ vault_\w+ }}", "secret-of-a-vault", text)
            try:
                value = yaml.safe_load(text)
            except yaml.YAMLError:
                continue  # a sentence
            found += [(k, v) for k, v in value.items() if k in known] if isinstance(value, dict) else []
    return found


@pytest.mark.parametrize(
    ("name", "value"), commented(), ids=lambda part: part if isinstance(part, str) else ""
)
def test_what_the_example_has_in_a_comment_may_be_taken_in(name: str, value: Any) -> None:
    begin = max(
        (b for b in MODELS if name.startswith(b) and name[len(b) :] in MODELS[b].model_fields), default=None
    )
    if begin is None:
        assert name in {
            *OfHost.model_fields,
            "java_version",
            "java_packages",
            "kafka_cache",
            "kafka_lock",
            "occupied_known",
        } or name in {of for service in SERVICES for of in service.of_role}
        return
    errors = wrong(MODELS[begin], {name[len(begin) :]: value}, name[len(begin) :])
    for entry in value if name in ENTRIES else ():
        errors += wrong(ENTRIES[name], entry)
    assert errors == []


def wrong(model: type[BaseModel], given: dict[str, Any], only: str | None = None) -> list[Any]:
    try:
        model.model_validate(given)
    except ValidationError as error:
        return [e for e in error.errors() if only is None or e["loc"][0] == only]
    return []


def test_the_security_that_the_example_has_in_a_comment_may_be_taken_in() -> None:
    text = (EXAMPLE / "group_vars" / "all" / "main.yml").read_text()
    block = re.search(r"(?m)^    # security:\n(    #   .*\n)+", text)
    assert block is not None
    plain = re.sub(r"{{ vault_\w+ }}", "secret-of-a-vault", re.sub(r"(?m)^    # ", "", block.group(0)))
    security = yaml.safe_load(plain)
    assert wrong(KafkaCluster, {"version": "4.1.0", **security}) == []
