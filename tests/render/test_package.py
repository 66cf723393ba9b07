"""A proxy's package is of the planned version, and what a vendor's unit serves is not stopped."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from kedge.services.planning import make_plan
from plugins.filter.kedge import package_versions
from tests.rest_inventories import of_rule, rest
from tests.roles import play_role

pytestmark = pytest.mark.process


def software(wanted: str, installed: list[str], adopt: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a host's variables: the package that is planned and the versions that are installed."""
    return {
        "of_software": {"package": "confluent-kafka-rest", "package_version": wanted},
        "of_installed": installed,
        "of_planned": [{"name": "8082", "software": {"adopt": adopt} if adopt else {}}],
    }


def played(
    tmp_path: Path, tasks: str, hosts: dict[str, dict[str, Any]], state: str = "inactive"
) -> dict[str, str]:
    """Play tasks of the role for hosts that are all this machine, with a stub of systemctl.

    Return why each failed that did, and under an empty name all that was printed.
    """
    stub = tmp_path / "bin" / "systemctl"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho {state}\n[ {state} = active ]\n")
    stub.chmod(0o755)
    path = {"PATH": f"{stub.parent}:{os.environ['PATH']}"}
    # A role's own variables go before a host's, and those of the command line before both.
    variables = {
        f"_kafka_rest_{name}": f"{{{{ of_{name} }}}}" for name in ("software", "installed", "planned")
    }
    said = play_role(tmp_path, "kafka_rest", tasks, variables | {"_kafka_rest_file": ""}, path, hosts).stdout
    failed = re.findall(r"^(\w+) +:.* failed=1 ", said, flags=re.MULTILINE)
    words = re.split(r"^(?:fatal|failed): \[(\w+)\]", said, flags=re.MULTILINE)
    why = {host: " ".join(text.split()) for host, text in zip(words[1::2], words[2::2], strict=True)}
    assert why.keys() == {*failed}, said
    assert re.findall(r"^(\w+) +: ok=", said, flags=re.MULTILINE) == [*hosts], said
    return {**why, "": said}


def test_a_vendors_unit_that_serves_is_not_stopped_and_nothing_is_installed_under_it(tmp_path: Path) -> None:
    units = {"first": None, "own": "confluent-kafka-rest.service", "theirs": "theirs.service"}
    hosts = {
        name: software("8.3.1*", [], {"port": 8082, "unit": unit} if unit else None)
        for name, unit in units.items()
    }
    why = played(tmp_path, "install_package", hosts, state="active")
    for name in ("first", "theirs"):
        assert "confluent-kafka-rest.service runs, and Kedge would stop it in mid-request" in why[name]
    # It is taken over.
    assert "is installed as nothing, and the plan is for 8.3.1*" in why["own"]
    assert "Install the proxy" not in why[""]


def test_the_installed_version_is_held_against_the_planned_one(tmp_path: Path) -> None:
    fits = {
        "a": software("8.3.1*", ["8.3.1-1"]),
        "b": software("8.3.1*", ["1:8.3.1"]),
        "c": software("8.3.1-2", ["8.3.1-2"]),
    }
    others = {"d": software("8.3.1*", ["8.3.10-1"]), "e": software("8.3.1-2", ["8.3.1-1"])}
    why = played(tmp_path, "check_package", fits | others)
    assert why.keys() == {"d", "e", ""}
    assert "is installed as 8.3.10-1, and the plan is for 8.3.1*" in why["d"]
    assert "is installed as 8.3.1-1, and the plan is for 8.3.1-2" in why["e"]


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
