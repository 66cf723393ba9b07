from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Any

import pytest

from kedge.setup.disk_space import check_space
from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet import survey
from lab.fleet.engine import Engine
from lab.fleet.inventory import Fleet, Node
from lab.fleet.survey import Container, Network

FLEET = Fleet("f", "net", ipaddress.IPv4Network("10.1.2.0/24"), (Node("a", "10.1.2.11"),), Path("inv"))
OURS = {survey.FLEET_LABEL: "f", survey.PROJECT_LABEL: str(PROJECT)}
THEIRS = {survey.FLEET_LABEL: "f", survey.PROJECT_LABEL: "/elsewhere"}


def record(**state: Any) -> dict[str, Any]:
    return {"Id": "c0ffee", "Name": "/f-a", "State": state, "Config": {"Labels": None}}


def test_routes_are_read_without_the_default() -> None:
    table = (
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        "eth0  00000000 010200C0 0003 0 0 0 00000000 0 0 0\n"
        "podman1 00004D0A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
    )
    assert survey.routes(table) == [("podman1", ipaddress.IPv4Network("10.77.0.0/24"))]


@pytest.mark.parametrize(
    ("networks", "routes", "user"),
    [
        ([Network("other", ("10.1.0.0/16",), "br0", {})], [], "the container network 'other'"),
        ([], [("tun0", "10.1.2.128/25")], r"interface tun0 \(10\.1\.2\.128/25\)"),
        ([Network("old", ("10.9.0.0/24",), "br0", OURS)], [("br0", "10.1.2.0/24")], "interface br0"),
    ],
)
def test_subnet_of_someone_else_is_told_with_its_user(
    networks: list[Network], routes: list[tuple[str, str]], user: str
) -> None:
    with pytest.raises(Problem, match=rf"subnet 10\.1\.2\.0/24 is in use by {user}.*: change fleet\.subnet"):
        survey.check_subnet(FLEET, networks, [(name, ipaddress.IPv4Network(to)) for name, to in routes])


def test_own_network_and_other_subnets_are_no_clash() -> None:
    networks = [
        Network("net", ("10.1.2.0/24",), "br0", OURS),
        Network("six", ("fd00::/64", "10.1.3.0/24"), "br1", {}),
    ]
    survey.check_subnet(
        FLEET, networks, [("br0", FLEET.subnet), ("br1", ipaddress.IPv4Network("10.1.3.0/24"))]
    )


@pytest.mark.parametrize(
    ("name", "networks", "ports", "left"),
    [
        ("podman1", [], [], ["podman1"]),
        ("podman1", [], ["veth0"], []),
        ("podman1", [Network("net", ("10.1.2.0/24",), "podman1", OURS)], [], []),
        ("br0", [], [], []),
        ("podman1", [], None, []),
    ],
    ids=["left over", "in use", "of a network", "not podman's", "no bridge"],
)
def test_a_bridge_is_left_over_where_nothing_uses_it(
    tmp_path: Path, name: str, networks: list[Network], ports: list[str] | None, left: list[str]
) -> None:
    if ports is not None:
        (tmp_path / name / "brif").mkdir(parents=True)
        for port in ports:
            (tmp_path / name / "brif" / port).touch()
    assert survey.left_bridges(FLEET, networks, [(name, FLEET.subnet)], tmp_path) == left


@pytest.mark.parametrize(
    ("engine", "containers", "networks", "cleared"),
    [
        ("podman", [], [Network("podman", ("10.88.0.0/16",), "podman0", {})], True),
        ("podman", [], [Network("net", ("10.1.2.0/24",), "podman1", OURS)], False),
        ("podman", [Container("1", "db", {}, alive=False)], [], False),
        ("docker", [], [], False),
    ],
    ids=["nothing is there", "a network", "a container", "Docker"],
)
def test_addresses_of_killed_containers_are_given_back_where_nothing_has_one(
    tmp_path: Path, engine: str, containers: list[Container], networks: list[Network], cleared: bool
) -> None:
    leases = tmp_path / "ipam.db"
    leases.touch()
    survey.clear_leases(Engine(engine, ()), containers, networks, leases)
    assert leases.exists() is not cleared
    survey.clear_leases(Engine(engine, ()), containers, networks, leases)


def test_container_of_another_owner_is_told() -> None:
    with pytest.raises(Problem, match="container f-a exists and is not this fleet's"):
        survey.check_owner(FLEET, [Container("1", "f-a", {}, alive=True)], [])


def test_live_fleet_of_another_project_is_told_and_its_leftovers_are_not() -> None:
    with pytest.raises(
        Problem, match="already runs for the project in /elsewhere: run 'make fleet-down' there"
    ):
        survey.check_owner(FLEET, [Container("1", "f-a", THEIRS, alive=True)], [])
    survey.check_owner(FLEET, [Container("1", "f-a", THEIRS, alive=False)], [])
    survey.check_owner(FLEET, [Container("1", "f-a", OURS, alive=True)], [])


def test_network_of_another_owner_is_told() -> None:
    with pytest.raises(Problem, match="network net exists and is not this fleet's"):
        survey.check_owner(FLEET, [], [Network("net", (), "", {})])


def test_container_listed_as_running_without_its_monitor_is_not_alive() -> None:
    killed = survey.parse_container(
        record(Status="running", Pid=os.getpid(), ConmonPid=os.getpid()), Engine("podman")
    )
    assert (killed.alive, killed.name, killed.labels) == (False, "f-a", {})
    assert not survey.parse_container(record(Status="exited"), Engine("docker")).alive
    assert survey.parse_container(record(Status="running"), Engine("docker")).alive


def test_monitor_is_known_by_its_container_not_by_its_number_alone(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"conmon\0-c\0c0ffee\0")
    assert survey.monitor_runs(7, "c0ffee", tmp_path)
    assert not survey.monitor_runs(7, "decaf", tmp_path)
    assert not survey.monitor_runs(8, "c0ffee", tmp_path)


def test_networks_of_both_engines_are_read() -> None:
    podman = {"name": "n", "network_interface": "podman1", "subnets": [{"subnet": "10.1.2.0/24"}]}
    docker = {"Name": "n", "Id": "0123456789abcdef", "IPAM": {"Config": [{"Subnet": "10.1.2.0/24"}]}}
    assert survey.parse_network(podman) == Network("n", ("10.1.2.0/24",), "podman1", {})
    assert survey.parse_network(docker) == Network("n", ("10.1.2.0/24",), "br-0123456789ab", {})


def test_lack_of_space_is_told_with_what_needs_it(tmp_path: Path) -> None:
    with pytest.raises(
        Problem, match=r"no space on .*: 1000000001 MB are needed \(image, nodes\), \d+ MB are free"
    ):
        check_space([(tmp_path / "not" / "yet", 1_000_000_000, "image"), (tmp_path, 1, "nodes")])
    check_space([(tmp_path, 1, "image"), (tmp_path, 0, "nodes")])
