"""A balancer that is not Kedge's is told by a person's own commands before an instance stops, and after it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kedge.services.planning import make_plan
from tests.rest_inventories import of_rule, rest
from tests.roles import ROOT, play_role

pytestmark = pytest.mark.process

OTHER = {"url": "http://lb:80", "sticky": True}

#: A stub of the module that stops, starts and awaits an instance: it notes that it was called.
STUB = """#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
names = "unit service instances ready secrets foreign controls adopts members ready_seconds state"
module = AnsibleModule(argument_spec={name: {"type": "raw"} for name in names.split()})
with open(os.environ["STEPS"], "a") as steps:
    steps.write("restart\\n")
module.fail_json(msg="not ready") if os.environ.get("NEVER_READY") else module.exit_json(changed=True)
"""


def restarted(tmp_path: Path, drain_status: int = 0, **environment: str) -> tuple[list[str], bool]:
    """Play the restart of an instance on this machine; return the steps in their order, and whether it went well."""
    steps = tmp_path / "steps"
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "kedge_instance.py").write_text(STUB)
    command = tmp_path / "balancer command"
    command.write_text(f'#!/bin/sh\necho "$@" >> \'{steps}\'\n[ "$1" != drain ] || exit {drain_status}\n')
    command.chmod(0o755)
    variables: dict[str, Any] = {
        "instances_unit": "kafka-rest",
        "instances_service": "kafka_rest",
        "instances_user": "kafka-rest",
        "instances_units": {},
        "instances_does": "restart",
        "instances_planned": [{"name": "8082", "port": 8082}],
        "instances_own_drain": [str(command), "drain", "{host}", "{address}:{port}; touch x"],
        "instances_own_undrain": [str(command), "undrain", "{host}:{port}"],
        "_instances_rollout": {"ready_seconds": 1, "gate_seconds": 1, "gate_max_lag": 1},
    }
    done = play_role(
        tmp_path,
        "instances",
        "roll",
        variables,
        {
            "ANSIBLE_LIBRARY": f"{tmp_path / 'library'}:{ROOT / 'plugins' / 'modules'}",
            "STEPS": str(steps),
            **environment,
        },
        host={"rest1": {"ansible_connection": "local", "ansible_host": "10.0.0.9"}},
    )
    assert steps.exists(), done.stdout + done.stderr
    return steps.read_text().splitlines(), done.returncode == 0


DRAIN, UNDRAIN = "drain rest1 10.0.0.9:8082; touch x", "undrain rest1:8082"


def test_an_instance_is_drained_restarted_and_put_back_by_commands_of_ones_own(tmp_path: Path) -> None:
    assert restarted(tmp_path) == ([DRAIN, "restart", UNDRAIN], True)


def test_an_instance_that_cannot_be_drained_is_not_stopped(tmp_path: Path) -> None:
    assert restarted(tmp_path, drain_status=1) == ([DRAIN, UNDRAIN], False)


def test_an_instance_that_does_not_become_ready_is_put_back_and_fails_the_play(tmp_path: Path) -> None:
    assert restarted(tmp_path, NEVER_READY="1") == ([DRAIN, "restart", UNDRAIN], False)


@pytest.mark.parametrize(
    ("commands", "wrong"),
    [
        ({"drain": ["lb", "{port}"], "undrain": ["lb", "{port}"]}, None),
        ({"drain": ["lb", "{port}"]}, "undrain"),
        ({"undrain": ["lb", "{port}"]}, "drain"),
        ({"drain": ["lb"], "undrain": ["lb", "{port}"]}, "names no instance"),
        ({"drain": "lb {port}", "undrain": ["lb", "{port}"]}, "drain"),
    ],
)
def test_commands_of_a_balancer_are_checked_by_the_plan(commands: dict[str, Any], wrong: str | None) -> None:
    found = of_rule(make_plan(rest(balancer=OTHER | commands)), "inventory.variable", "error")
    assert (not found) if wrong is None else wrong in f"{found[0].where} {found[0].message}"


def test_a_name_from_a_host_reaches_no_command_here(tmp_path: Path) -> None:
    pwned, drained = tmp_path / "PWNED", tmp_path / "drained"
    names = [f"8099; id > {pwned} #", f"$(id>{pwned})", "8099", f"8099\nid > {pwned}", "8099\n", "old"]
    variables: dict[str, Any] = {
        "instances_own_drain": ["sh", "-c", f"echo {{port}} >> {drained}"],
        "instances_unit": "kafka-rest",
        "instances_service": "kafka_rest",
        "instances_staged": {"stale": names},
    }
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "kedge_instance.py").write_text(STUB)
    done = play_role(
        tmp_path,
        "instances",
        "remove_stale",
        variables,
        {
            "ANSIBLE_LIBRARY": f"{tmp_path / 'library'}:{ROOT / 'plugins' / 'modules'}",
            "STEPS": str(tmp_path / "steps"),
        },
        host={"rest1": {"ansible_connection": "local"}},
    )
    assert done.returncode == 0, done.stdout
    assert not pwned.exists()
    assert drained.read_text() == "8099\n"
