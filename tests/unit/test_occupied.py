"""What on a host is somebody else's is found before the first change: real processes, real sockets, this machine."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.occupying import occupying
from kedge.plan.inventory.archives import bytes_unpacked, unpacks
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from plugins.module_utils import host_processes
from plugins.modules import kedge_instance, kedge_occupied
from tests.planned import mirrors
from tests.rest_inventories import rest
from tests.roles import play_here

pytestmark = pytest.mark.process

MAIN = "io.confluent.kafkarest.KafkaRestMain"
LISTEN = (
    "import socket,sys\ns=socket.socket()\ns.bind(('127.0.0.1',0))\ns.listen()\n"
    "print(s.getsockname()[1],flush=True)\nsys.stdin.read()"
)


@contextmanager
def running(folder: Path, *words: str, program: str = "java") -> Iterator[subprocess.Popen[str]]:
    """A stub of a program with this command line, which listens on a port and prints it."""
    (folder / MAIN).write_text(LISTEN)
    argv = [program, "-u", *words]
    # Under another name it does not find its library by itself.
    library = os.environ | {"PYTHONHOME": sys.base_prefix}
    with subprocess.Popen(
        argv,
        executable=sys.executable,
        env=library,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.communicate("")


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A stub of somebody else's proxy that listens. Its id and port."""
    with running(tmp_path, MAIN, "/etc/theirs.properties", "password=sesame-sesame") as process:
        assert process.stdout
        yield str(process.pid), int(process.stdout.readline())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's folders of ours, empty."""
    for name in ("ROOT", "ETC"):
        monkeypatch.setattr(kedge_occupied, name, tmp_path / name.lower())
        (tmp_path / name.lower()).mkdir()
    monkeypatch.setattr(kedge_occupied, "UNITS", (tmp_path / "units",))
    (tmp_path / "units").mkdir()
    return tmp_path


def service(**more: Any) -> dict[str, Any]:
    instances = more.pop("instances", [{"name": "8082", "port": None}])
    return {"unit": "kafka-rest", "user": "no-such-user", "mains": [], "instances": instances} | more


def found(known: list[str] | None = None, **more: Any) -> list[str]:
    return list(kedge_occupied.in_the_way(service(**more), known or []))


def test_the_process_that_holds_a_port_is_named_without_its_arguments(
    host: Path, stranger: tuple[str, int]
) -> None:
    pid, port = stranger
    assert host_processes.holders(port) == [pid]
    (said,) = found(instances=[{"name": "8082", "port": port}])
    assert said.startswith(f"port {port} of kafka-rest@8082 is held by process {pid} (java")
    assert "sesame" not in said


def test_a_port_that_nobody_holds_is_free(host: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        assert found(instances=[{"name": "8082", "port": free.getsockname()[1]}]) == []


def test_a_port_of_an_instance_of_ours_is_ours(
    host: Path, stranger: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kedge_occupied, "unit_of", lambda _: "kafka-rest@8083.service")
    instances = [{"name": "8082", "port": stranger[1]}]
    assert found(["kafka-rest"], instances=instances, mains=[MAIN]) == []
    assert len(found([], instances=instances)) == 1


def test_a_process_of_the_same_kind_that_nobody_of_ours_started_is_named_once(
    host: Path, stranger: tuple[str, int]
) -> None:
    pid, port = stranger
    of_it = [said for said in found(mains=[MAIN]) if f"process {pid} " in said]
    assert len(of_it) == 1
    assert "Kedge did not start it" in of_it[0]
    both = found(mains=[MAIN], instances=[{"name": "8082", "port": port}])
    assert sum(f"process {pid} " in said for said in both) == 1


def test_a_folder_in_the_place_of_a_release_is_somebodys_and_a_link_is_ours(host: Path) -> None:
    place = host / "etc" / "kafka-rest"
    (place / "8082").mkdir(parents=True)
    (said,) = found(["kafka-rest"])
    assert said == f"{place}/8082 is a folder that Kedge did not make"
    (place / "8082").rmdir()
    release = host / "root" / "kafka-rest" / "8082" / "releases" / "abc"
    release.mkdir(parents=True)
    (place / "8082").symlink_to(release)
    assert found(["kafka-rest"]) == []


@pytest.mark.parametrize("target", ["elsewhere", "root/kafka-rest/8083/releases/abc", "not-there"])
def test_a_link_to_anything_but_a_release_of_the_instance_is_somebodys(host: Path, target: str) -> None:
    place = host / "etc" / "kafka-rest"
    place.mkdir()
    if target != "not-there":
        (host / target).mkdir(parents=True)
    (place / "8082").symlink_to(host / target)
    assert found(["kafka-rest"]) == [f"{place}/8082 is a link to {host / target} that Kedge did not make"]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("tail", ["-F", f"/var/log/{MAIN}/mm.log"]),
        ("vim", [MAIN]),
        ("java", ["-cp", MAIN, "com.acme.Wrapper", MAIN]),
        ("java", ["-jar", "ours.jar", MAIN]),
    ],
)
def test_a_command_line_that_has_the_name_in_it_is_no_proxy(program: str, words: list[str]) -> None:
    assert host_processes.main_class([program, *words]) != MAIN


