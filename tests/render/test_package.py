"""A proxy's package is of the planned version, and what a vendor's unit serves is not stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.filter.kedge import package_versions
from sizing.plan import make_plan
from tests.rest_inventories import of_rule, rest

ROOT = Path(__file__).resolve().parents[2]


def played(tmp_path: Path, tasks: str, wanted: str, installed: list[str], state: str = "inactive") -> str:
    """Play tasks of the role on this machine, with a stub of systemctl; return what was printed."""
    stub = tmp_path / "bin" / "systemctl"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho {state}\n[ {state} = active ]\n")
    stub.chmod(0o755)
    software = {"package": "confluent-kafka-rest", "package_version": wanted}
    variables = {"_kafka_rest_software": software, "_kafka_rest_installed": installed, "_kafka_rest_file": ""}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {
                "ansible.builtin.include_role": {
                    "name": "kafka_rest",
                    "tasks_from": tasks,
                    "rolespec_validate": False,
                }
            }
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            *("-i", "localhost,", "-c", "local", tmp_path / "play.yml"),
            *("-e", json.dumps(variables | {"ansible_python_interpreter": sys.executable})),
        ],
        cwd=ROOT,
        env=os.environ
        | {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join(done.stdout.split())
    assert ("failed=1" in said) is (done.returncode != 0), done.stdout + done.stderr
    return said


def test_a_vendors_unit_that_serves_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    said = played(tmp_path, "install_package", "8.3.1*", [], state="active")
    assert "confluent-kafka-rest.service runs, and Kedge would stop it in mid-request" in said
    assert "Install the proxy" not in said


@pytest.mark.parametrize(
    ("wanted", "installed", "fits"),
    [
        ("8.3.1*", "8.3.1-1", True),
        ("8.3.1*", "1:8.3.1", True),
        ("8.3.1*", "8.3.10-1", False),
        ("8.3.1-2", "8.3.1-1", False),
        ("8.3.1-2", "8.3.1-2", True),
    ],
)
def test_the_installed_version_is_held_against_the_planned_one(
    tmp_path: Path, wanted: str, installed: str, fits: bool
) -> None:
    said = played(tmp_path, "check_package", wanted, [installed])
    assert (f"is installed as {installed}, and the plan is for {wanted}" not in said) is fits


def test_versions_are_read_as_package_managers_write_them() -> None:
    assert package_versions([{"version": "8.3.1-1"}, {"version": "8.3.1", "release": "1"}]) == ["8.3.1-1"] * 2


def test_a_pinned_version_of_another_release_or_of_an_archive_is_an_error() -> None:
    def wrong(**role: str) -> list[str]:
        inventory = rest(package_version="8.3.1-1", **role)
        found = of_rule(make_plan(inventory), "inventory.variable", "error")
        return [f.message for f in found if "package_version" in f"{f.where} {f.message}"]

    assert wrong(install="package") == []
    assert len(wrong(install="package", version="8.2.0")) == 1
    assert len(wrong()) == 1
