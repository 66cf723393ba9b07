from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet.inventory import Node, choose, parse_fleet, read_fleet

SOURCE = Path("inventories/x")
FLEET = {"name": "f", "subnet": "10.1.2.0/24", "network": "net"}


def listing(**hosts: dict[str, Any]) -> dict[str, Any]:
    return {"_meta": {"hostvars": {name: {"fleet": FLEET, **facts} for name, facts in hosts.items()}}}


def test_nodes_have_the_addresses_of_the_inventory() -> None:
    fleet = parse_fleet(
        listing(
            b={"ansible_host": "10.1.2.12", "fleet_start": "on_demand", "fleet_memory": "2g"},
            a={"ansible_host": "10.1.2.11", "fleet_cores": "4,0-1"},
        ),
        SOURCE,
    )
    assert fleet.nodes == (
        Node("a", "10.1.2.11", cores=(0, 1, 4)),
        Node("b", "10.1.2.12", on_demand=True, memory="2g"),
    )
    assert (fleet.name, fleet.network, str(fleet.subnet)) == ("f", "net", "10.1.2.0/24")
    assert fleet.container(fleet.nodes[0]) == "f-a"


def test_hosts_that_are_of_no_fleet_are_left_out() -> None:
    found = listing(a={"ansible_host": "10.1.2.11"})
    found["_meta"]["hostvars"]["real"] = {"ansible_host": "192.0.2.1"}
    assert [node.name for node in parse_fleet(found, SOURCE).nodes] == ["a"]


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ({}, "no host has 'fleet'"),
        ({"a": {}}, "a needs ansible_host, an address in 10.1.2.0/24; found ''"),
        ({"a": {"ansible_host": "a.example"}}, "found 'a.example'"),
        ({"a": {"ansible_host": "10.1.3.1"}}, "10.1.3.1 of a is not free in fleet.subnet 10.1.2.0/24"),
        ({"a": {"ansible_host": "10.1.2.1"}}, "10.1.2.1 is this machine's"),
        ({"a": {"ansible_host": "10.1.2.255"}}, "not free"),
        ({"a": {"ansible_host": "10.1.2.2"}, "b": {"ansible_host": "10.1.2.2"}}, "b and a have the same"),
        ({"a": {"ansible_host": "10.1.2.2", "fleet_cores": "1-0"}}, "fleet_cores of a must look like '0-1'"),
        ({"a": {"ansible_host": "10.1.2.2", "fleet_cores": "0, 1"}}, "found '0, 1'"),
        ({"a": {"ansible_host": "10.1.2.2", "fleet_cores": [0, 1]}}, "found '[0, 1]'"),
        ({"a_b": {"ansible_host": "10.1.2.2"}}, "host 'a_b' is no host name"),
        ({"a": {"fleet": "f"}}, "must have name, subnet and network; found 'f'"),
        ({"a": {"fleet": {**FLEET, "name": "No Name"}}}, "fleet.name must be small letters"),
        ({"a": {"fleet": {**FLEET, "subnet": "10.1.2.0/64"}}}, "fleet.subnet must look like 10.77.0.0/24"),
        (
            {"a": {"ansible_host": "10.1.2.2"}, "b": {"fleet": {**FLEET, "name": "g"}}},
            "hosts differ in 'fleet'",
        ),
    ],
)
def test_what_cannot_start_is_told_in_one_line(hosts: dict[str, Any], message: str) -> None:
    with pytest.raises(Problem) as problem:
        parse_fleet(listing(**hosts), SOURCE)
    assert str(problem.value).startswith("inventory inventories/x: ")
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)


def test_on_demand_nodes_start_only_when_named() -> None:
    fleet = parse_fleet(
        listing(
            a={"ansible_host": "10.1.2.11"},
            b={"ansible_host": "10.1.2.12", "fleet_start": "on_demand"},
            c={"ansible_host": "10.1.2.13"},
        ),
        SOURCE,
    )

    def names(limit: list[str], also: list[str]) -> list[str]:
        return [node.name for node in choose(fleet, limit, also)]

    assert names([], []) == ["a", "c"]
    assert names([], ["b"]) == ["a", "b", "c"]
    assert names(["b"], []) == ["b"]
    assert names(["c"], ["b"]) == ["b", "c"]
    with pytest.raises(Problem, match="has no node x; it has a, b, c"):
        choose(fleet, ["x"], [])


def test_inventory_that_is_not_there_is_told() -> None:
    with pytest.raises(Problem, match="there is no such file or folder"):
        read_fleet(Path("/nowhere"))


@pytest.mark.process
def test_broken_inventory_is_told_with_ansibles_reason(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: [")
    with pytest.raises(Problem, match=rf"inventory {tmp_path}/hosts\.yml"):
        read_fleet(tmp_path / "hosts.yml")


@pytest.mark.process
def test_local_inventory_describes_a_fleet() -> None:
    fleet = read_fleet(PROJECT / "inventories" / "local")
    assert {"leaf1", "rest1", "rest2", "lb1"} <= {node.name for node in fleet.nodes}


def test_fleets_that_may_run_at_once_have_networks_of_their_own() -> None:
    places = ("inventories", "molecule", "tests")
    # What the last release planned is no fleet.
    files = [
        file
        for place in places
        for file in (PROJECT / place).rglob("group_vars/all/*.yml")
        if PROJECT / "tests" / "released" not in file.parents
    ]
    declared = [yaml.safe_load(file.read_text()) for file in files]
    fleets = [found["fleet"] for found in declared if isinstance(found, dict) and "fleet" in found]
    assert len(fleets) > 10
    for key in ("name", "network", "subnet"):
        values = [fleet[key] for fleet in fleets]
        assert len(values) == len(set(values)), sorted(values)
