"""The Streams applications of a host: units, what they tell of themselves, modes, memory limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from kedge.deploy.kafka_admin import admin
from kedge.deploy.read_changelogs import read_changelogs
from kedge.services.streams.changelogs import Needs, check_changelogs
from verify.state.conftest import Instances, opened, value

testinfra_hosts = ["ansible://streams_app"]
Planned = Callable[[str], Instances]
USER = "streams-app"
#: The state file is written five times a second.
FRESH_S = 10


def main_pid(host: Any, instance: dict[str, Any]) -> int:
    pid = int(host.check_output("systemctl show -P MainPID %s", f"streams-app@{instance['name']}"))
    assert pid, f"streams-app@{instance['name']} has no process"
    return pid


def test_each_instance_is_a_running_unit_that_starts_with_the_host(host: Any, planned: Planned) -> None:
    for instance in planned("streams_app"):
        unit = host.service(f"streams-app@{instance['name']}")
        assert unit.is_running, unit
        assert unit.is_enabled, unit


def test_each_application_tells_that_it_runs(host: Any, planned: Planned) -> None:
    for instance in planned("streams_app"):
        # The file is the application's, and root reads it: no link, and no pipe that nobody writes to.
        once = "dd if=%s bs=64K count=1 iflag=nofollow,nonblock status=none"
        told = json.loads(host.check_output(once, value(instance, "KEDGE_STATE_FILE")))
        assert told["state"] == "RUNNING", instance["name"]
        assert told["pid"] == main_pid(host, instance)
        now = int(host.check_output("date +%s"))
        assert abs(now - told["at_us"] / 1e6) < FRESH_S, f"{instance['name']} told it at {time.ctime(now)}"


def test_no_application_opens_a_port(host: Any, planned: Planned) -> None:
    for instance in planned("streams_app"):
        assert opened(host, main_pid(host, instance)) == set()


def test_configuration_is_readable_by_the_application_and_nobody_else(host: Any, planned: Planned) -> None:
    for path in {s["file"] for i in planned("streams_app") for s in i["settings"]}:
        file = host.file(path)
        assert (file.user, file.group) == ("root", USER), path
        assert file.mode == 0o640, path


def test_each_instance_has_a_state_folder_of_its_own(host: Any, planned: Planned) -> None:
    folders = [value(i, "state.dir") for i in planned("streams_app")]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        assert host.file(folder).is_directory, folder
        assert (host.file(folder).user, host.file(folder).mode) == (USER, 0o750), folder


def test_the_planned_rocksdb_class_is_on_the_class_path_first(host: Any, planned: Planned) -> None:
    for instance in planned("streams_app"):
        command = host.check_output("tr '\\0' ' ' < %s", f"/proc/{main_pid(host, instance)}/cmdline")
        assert f"/etc/streams-app/{instance['name']}/kedge/*:" in command
        assert host.file(f"/etc/streams-app/{instance['name']}/kedge/kedge-streams.jar").is_file
        assert "-Xmx" in command


def test_memory_is_limited_as_planned(host: Any, planned: Planned) -> None:
    for instance in planned("streams_app"):
        mib = int(value(instance, "MemoryMax").removesuffix("M"))
        unit = f"streams-app@{instance['name']}"
        assert int(host.check_output("systemctl show -P MemoryMax %s", unit)) == mib << 20


def test_the_library_to_preload_is_in_the_process(host: Any, planned: Planned) -> None:
    for instance in planned("streams_app"):
        wanted = [s["value"] for s in instance["settings"] if s["key"] == "LD_PRELOAD"]
        if wanted:
            maps = host.check_output("cat %s", f"/proc/{main_pid(host, instance)}/maps")
            assert wanted[0].rpartition("/")[2].partition(".so")[0] in maps, instance["name"]


def test_the_changelogs_keep_what_their_stores_need_and_no_more(
    plan: dict[str, Any], planned: Planned
) -> None:
    name = value(planned("streams_app")[0], "application.id")
    cluster = plan["clusters"][plan["applications"][name]["cluster"]]
    client = admin(cluster["bootstrap_servers"], cluster.get("client", {}))
    found = read_changelogs(client, name, plan["applications"])
    needed = Needs(**plan["applications"][name]["changelogs"])
    assert found or not (needed.keyed or needed.windowed_ms), f"{name} has no changelog"
    assert [f"{f.message}; {f.fix}" for f in check_changelogs(name, needed, found)] == []
