"""What a host says of its instances is names of one form: they go on to commands, and to other hosts."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.evidence.border.instances import former, staged
from kedge.evidence.border.untrusted import UntrustedError
from tests.roles import ROOT, play_here

STAGED: dict[str, Any] = {
    "changed": True,
    "diff": [],
    "instances": [
        {
            "name": "8082",
            "release": "0123456789ab",
            "current": None,
            "pending": True,
            "comments": False,
            "edited": False,
            "dropins": [],
            "touched": False,
            "same_rows": True,
            "rows": "",
            "digests": {},
            "in_force": [".package_links", "environment"],
            "active": False,
            "predecessor": "",
        }
    ],
    "pending": ["8082"],
    "restart": [],
    "stale": ["8099"],
    "strange": [],
    "newer_kit": "",
}
FORMER: dict[str, Any] = {
    "instances": [
        {
            "name": "8082",
            "current": "a",
            "release": "",
            "kept": ["a"],
            "wrong": "no previous release is there",
        }
    ],
    "restart": [],
    "stale": [],
    "asked_otherwise": False,
}
NAMES = [
    "8099; id > PWNED #",
    "$(id)",
    "../8082",
    "-rf",
    "a b",
    "8099\n",
    "",
    "a/b",
    "{port}",
    "x" * 201,
    "é",
    "8099\x1b[m",
]


ROW = dict.fromkeys(("file", "key", "value", "rule", "because", "source", "basis"), "a")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (json.dumps([ROW | {"of_a_later_version": 1}]), ["a"]),
        (json.dumps([ROW | {"key": "a\x1b[2J"}]), ["a\\x1b[2J"]),
        ("[]", []),
        # Somebody edited the file: nothing is known of it, and the next deploy writes it anew.
        *((text, None) for text in ("", "[", "{}", "[1]", "[{}]", "[" * 9_000)),
        (json.dumps([ROW | {"digest": "planted"}]), None),
        (json.dumps([ROW] * 10_001), None),
    ],
)
def test_rows_of_a_release_are_what_they_have_to_be_or_none(text: str, keys: list[str] | None) -> None:
    found = rows_of(base64.b64encode(text.encode()).decode())
    assert (found and [row["key"] for row in found]) == keys


@pytest.mark.parametrize("text", ["[]", "W10", "****"])
def test_rows_in_another_form_are_none(text: str) -> None:
    assert rows_of(text) is None


def rows_of(sent: str) -> list[dict[str, Any]] | None:
    rows: list[dict[str, Any]] | None = staged(
        STAGED | {"instances": [STAGED["instances"][0] | {"rows": sent}]}, ["8082"]
    )["instances"][0]["rows"]
    return rows


def test_more_text_than_rows_have_is_not_taken() -> None:
    with pytest.raises(UntrustedError):
        staged(STAGED | {"instances": [STAGED["instances"][0] | {"rows": " " * 4_000_001}]}, ["8082"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["stale", "restart", "pending"])
def test_a_name_that_is_none_is_not_taken(where: str, name: str) -> None:
    with pytest.raises(UntrustedError):
        staged(STAGED | {where: [name]}, ["8082", name])


@pytest.mark.parametrize("key", ["name", "release", "current"])
def test_nor_is_one_of_an_instance(key: str) -> None:
    wrong = [STAGED["instances"][0] | {key: NAMES[0]}]
    with pytest.raises(UntrustedError):
        staged(STAGED | {"instances": wrong}, ["8082", NAMES[0]])


def test_what_is_not_planned_is_no_instance_of_the_plan_and_what_is_does_not_go() -> None:
    for wrong in ({"restart": ["8083"]}, {"pending": ["8083"]}, {"stale": ["8082"]}):
        with pytest.raises(UntrustedError, match=r"8082|8083"):
            staged(STAGED | wrong, ["8082"])
    with pytest.raises(UntrustedError, match="8082"):
        former(FORMER, ["8083"])


def test_what_modules_answer_is_taken_with_texts_that_can_be_shown() -> None:
    found = staged(STAGED | {"strange": ["'a\x1b'"]}, ["8082"])
    assert found == {key: STAGED[key] for key in ("pending", "restart", "stale")} | {
        "instances": [STAGED["instances"][0] | {"rows": None}],
        "strange": ["'a\\x1b'"],
    }
    wrong = [FORMER["instances"][0] | {"wrong": "a\x1b[31mb"}]
    assert former(FORMER | {"instances": wrong}, ["8082"])["instances"][0]["wrong"] == "a\\x1b[31mb"


#: A module as a host that has turned has it.
MODULE = """#!/usr/bin/python
# from ansible.module_utils.basic import AnsibleModule
import json, sys
print(json.dumps(json.loads(%r)))
sys.exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["kedge_release", "kedge_previous_release"])
def test_an_answer_with_such_a_name_fails_the_task_and_is_used_nowhere(tmp_path: Path, module: str) -> None:
    said = (STAGED if module == "kedge_release" else FORMER) | {"stale": [NAMES[0]]}
    (tmp_path / f"{module}.py").write_text(MODULE % json.dumps(said))
    instance = {"name": "8082", "settings": []}
    arguments = {
        "kedge_release": {
            "unit": "kafka-rest",
            "owner": "root",
            "instances": [instance],
            "service": {"description": "a", "exec_start": "/bin/true"},
        },
        "kedge_previous_release": {"unit": "kafka-rest", "names": ["8082"]},
    }[module]
    tasks = [
        {module: arguments, "register": "said", "ignore_errors": True},
        {"ansible.builtin.debug": {"msg": "used {{ said.stale }} {{ said.failed }}"}},
    ]
    plan: dict[str, Any] = {"plan_made": {"secrets": {"settings": {}}, "plan": {}}}
    hosts = {
        "rest1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
        "localhost": plan | {"ansible_connection": "local"},
    }
    done = play_here(
        tmp_path,
        [{"hosts": "rest1", "gather_facts": False, "tasks": tasks}],
        {"all": {"hosts": hosts}},
        ANSIBLE_LIBRARY=f"{tmp_path}:{ROOT / 'plugins' / 'modules'}",
    )
    assert "The host's answer was not taken: no account of " in done.stdout
    assert "used [] True" in done.stdout
    assert "PWNED" not in done.stdout.partition("used ")[2]
