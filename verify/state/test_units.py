"""The units of all services: how exposed they are, and what systemd does when one ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from kedge.services.registry import SERVICES
from verify.state.conftest import name_of

testinfra_hosts = ["ansible://all"]
#: Service to its unit, an instance's name in the place of the star; what has none is not a process of ours.
UNITS = {one.name: f"{one.name.replace('_', '-')}@*" for one in SERVICES if one.plan is not None}
#: systemd's own measure, from 0 to 10; what is below 2 it calls OK.
MOST_EXPOSED = 2.0
LIMITS = ("MemoryMax", "LimitNOFILE", "TasksMax")
#: A limit of a unit -> the files in which the kernel has it, with cgroups of version 2 and 1.
ENFORCED = {
    "MemoryMax": ("/sys/fs/cgroup{unit}/memory.max", "/sys/fs/cgroup/memory{unit}/memory.limit_in_bytes"),
    "TasksMax": ("/sys/fs/cgroup{unit}/pids.max", "/sys/fs/cgroup/pids{unit}/pids.max"),
}
BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def units(plan: dict[str, Any], host: Any) -> list[str]:
    """The units of the services that the plan has on a host; not those that a vendor's control runs."""
    of_host = plan["hosts"].get(name_of(host), {"services": {}})["services"]
    return [
        UNITS[service].replace("*", instance["name"])
        for service, part in of_host.items()
        if service in UNITS
        for instance in part["instances"]
        if "control" not in instance.get("software", {})
    ]


def settings(plan: dict[str, Any], host: Any) -> Iterator[dict[str, Any]]:
    """The settings of all instances that the plan has on a host."""
    of_host = plan["hosts"].get(name_of(host), {"services": {}})["services"]
    return (s for part in of_host.values() for i in part["instances"] for s in i["settings"])


def shown(host: Any, unit: str, what: str) -> str:
    return str(host.check_output("systemctl show -P %s %s", what, unit))


def test_no_unit_is_exposed_more_than_it_has_to_be(host: Any, plan: dict[str, Any]) -> None:
    found = {}
    for unit in units(plan, host):
        said = host.check_output("systemd-analyze security --no-pager %s", f"{unit}.service")
        found[unit] = float(said.splitlines()[-1].partition(".service:")[2].split()[0])
    assert {unit: level for unit, level in found.items() if level > MOST_EXPOSED} == {}


def test_a_unit_that_fails_is_started_again_and_one_that_hangs_is_ended(
    host: Any, plan: dict[str, Any]
) -> None:
    for unit in units(plan, host):
        assert shown(host, unit, "Restart") == "on-failure", unit
        assert shown(host, unit, "RestartUSec") not in ("0", "100ms"), unit
        assert shown(host, unit, "TimeoutStopUSec") != "infinity", unit


def test_a_jvm_that_ends_by_sigterm_has_not_failed(host: Any, plan: dict[str, Any]) -> None:
    for unit in units(plan, host):
        assert "143" in shown(host, unit, "SuccessExitStatus").split(), unit


def test_each_unit_runs_as_a_user_of_its_own(host: Any, plan: dict[str, Any]) -> None:
    for unit in units(plan, host):
        assert shown(host, unit, "User") not in ("", "root"), unit


def test_each_unit_has_its_own_drop_in_and_no_other(host: Any, plan: dict[str, Any]) -> None:
    found: dict[str, list[str]] = {}
    for unit in units(plan, host):
        own = f"/etc/systemd/system/{unit}.service.d/10-kedge.conf"
        planned = any(setting["file"] == own for setting in settings(plan, host))
        read = shown(host, unit, "DropInPaths").split()
        assert not planned or own in read, (unit, "not linked")
        # A person's own, by systemctl edit, is no fault, and has to be seen.
        if others := [path for path in read if path != own]:
            found[unit] = others
    if found:
        pytest.skip(f"other drop-ins count as well: {found}")


def planned_limits(plan: dict[str, Any], host: Any) -> Iterator[tuple[str, str, str]]:
    """Unit, limit and value of each planned limit; what a vendor's control runs is no unit of ours."""
    for setting in settings(plan, host):
        path = PurePosixPath(setting["file"])
        unit = path.parent.name.removesuffix(".service.d")
        if setting["key"] in LIMITS and path.name == "10-kedge.conf" and unit in units(plan, host):
            yield unit, setting["key"], in_bytes(str(setting["value"]))


def test_planned_limits_are_in_force(host: Any, plan: dict[str, Any]) -> None:
    for unit, limit, value in planned_limits(plan, host):
        assert shown(host, unit, limit) == value, (unit, limit)


def test_the_kernel_holds_each_unit_to_its_memory_and_tasks(host: Any, plan: dict[str, Any]) -> None:
    not_held = set()
    for unit, limit, value in planned_limits(plan, host):
        group = shown(host, unit, "ControlGroup")
        files = [host.file(path.format(unit=group)) for path in ENFORCED.get(limit, ())]
        held = [str(file.content_string).strip() for file in files if file.exists]
        assert held in ([value], []), (unit, limit)
        if files and not held:
            not_held.add(limit)
    if not_held:
        pytest.skip(f"not enforced on this host: {', '.join(sorted(not_held))}; systemd has no such cgroup")


def in_bytes(value: str) -> str:
    """A number of bytes, as systemd tells it."""
    match = re.fullmatch(r"(\d+)([KMG])", value)
    return str(int(match[1]) * BYTES[match[2]]) if match else value
