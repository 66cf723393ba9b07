"""The mirrors of a host: units, what they have come to, modes, memory limits, ports, folders of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kedge.services.mirror.probe import mirror_probe
from plugins.module_utils.journal import missing_step
from verify.state.conftest import Instances, opened, value

testinfra_hosts = ["ansible://mirror_maker"]
Planned = Callable[[str], Instances]
USER = "mirror-maker"


def shown(host: Any, instance: dict[str, Any], name: str) -> str:
    return str(host.check_output(f"systemctl show -P {name} %s", f"mirror-maker@{instance['name']}"))


def test_each_process_is_a_running_unit_that_starts_with_the_host(host: Any, planned: Planned) -> None:
    for instance in planned("mirror_maker"):
        unit = host.service(f"mirror-maker@{instance['name']}")
        assert unit.is_running, unit
        assert unit.is_enabled, unit


def test_each_process_has_come_to_mirror(host: Any, planned: Planned) -> None:
    for instance in planned("mirror_maker"):
        invocation = shown(host, instance, "InvocationID")
        printed = host.check_output("journalctl _SYSTEMD_INVOCATION_ID=%s --no-pager -o cat", invocation)
        assert missing_step(printed, mirror_probe(instance)["steps"]) is None, instance["name"]


def test_no_classic_process_opens_a_port_that_was_not_asked_for(host: Any, planned: Planned) -> None:
    for instance in planned("mirror_maker"):
        if any(s["key"] == "MIRROR_INCLUDE" for s in instance["settings"]):
            pid = shown(host, instance, "MainPID")
            asked = re.search(r"-javaagent:[^=]+=[^:]+(:\d+):", value(instance, "KAFKA_OPTS"))
            others = [x for x in opened(host, pid) if not asked or not x.endswith(asked[1])]
            assert not others, instance["name"]


def test_metrics_of_a_process_are_told_where_they_were_asked_for(host: Any, planned: Planned) -> None:
    page = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=10).read().decode())"
    for instance in planned("mirror_maker"):
        if where := re.search(r"-javaagent:[^=]+=([^:]+:\d+):", value(instance, "KAFKA_OPTS")):
            assert "kafka_producer" in host.check_output(
                "python3 -c %s %s", page, f"http://{where[1]}/metrics"
            )


def test_configuration_is_readable_by_the_mirrors_and_nobody_else(host: Any, planned: Planned) -> None:
    for path in {s["file"] for i in planned("mirror_maker") for s in i["settings"]}:
        if not path.startswith("/etc/mirror-maker/"):
            continue
        file = host.file(path)
        assert (file.user, file.group) == ("root", USER), path
        assert file.mode == 0o640, path


def test_each_process_has_a_log_folder_of_its_own(host: Any, planned: Planned) -> None:
    folders = [value(i, "LOG_DIR") for i in planned("mirror_maker")]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        assert host.file(folder).is_directory, folder
        assert (host.file(folder).user, host.file(folder).mode) == (USER, 0o750), folder


def test_memory_of_each_process_is_limited_as_planned(host: Any, planned: Planned) -> None:
    for instance in planned("mirror_maker"):
        mib = int(value(instance, "MemoryMax").removesuffix("M"))
        assert int(shown(host, instance, "MemoryMax")) == mib << 20
