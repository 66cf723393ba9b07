from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.setup.paths import PROJECT
from kedge.setup.problem import Problem
from lab.fleet import commands as fleets
from lab.fleet import nodes, survey
from lab.fleet.engine import Engine, find_engine
from lab.fleet.inventory import Fleet, Node, read_fleet
from lab.fleet.survey import Container

INVENTORY = """
all:
  vars:
    fleet: {name: kedge-test, subnet: 10.78.250.0/24, network: kedge-test}
  hosts:
    one: {ansible_host: 10.78.250.11, fleet_memory: 512m, fleet_cores: 0}
    two: {ansible_host: 10.78.250.12, fleet_start: on_demand}
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    if reason := nodes.unusable():
        pytest.skip(reason)
    return find_engine()


@pytest.fixture
def fleet(engine: Engine, tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    made = read_fleet(tmp_path / "hosts.yml")
    yield made
    fleets.down(made.name)


def container(engine: Engine, name: str) -> Container:
    return next(found for found in survey.containers(engine) if found.name == name)


def kill(engine: Engine, name: str) -> None:
    """End a node as a killed login does: its processes go, the engine's records stay."""
    state = engine.inspect("container", [name])[0]["State"]
    for pid in (state["ConmonPid"], state["Pid"]):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.process
def test_options_of_a_node_follow_the_inventory() -> None:
    made = read_fleet(PROJECT / "inventories" / "local")
    node = Node("x", "10.77.0.200", memory="1g")
    assert nodes.hardware_address(node) == "02:4b:0a:4d:00:c8"
    assert nodes.hardware_address(made.nodes[0]) != nodes.hardware_address(made.nodes[1])


def test_a_core_that_the_machine_lacks_is_reported_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subnet = ipaddress.IPv4Network("10.78.250.0/24")
    node = Node("one", "10.78.250.11", cores=(0, 9999))
    lacking = Fleet("kedge-test", "kedge-test", subnet, (node,), Path("inventories/x"))
    monkeypatch.setattr(fleets, "find_engine", lambda: pytest.fail("an engine was asked for"))
    with pytest.raises(Problem, match=r"has core 9999, and this machine has cores 0 to \d+: name some"):
        fleets.up(lacking)


@pytest.mark.fleet
def test_nodes_run_systemd_and_know_each_other(fleet: Fleet) -> None:
    fleets.up(fleet, also=["two"])
    one = fleet.nodes[0]
    answer = nodes.over_ssh(
        fleet, one, "hostname; systemctl is-system-running; getent hosts two; jcmd -l | wc -l; nproc"
    )
    name, state, two, java, cores = answer.stdout.splitlines()
    assert (name, state, two.split()) == ("one", "running", ["10.78.250.12", "two"])
    assert int(java) >= 1
    assert int(cores) == 1
    haproxy = nodes.over_ssh(fleet, one, "systemctl is-enabled haproxy; systemctl is-active haproxy")
    assert haproxy.stdout.split() == ["disabled", "inactive"]


@pytest.mark.fleet
def test_node_cannot_change_the_machines_kernel(fleet: Fleet) -> None:
    fleets.up(fleet)
    before = Path("/proc/sys/vm/max_map_count").read_text()
    refused = nodes.over_ssh(fleet, fleet.nodes[0], "sysctl -w vm.max_map_count=70001")
    assert refused.returncode != 0
    assert Path("/proc/sys/vm/max_map_count").read_text() == before
    own = nodes.over_ssh(fleet, fleet.nodes[0], "sysctl -w net.core.somaxconn=5001")
    assert own.returncode == 0


@pytest.mark.fleet
def test_second_up_keeps_running_nodes(fleet: Fleet, engine: Engine) -> None:
    fleets.up(fleet)
    before = container(engine, "kedge-test-one").id
    fleets.up(fleet)
    assert container(engine, "kedge-test-one").id == before


@pytest.mark.fleet
def test_killed_node_is_recognised_and_made_anew(
    fleet: Fleet, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    if engine.name != "podman":
        pytest.skip("Docker's daemon knows which containers run")
    fleets.up(fleet, also=["two"])
    kept = container(engine, "kedge-test-two").id
    kill(engine, "kedge-test-one")
    assert not fleets.status(fleet)
    fleets.up(fleet)
    assert "one: left over from a stopped or killed fleet, cleared" in capsys.readouterr().out
    assert fleets.status(fleet)
    assert container(engine, "kedge-test-two").id == kept


@pytest.mark.fleet
def test_a_bridge_that_a_killed_fleet_left_is_cleared(
    fleet: Fleet, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    if engine.name != "podman":
        pytest.skip("Docker keeps a bridge as long as its network")
    for step in ("add podman250 type bridge", "set podman250 up"):
        subprocess.run(["ip", "link", *step.split()], check=True)
    subprocess.run(["ip", "address", "add", "10.78.250.1/24", "dev", "podman250"], check=True)
    fleets.up(fleet)
    assert "bridge podman250: left over from a killed fleet, cleared" in capsys.readouterr().out
    assert fleets.status(fleet)
    assert not Path("/sys/class/net/podman250").exists()


@pytest.mark.fleet
def test_interrupted_start_is_finished_by_the_next(fleet: Fleet, engine: Engine) -> None:
    up = [sys.executable, "-m", "lab.fleet", "up", "--inventory", str(fleet.source)]
    with subprocess.Popen(
        up, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline().startswith("fleet kedge-test")
        # SIGTERM: what was started in the background ignores SIGINT, and hands that on to its children.
        started.send_signal(signal.SIGTERM)
        _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert said.startswith("interrupted; 'make fleet-up' goes on")
    fleets.up(fleet)
    assert fleets.status(fleet)


@pytest.mark.fleet
def test_container_of_another_owner_is_left_alone(fleet: Fleet, engine: Engine) -> None:
    image = engine.run("images", "--quiet").split()[0]
    engine.run("create", "--name=kedge-test-one", image, "true")
    try:
        with pytest.raises(Problem, match="container kedge-test-one exists and is not this fleet's"):
            fleets.up(fleet)
        assert not any(network.name == fleet.network for network in survey.networks(engine))
    finally:
        engine.run("rm", "--force", "kedge-test-one")


@pytest.mark.fleet
def test_subnet_of_another_network_is_refused_before_anything_is_made(fleet: Fleet, engine: Engine) -> None:
    engine.run("network", "create", "--subnet=10.78.250.128/25", "kedge-test-other")
    try:
        with pytest.raises(Problem, match="in use by the container network 'kedge-test-other'"):
            fleets.up(fleet)
        assert not any(found.name == "kedge-test-one" for found in survey.containers(engine))
    finally:
        engine.run("network", "rm", "kedge-test-other")


@pytest.mark.fleet
def test_down_leaves_nothing_and_can_be_said_again(fleet: Fleet, engine: Engine) -> None:
    fleets.up(fleet)
    identity = container(engine, "kedge-test-one").id
    fleets.down(fleet.name)
    fleets.down(fleet.name)
    assert not any(found.name == "kedge-test-one" for found in survey.containers(engine))
    assert not any(network.name == fleet.network for network in survey.networks(engine))
    assert not any(identity.encode() in command for command in commands())


def commands() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:
            continue


@pytest.mark.process
def test_no_engine_is_told_and_nothing_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fleets.main(["up", "--inventory", str(PROJECT / "inventories" / "local")]) == 2
    assert capsys.readouterr().err.startswith("no container engine: run 'make setup'")
    assert fleets.main(["down", "--all"]) == 0
