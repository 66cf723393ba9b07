"""Changes under load on real nodes: what a balancer and its proxies change together, and hosts that leave."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.awaiting import await_that
from tests.e2e.asking import GOOD, SEEN, asking, none_failed
from tests.e2e.playing import ROOT, begin, deployed_fleet, on_node, play, recap

INVENTORY = "inventories/local"
BALANCER = "http://10.77.0.31:8080"
LOGIN = ("anna", "secret-1")
#: In place of the demo's load, which has no login: what flows is that of whoever asks, at the balancer.
WATCH = {"verify": {"watch": {"before_s": 65, "after_s": 60}}}
USERS = ("-e", json.dumps({"kafka_rest_users": dict([LOGIN]), **WATCH}))

# The fleet of inventories/local is that of test_deploys, which may run beside the others.
pytestmark = [
    pytest.mark.fleet,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("deployed"),
]


@pytest.fixture(scope="module")
def deployed() -> Iterator[None]:
    """The demo's fleet, its proxies with a login; it is removed at the end."""
    with deployed_fleet(INVENTORY, *USERS):
        yield


def test_logins_are_taken_away_without_a_failed_request() -> None:
    with asking(BALANCER, LOGIN) as answers:
        done = play("deploy.yml", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout
    none_failed(answers)
    for port in ("8082", "8083"):
        assert "BASIC" not in on_node("kedge", "rest2", f"cat /etc/kafka-rest/{port}/kafka-rest.properties")
    assert "while logins change" not in on_node("kedge", "lb1", "cat /etc/rest-balancer/haproxy/haproxy.cfg")
    again = play("deploy.yml", inventory=INVENTORY)
    assert all(host["changed"] == 0 for host in recap(again.stdout).values()), again.stdout


def test_a_change_that_was_killed_between_is_taken_back_by_the_next_deploy() -> None:
    with asking(BALANCER, LOGIN) as answers:
        with begin("deploy.yml", *USERS, "-e", "allow=login", inventory=INVENTORY) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if ": gate after" in line:  # the first instance has changed
                    process.kill()
                    break
        back = play("deploy.yml", inventory=INVENTORY)
    assert back.returncode == 0, back.stdout
    none_failed(answers)


WATCHED = ("-e", "watch=true", "-e", json.dumps(WATCH))
PASS = "pass      traffic"
HEAP = ("-e", json.dumps({"kafka_rest_heap_mib": 768}))
ROLLBACK = ("-e", "service=kafka_rest")
RESTS = ("rest1", "rest2")


def heaps() -> set[str]:
    """What the running proxies were started with."""
    lines = [on_node("kedge", host, "pgrep -af Xmx.*kafka-rest | grep -o 'Xmx[0-9]*m'") for host in RESTS]
    return set("".join(lines).split())


def test_a_changed_heap_is_rolled_back_and_forward_again_without_a_failed_request() -> None:
    before = heaps()
    with asking(BALANCER, LOGIN) as answers:
        deployed = play("deploy.yml", *HEAP, *WATCHED, inventory=INVENTORY)
    assert deployed.returncode == 0, deployed.stdout
    assert PASS in deployed.stdout
    none_failed(answers)
    changed = heaps()
    assert changed != before
    asked = play("rollback.yml", *ROLLBACK, "--check", "--diff", inventory=INVENTORY)
    assert asked.returncode == 0, asked.stdout
    assert "-Xmx768m" in asked.stdout
    assert heaps() == changed
    with asking(BALANCER, LOGIN) as answers:
        back = play("rollback.yml", *ROLLBACK, *WATCHED, inventory=INVENTORY)
    assert back.returncode == 0, back.stdout
    assert PASS in back.stdout
    none_failed(answers)
    assert heaps() == before
    # The inventory with the change is planned as before, and a deploy of it goes on.
    shown = play("plan.yml", *HEAP, inventory=INVENTORY)
    assert "differs; a deploy would restart it" in shown.stdout
    forward = play("rollback.yml", *ROLLBACK, inventory=INVENTORY)
    assert forward.returncode == 0, forward.stdout
    assert heaps() == changed
    again = play("deploy.yml", inventory=INVENTORY)
    assert again.returncode == 0, again.stdout
    assert heaps() == before


def test_an_instance_that_is_down_restarts_first_without_a_failed_request() -> None:
    on_node("kedge", "rest2", "systemctl stop kafka-rest@8083")
    with asking(BALANCER, LOGIN) as answers:
        await_that(lambda: answers[GOOD] >= SEEN, "the balancer has seen that the instance is down")
        done = play("rolling_restart.yml", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout
    none_failed(answers)
    assert "PLAY [Restart the instances that are down, which serve nobody]" in done.stdout
    _, first = done.stdout.split("PLAY [Restart the instances that are down, which serve nobody]")
    first, _, _ = first.partition("PLAY [")
    assert "rest2" in first
    assert "rest1" not in first
    assert on_node("kedge", "rest2", "systemctl is-active kafka-rest@8083").strip() == "active"


def test_a_node_restarts_for_a_boot_without_a_failed_request() -> None:
    command = [sys.executable, "-m", "lab.fleet", "restart"]
    boot = ("-e", json.dumps({"reboot_command": command}), "--limit", "localhost,rest1")
    began = on_node("kedge", "rest1", "stat -c %Y /proc/1")
    with asking(BALANCER, LOGIN) as answers:
        done = play("reboot.yml", *boot, *WATCHED, inventory=INVENTORY)
    assert done.returncode == 0, done.stdout
    assert PASS in done.stdout
    none_failed(answers)
    assert on_node("kedge", "rest1", "stat -c %Y /proc/1") != began
    again = play("deploy.yml", inventory=INVENTORY)
    assert again.returncode == 0, again.stdout
    assert recap(again.stdout)["rest1"]["changed"] == 0, again.stdout


@pytest.fixture
def without_rest2() -> Iterator[str]:
    """The inventory after somebody took a host out of it."""
    folder = ROOT / "build" / "without-rest2"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / INVENTORY, folder)
    hosts = folder / "hosts.yml"
    left = [line for line in hosts.read_text().splitlines() if "rest2" not in line]
    hosts.write_text("\n".join(left) + "\n")
    yield str(Path("build") / "without-rest2")
    shutil.rmtree(folder)


def test_a_host_that_left_the_inventory_stops_the_deploy_until_it_is_removed(without_rest2: str) -> None:
    with asking(BALANCER, LOGIN) as answers:
        stopped = play("deploy.yml", inventory=without_rest2)
        assert stopped.returncode != 0
        said = " ".join((stopped.stdout + stopped.stderr).split())
        assert "rest2 (10.77.0.22) had kafka_rest deployed and left the inventory" in said
        assert all(host["changed"] == 0 for host in recap(stopped.stdout).values())
        gone = play("remove_host.yml", "-e", "gone=rest2", inventory=without_rest2)
        assert gone.returncode != 0
        assert "rest2 answers, so it is there" in " ".join((gone.stdout + gone.stderr).split())
        removed = play("remove_host.yml", "-e", "host=rest2", *WATCHED, inventory=without_rest2)
        assert removed.returncode == 0, removed.stdout
        assert PASS in removed.stdout
    none_failed(answers)
    left = "ls -d /etc/kafka-rest /var/lib/kedge/kafka-rest /opt/kedge /etc/systemd/system/kafka-rest*"
    assert on_node("kedge", "rest2", f"{left} 2>/dev/null", check=False) == ""
    assert on_node("kedge", "rest2", "pgrep -f sandbox-rest", check=False) == ""
    assert "rest2" not in on_node("kedge", "lb1", "cat /etc/rest-balancer/haproxy/haproxy.cfg")
    again = play("deploy.yml", inventory=without_rest2)
    assert again.returncode == 0, again.stdout
    assert all(host["changed"] == 0 for host in recap(again.stdout).values()), again.stdout
