"""A proxy's package is of the planned version, and what a vendor's unit serves is not stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kedge.services.planning import make_plan
from plugins.filter.kedge import package_versions
from tests.rest_inventories import of_rule, rest
from tests.roles import play_role

pytestmark = pytest.mark.process


def played(
    tmp_path: Path,
    tasks: str,
    wanted: str,
    installed: list[str],
    state: str = "inactive",
    adopt: dict[str, Any] | None = None,
) -> str:
    """Play tasks of the role on this machine, with a stub of systemctl; return what was printed."""
    stub = tmp_path / "bin" / "systemctl"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho {state}\n[ {state} = active ]\n")
    stub.chmod(0o755)
    software = {"package": "confluent-kafka-rest", "package_version": wanted}
    variables = {"_kafka_rest_software": software, "_kafka_rest_installed": installed, "_kafka_rest_file": ""}
    instance = {"name": "8082", "software": {"adopt": adopt} if adopt else {}}
    variables |= {"_kafka_rest_planned": [instance]}
    path = {"PATH": f"{stub.parent}:{os.environ['PATH']}"}
    done = play_role(tmp_path, "kafka_rest", tasks, variables, path)
    said = " ".join(done.stdout.split())
    assert ("failed=1" in said) is (done.returncode != 0), done.stdout + done.stderr
    return said


def test_a_vendors_unit_that_serves_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    said = played(tmp_path, "install_package", "8.3.1*", [], state="active")
    assert "confluent-kafka-rest.service runs, and Kedge would stop it in mid-request" in said
    assert "Install the proxy" not in said


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("confluent-kafka-rest.service", "is installed as nothing, and the plan is for 8.3.1*"),
        ("theirs.service", "and Kedge would stop it in mid-request"),
    ],
)
def test_a_vendors_unit_that_is_taken_over_serves_on_and_its_package_is_not_changed_under_it(
    tmp_path: Path, unit: str, said: str
) -> None:
    adopt = {"port": 8082, "unit": unit}
    found = played(tmp_path, "install_package", "8.3.1*", [], state="active", adopt=adopt)
    assert said in found
    assert "Install the proxy" not in found


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
