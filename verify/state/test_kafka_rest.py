"""The REST proxies of a host: units, ports, modes, limits and the JVM flags that are really in force."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kedge.plan.jvm_flags import maximum_heap_mib
from kedge.plan.settings import MIB
from verify.state.conftest import Instances, contents, differing, in_file, opened, value

testinfra_hosts = ["ansible://kafka_rest"]
Planned = Callable[[str], Instances]
USER = "kafka-rest"
#: What a secret in a command line looks like; of no case.
SHOWN = "pass(word|wd|phrase)?=|secret=|token=|api.?key=|sasl.jaas.config=|://[^/ ]*:[^/ ]*@"


def ours(planned: Planned) -> Instances:
    """The planned instances that systemd runs; Warden runs the first one of a MapR host."""
    return [i for i in planned("kafka_rest") if "control" not in i["software"]]


def properties(instance: dict[str, Any]) -> str:
    """The file that the start script is given, by its name in this distribution."""
    name = str(instance["software"]["properties"])
    return next(str(s["file"]) for s in instance["settings"] if s["file"].endswith(f"/{name}"))


def main_pid(host: Any, instance: dict[str, Any]) -> int:
    pid = int(host.check_output("systemctl show -P MainPID %s", f"kafka-rest@{instance['name']}"))
    assert pid, f"kafka-rest@{instance['name']} has no process"
    return pid


def jcmd(host: Any, pid: int, command: str) -> str:
    """Ask a JVM as its own user, from inside the private /tmp and users that its unit gives it.

    Java 21 looks the process up in /proc, where users of other namespaces do not see it.
    """
    user = host.user(USER)
    enter = f"nsenter -t {pid} -U -m -S {user.uid} -G {user.gid}"
    answer: str = host.check_output(f"{enter} -- jcmd {pid} {command}")
    return answer


def test_each_instance_is_a_running_unit_of_its_own(host: Any, planned: Planned) -> None:
    for instance in ours(planned):
        unit = host.service(f"kafka-rest@{instance['name']}")
        assert unit.is_running, unit
        assert unit.is_enabled, unit


def test_each_instance_listens_on_its_port(host: Any, planned: Planned) -> None:
    for instance in ours(planned):
        assert f"*:{instance['port']}" in opened(host), instance["port"]


def test_each_balancer_is_reached_from_here(host: Any, plan: dict[str, Any]) -> None:
    """The balancer's own host does not see that loopback alone is bound, or that a firewall is closed."""
    connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 10).close()"
    for of_host in plan["hosts"].values():
        for balancer in of_host["services"].get("rest_balancer", {}).get("instances", ()):
            name, _, port = value(balancer, "address").rpartition(":")
            bound = value(balancer, "bind").rpartition(":")[0]
            if bound in (name, "0.0.0.0"):  # noqa: S104 - else clients come by an address of another network
                host.check_output("python3 -c %s %s %s", connect, name.strip("[]"), port)


def agent(instance: dict[str, Any]) -> str | None:
    """Address and port of the metrics agent; None where none is planned."""
    found = (re.search(r"-javaagent:[^=]+=([^:]+:\d+):", s["value"]) for s in instance["settings"])
    return next((match[1] for match in found if match), None)


def test_no_instance_opens_a_port_that_was_not_asked_for(host: Any, planned: Planned) -> None:
    for instance in ours(planned):
        asked = {f"*:{instance['port']}"}
        asked |= {f"*:{s['value']}" for s in instance["settings"] if s["key"] == "http.management.port"}
        assert opened(host, main_pid(host, instance)) == asked | ({agent(instance)} - {None})


def test_metrics_are_told_where_they_were_asked_for(host: Any, planned: Planned) -> None:
    page = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=10).read().decode())"
    for instance in ours(planned):
        if where := agent(instance):
            text = host.check_output("python3 -c %s %s", page, f"http://{where}/metrics")
            assert "jvm_memory" in text
            assert "kafka_producer" in text