def test_the_main_class_of_a_jvm_stands_after_its_options() -> None:
    words = [
        "/usr/lib/jvm/java-17/bin/java",
        "-Xmx1g",
        "-cp",
        "/a/*:/b/*",
        "--add-opens",
        "java.base/x=ALL",
        MAIN,
        "x",
    ]
    assert host_processes.main_class(words) == MAIN
    assert host_processes.main_class([]) == host_processes.main_class([""]) == ""


def test_an_editor_of_a_file_of_the_name_stops_nothing(host: Path, tmp_path: Path) -> None:
    with running(tmp_path, MAIN, program="vim") as process:
        assert process.stdout
        process.stdout.readline()
        assert [said for said in found(mains=[MAIN]) if f"process {process.pid} " in said] == []


def test_a_neighbour_that_the_inventory_names_stays_and_its_port_does_not(
    host: Path, stranger: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, port = stranger

    def said(*stays: str, **more: Any) -> list[str]:
        return [s for s in kedge_occupied.in_the_way(service(mains=[MAIN], **more), [], stays) if pid in s]

    assert len(said()) == 1
    assert said("/etc/theirs.properties") == []
    assert len(said("/etc/others.properties")) == 1
    assert len(said("/etc/theirs.properties", instances=[{"name": "8082", "port": port}])) == 1
    monkeypatch.setattr(kedge_occupied, "unit_of", lambda _: "theirs.service")
    assert said("theirs.service") == []


def test_a_port_whose_holder_is_not_shown_is_held_by_something_unknown(
    host: Path, stranger: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (host_processes, sys.modules[kedge_occupied.unseen.__module__]):
        monkeypatch.setattr(module, "processes", list)  # of another namespace, or without the rights
    (said,) = found(instances=[{"name": "8082", "port": stranger[1]}])
    assert "is held by something that /proc does not show" in said
    monkeypatch.setattr(host_processes.os, "geteuid", lambda: 0)
    assert "does not show" in str(host_processes.not_own(stranger[1], "kafka-rest@8082.service"))
    monkeypatch.setattr(kedge_occupied, "is_active", lambda *_: True)
    assert found(["kafka-rest"], instances=[{"name": "8082", "port": stranger[1]}]) == []


def test_a_unit_is_somebodys_where_no_release_of_ours_is(host: Path) -> None:
    (host / "units" / "kafka-rest@.service").write_text("[Service]\n")
    assert found() == [f"{host}/units/kafka-rest@.service is there, and is not Kedge's"]
    (host / "root" / "kafka-rest").mkdir()
    assert found(kedge_occupied.ours()) == []


def test_a_user_that_somebody_logs_in_as_is_named(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        pw_shell, pw_uid = "/bin/bash", 1001

    monkeypatch.setattr("pwd.getpwnam", lambda _: Entry)
    (said,) = found(user="kafka-rest")
    assert "the user kafka-rest is there with the shell /bin/bash" in said
    Entry.pw_shell, Entry.pw_uid = "/usr/sbin/nologin", 998
    assert found(user="kafka-rest") == []


def test_readiness_is_of_the_units_own_process(
    stranger: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, port = stranger
    said = host_processes.not_own(port, "kafka-rest@8082.service")
    assert said is not None
    assert said.startswith(f"port {port} is held by process {pid}")
    monkeypatch.setattr(host_processes, "unit_of", lambda _: "kafka-rest@8082.service")
    assert host_processes.not_own(port, "kafka-rest@8082.service") is None


def test_an_instance_whose_port_a_stranger_answers_on_is_not_ready(
    stranger: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = kedge_instance.InstanceUnit.__new__(kedge_instance.InstanceUnit)
    instance.unit, instance.control = "kafka-rest@8082.service", {}
    probe = {"url": f"http://127.0.0.1:{stranger[1]}"}
    assert "and not by its own" in str(instance.taken(probe))
    instance.control = {"service": "kafka-rest", "node": "n"}  # a vendor's tool runs it, no unit does
    assert instance.taken(probe) is None


def test_the_unit_of_a_process_is_the_innermost_of_its_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    path = "/machine.slice/box.service/system.slice/system-kafka\\x2drest.slice/kafka-rest@8082.service"
    (tmp_path / "7" / "cgroup").write_text(f"0::{path}\n")
    monkeypatch.setattr(host_processes, "PROC", tmp_path)
    assert host_processes.unit_of("7") == "kafka-rest@8082.service"
    assert host_processes.unit_of("8") == ""


def test_without_groups_the_unit_of_a_process_is_that_of_its_main_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, parent in (("7", "1"), ("9", "7"), ("11", "1")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text("9:name=systemd:/\n0::/\n")
        (tmp_path / pid / "stat").write_text(f"{pid} (a) b) S {parent} 0")
    said = "Id=kafka-rest@8082.service\nMainPID=7\n\nId=kafka-rest@8083.service\nMainPID=0\n"
    monkeypatch.setattr(host_processes, "PROC", tmp_path)
    monkeypatch.setattr(host_processes, "run", lambda *argv: subprocess.CompletedProcess(argv, 0, said, ""))
    assert [host_processes.unit_of(pid) for pid in ("7", "9", "11")] == ["kafka-rest@8082.service"] * 2 + [""]


@pytest.mark.parametrize("held", [True, False])
def test_the_role_stops_before_the_first_change_and_says_whose_port_it_is(
    held: bool, stranger: tuple[str, int], tmp_path: Path
) -> None:
    instances: list[dict[str, Any]] = [
        {"name": "8082", "port": stranger[1] if held else None, "settings": []}
    ]
    plan = {"hosts": {"here": {"services": {"rest_balancer": {"instances": instances}}}}}
    inventory = {
        "all": {
            "hosts": {
                "localhost": {"plan_made": {"plan": plan}},
                "here": {"ansible_python_interpreter": sys.executable},
            },
            "vars": {"ansible_connection": "local"},
        }
    }
    play = {"hosts": "here", "gather_facts": False, "roles": [{"role": "occupied"}]}
    done = play_here(tmp_path, [play], inventory)
    assert (done.returncode != 0) is held, done.stdout
    said = f"here: port {stranger[1]} of rest-balancer@8082 is held by process {stranger[0]}"
    assert (said in done.stdout.replace("\n", " ")) is held, done.stdout


@pytest.mark.parametrize(
    ("cores", "memory_mib", "said"),
    [
        (0, 0, []),
        (4, 32768, []),
        (4.5, 32768, ["host_cores is 4.5, and the host has 4"]),
        (
            64,
            262144,
            ["host_cores is 64, and the host has 4", "host_memory_mib is 262144, and the host has 31843"],
        ),
    ],
)
def test_a_plan_for_a_larger_host_is_found(
    cores: float, memory_mib: int, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine of 32 GiB shows less: its kernel keeps some."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    (tmp_path / "meminfo").write_text("MemTotal:       32607500 kB\nMemFree: 1 kB\n")
    assert list(kedge_occupied.lacks(cores, memory_mib, tmp_path / "meminfo")) == said


def test_the_role_stops_where_the_plan_is_for_a_larger_host(tmp_path: Path) -> None:
    instances: list[dict[str, Any]] = [{"name": "8082", "port": None, "settings": []}]
    plan = {"hosts": {"here": {"services": {"rest_balancer": {"instances": instances}}}}}
    hosts = {"localhost": {"plan_made": {"plan": plan}}, "here": {"host_cores": 5000}}
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    play = {"hosts": "here", "gather_facts": False, "roles": [{"role": "occupied"}]}
    done = play_here(tmp_path, [play], {"all": {"hosts": hosts, "vars": variables}})
    assert done.returncode and "here: host_cores is 5000, and the host has" in done.stdout.replace("\n", " ")


def test_a_disk_without_room_for_notes_or_for_what_is_unpacked_is_found(
    host: Path, small: Callable[[str], Path]
) -> None:
    assert kedge_occupied.full({}) == ""
    disk = small("size=8m")
    archive = {str(disk / "*-a1"): 9 << 20}
    assert "8,192 KiB free, and 10,240 KiB are needed" in kedge_occupied.full(archive)
    (disk / "proxy-1.0-a1").mkdir()
    assert kedge_occupied.full(archive) == ""  # it is there


@pytest.mark.parametrize("options", ["size=900k", "size=8m,nr_inodes=50", "size=8m,ro"])
def test_a_disk_that_is_full_under_the_notes_of_a_deploy_is_found(
    options: str, host: Path, small: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small(options)
    monkeypatch.setattr(kedge_occupied, "ETC", disk)
    assert str(disk) in kedge_occupied.full({})


def test_the_roles_stop_at_a_full_disk_before_they_write_there(
    tmp_path: Path, small: Callable[[str], Path]
) -> None:
    disk = small("size=2m")
    with tarfile.open(tmp_path / "proxy.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("proxy/lib.jar")
        member.size = 3 << 20
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    home, archive = str(disk / "proxy-1.0"), str(tmp_path / "proxy.tar.gz")
    plan = {"hosts": {}, "unpacks": {"here": {home: bytes_unpacked(archive)}}}
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"localhost": {"plan_made": {"plan": plan}}, "here": {}}
    unpacked = {"unpacked_archive": archive, "unpacked_home": home}
    for role, more, said in (
        ("occupied", {}, "Nothing was changed"),
        ("unpacked", unpacked, "proxy-1.0 was not"),
    ):
        play = {"hosts": "here", "gather_facts": False, "roles": [{"role": role} | more]}
        done = play_here(tmp_path, [play], {"all": {"hosts": hosts, "vars": variables}})
        told = " ".join(done.stdout.split())
        assert f"the disk of {disk} has 2,048 KiB free, and 4,1" in told
        assert said in told
        assert not list(disk.iterdir())


def test_what_a_host_unpacks_follows_from_its_archives(tmp_path: Path) -> None:
    archive = tmp_path / "proxy.tgz"
    archive.write_bytes(gzip.compress(bytes(5_000_000)))
    inventory = rest(2, archive=str(archive))
    size = archive.stat().st_size + 5_000_000
    assert unpacks(inventory, SERVICES, {str(archive): "ab" * 32}) == {
        host: {"/opt/kedge/*-abababababababab": size} for host in ("rest1", "rest2")
    }
    assert unpacks(inventory, SERVICES, {str(archive): None}) == {}
    (tmp_path / "jars.tar").write_bytes(bytes(10_240))
    assert bytes_unpacked(tmp_path / "jars.tar") == 20_480


def test_what_a_host_takes_follows_from_its_plan() -> None:
    (taken,) = occupying(make_plan(rest()).to_json(), "rest1")
    assert (taken["unit"], taken["user"]) == ("kafka-rest", "kafka-rest")
    assert {i["port"] for i in taken["instances"]} == {int(i["name"]) for i in taken["instances"]}
    assert any("KafkaRestMain" in main for main in taken["mains"])
    (mirror,) = occupying(make_plan(mirrors()).to_json(), "mm1")
    assert (mirror["unit"], mirror["instances"][0]["port"]) == ("mirror-maker", None)
    assert occupying(make_plan(mirrors()).to_json(), "elsewhere") == []