def test_the_accept_queue_is_what_the_plan_says_of_it(host: Any, planned: Planned) -> None:
    if not host.exists("ss"):
        pytest.skip("the host has no ss, which alone tells the backlog of a socket")
    for instance in ours(planned):
        (line,) = host.check_output("ss -Hltn sport = :%s", str(instance["port"])).splitlines()
        # Of a listening socket this column is its backlog: no longer than the host allows.
        allowed = int(host.sysctl("net.core.somaxconn"))
        assert int(line.split()[2]) == min(instance["software"]["accept_queue"], allowed)


def test_configuration_is_readable_by_the_service_and_nobody_else(host: Any, planned: Planned) -> None:
    for path in {s["file"] for i in ours(planned) for s in i["settings"]}:
        file = host.file(path)
        assert (file.user, file.group) == ("root", USER), path
        assert file.mode == 0o640, path


def test_each_instance_writes_to_a_log_folder_of_its_own(host: Any, planned: Planned) -> None:
    folders = [value(i, "LOG_DIR") for i in ours(planned)]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        assert host.file(folder).is_directory
        assert host.file(folder).user == USER
        assert host.file(folder).mode == 0o750
        assert host.file(f"{folder}/gc.log").exists


def test_ids_are_unique_on_the_host(host: Any, planned: Planned) -> None:
    ids = [value(i, i["software"]["identity"]) for i in ours(planned)]
    assert len(set(ids)) == len(ids)


def test_planned_properties_are_the_ones_in_force(host: Any, planned: Planned) -> None:
    for instance in ours(planned):
        path = properties(instance)
        command = host.check_output("tr '\\0' ' ' < %s", f"/proc/{main_pid(host, instance)}/cmdline")
        assert path in command
        keys = differing(in_file(instance, path), contents(host, path))
        assert not keys, f"{path} of kafka-rest@{instance['name']}"


def test_planned_jvm_flags_are_really_in_force(host: Any, planned: Planned) -> None:
    for instance in (i for i in ours(planned) if i["software"]["jvm_options"]):
        pid = main_pid(host, instance)
        lines = jcmd(host, pid, "VM.command_line").splitlines()
        (line,) = [x for x in lines if x.startswith("jvm_args:")]
        arguments = line.split()
        options = instance["software"]["jvm_options"]
        variables = {s["key"]: s["value"] for s in instance["settings"] if s["key"] in options}
        for key, planned_flags in variables.items():
            missing = [flag for flag in planned_flags.split() if flag not in arguments]
            assert not missing, f"{key} of kafka-rest@{instance['name']}"
        in_force = jcmd(host, pid, "VM.flags")
        assert "-XX:+UseG1GC" in in_force
        heap = maximum_heap_mib(" ".join(variables.values()))
        assert heap and f"-XX:MaxHeapSize={heap * MIB}" in in_force


def test_open_files_are_limited_as_planned_or_as_the_host_allows(host: Any, planned: Planned) -> None:
    hard = int(host.check_output("awk '/Max open files/ {print $5}' /proc/1/limits"))
    for instance in ours(planned):
        wanted = int(host.check_output("systemctl show -P LimitNOFILE %s", f"kafka-rest@{instance['name']}"))
        path = f"/proc/{main_pid(host, instance)}/limits"
        allowed = int(host.check_output("awk '/Max open files/ {print $4}' %s", path))
        assert allowed >= min(wanted, hard)


def test_no_secret_stands_on_a_command_line_or_in_an_environment(host: Any, planned: Planned) -> None:
    for instance in ours(planned):
        pid = main_pid(host, instance)
        # A secret of a person's own variable is there, which its user and root alone may read.
        own = any(s.get("secret") and s["file"].endswith("/environment") for s in instance["settings"])
        for place in ("cmdline",) if own else ("cmdline", "environ"):
            # Counted where it is: nothing of it is printed.
            found = host.run(f"grep -caiE '{SHOWN}' /proc/{pid}/{place}")
            assert found.stdout.strip() == "0", f"{place} of kafka-rest@{instance['name']}"
