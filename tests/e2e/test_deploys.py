"""Deploys and restarts that go wrong on real nodes: what is put back, what is said, and what the next one mends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.playing import begin, deployed_fleet, load_alone, local_fleet, on_node, play, recap

INVENTORY = "inventories/local"

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(900), pytest.mark.usefixtures("deployed")]


@pytest.fixture(scope="module")
def deployed() -> Iterator[None]:
    """The demo's fleet, deployed and without load; it is removed at the end."""
    with deployed_fleet(INVENTORY):
        yield


def processes() -> dict[tuple[str, str], str]:
    """Since when each proxy runs: another process, another time."""
    return {
        (host, port): on_node(
            "kedge", host, f"systemctl show -P ActiveEnterTimestampMonotonic kafka-rest@{port}"
        )
        for host in ("rest1", "rest2")
        for port in ("8082", "8083")
    }


@pytest.mark.long
def test_a_verification_without_restarts_sends_and_audits_and_restarts_nothing(tmp_path: Path) -> None:
    before = processes()
    short = {"warm_up_s": 5, "min_s": 5, "min_records": 1000}
    rates = {"kafka": {"records_per_s": 1000}, "rest": {"records_per_s": 200}}
    done = play(*load_alone(INVENTORY, tmp_path, short | rates), inventory=INVENTORY)
    report = tmp_path / "latest" / "report" / "verdicts.json"
    assert report.exists(), done.stdout[-6000:]
    checks = {check["name"]: check for check in json.loads(report.read_text())["checks"]}
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]
    assert processes() == before


def test_a_setting_that_does_not_start_is_rolled_back_at_the_first_instance() -> None:
    before = processes()
    # The plan refuses what it knows not to start.
    wrong = {"kafka_rest_settings": {"KAFKAREST_JVM_PERFORMANCE_OPTS": "-XX:+NoSuchFlag"}}
    broken = play("deploy.yml", "-e", json.dumps(wrong), inventory=INVENTORY)
    assert broken.returncode != 0
    assert "is back and running" in broken.stdout + broken.stderr
    # Four run the old release, and one at most was restarted for that.
    now = processes()
    assert len(now) == 4
    assert sum(now[at] != before[at] for at in now) <= 1
    for host, port in now:
        assert on_node("kedge", host, f"systemctl is-active kafka-rest@{port}").strip() == "active"
        assert "NoSuchFlag" not in on_node("kedge", host, f"cat /etc/kafka-rest/{port}/environment")
    after = play("deploy.yml", inventory=INVENTORY)
    assert after.returncode == 0, after.stdout
    # Nothing but the first instance ran the broken release, and that one is back on the old one.
    assert ": restart)" not in after.stdout


def test_a_changed_setting_restarts_each_instance_once() -> None:
    changed = play(
        "deploy.yml", "-e", '{"kafka_rest_settings": {"producer.linger.ms": 3}}', inventory=INVENTORY
    )
    assert changed.returncode == 0, changed.stdout
    assert changed.stdout.count(": restart)") == 4
    again = play(
        "deploy.yml", "-e", '{"kafka_rest_settings": {"producer.linger.ms": 3}}', inventory=INVENTORY
    )
    assert all(host["changed"] == 0 for host in recap(again.stdout).values())


def test_a_broker_that_does_not_come_up_shows_its_journal_and_gets_its_old_release_back() -> None:
    broken = play(
        "deploy.yml",
        "-e",
        '{"kafka_broker_settings": {"authorizer.class.name": "NOWHERE"}}',
        inventory=INVENTORY,
    )
    output = broken.stdout + broken.stderr
    assert broken.returncode != 0
    assert "its journal ends with" in output
    assert "NOWHERE" in output.partition("its journal ends with")[2]
    assert "is back and running" in output
    assert on_node("kedge", "leaf1", "systemctl is-active kafka-broker@leaf").strip() == "active"


def test_a_port_in_use_on_a_node_is_named_before_the_first_change_and_the_next_run_mends_it() -> None:
    unit = "kafka-rest@8083"
    on_node("kedge", "rest2", f"systemctl stop {unit}")
    on_node("kedge", "rest2", "systemd-run --unit=squatter python3 -m http.server 8083")
    try:
        done = play("deploy.yml", "--limit", "localhost,rest2", inventory=INVENTORY)
        assert done.returncode != 0
        assert "port 8083 of kafka-rest@8083 is held by process" in done.stdout
        assert "of squatter.service" in done.stdout
        assert all(host["changed"] == 0 for host in recap(done.stdout).values())
        planned = play("plan.yml", inventory=INVENTORY)
        assert planned.returncode != 0
        assert "port 8083 of kafka-rest@8083 is held by process" in planned.stdout
    finally:
        on_node("kedge", "rest2", "systemctl stop squatter")
    mended = play("deploy.yml", "--limit", "localhost,rest2", inventory=INVENTORY)
    assert mended.returncode == 0, mended.stdout
    assert on_node("kedge", "rest2", f"systemctl is-active {unit}").strip() == "active"


@pytest.mark.long
def test_a_rolling_restart_stops_at_the_first_that_does_not_come_back_and_says_which() -> None:
    broken = "/etc/systemd/system/kafka-rest@8083.service.d"
    lines = r"[Service]\nExecStart=\nExecStart=/bin/false\n"
    on_node("kedge", "rest1", f"mkdir -p {broken} && printf '{lines}' > {broken}/broken.conf")
    on_node("kedge", "rest1", "systemctl daemon-reload")
    before = processes()
    try:
        done = play("rolling_restart.yml", inventory=INVENTORY)
        now = processes()
        again = play("rolling_restart.yml", inventory=INVENTORY)
        after = processes()
    finally:
        on_node("kedge", "rest1", f"rm {broken}/broken.conf; systemctl daemon-reload")
    output = done.stdout + done.stderr
    assert done.returncode != 0
    told = output.partition("failed: [rest1]")[2]
    assert "kafka-rest@8083" in told
    assert "nothing to put back; it is stopped" in told
    assert "its journal ends with" in told
    # One was restarted before it, and none after it was touched.
    assert now["rest1", "8082"] != before["rest1", "8082"]
    assert all(now["rest2", port] == before["rest2", port] for port in ("8082", "8083"))
    # The run held that host, and did nothing else there.
    assert (recap(done.stdout)["rest2"]["ok"], recap(done.stdout)["rest2"]["changed"]) == (1, 0)
    # As long as it is down no other is taken from the balancer: what is down restarts before all others, and stops the run.
    assert again.returncode != 0
    assert "kafka-rest@8083" in again.stdout.partition("failed: [rest1]")[2]
    assert all(after[at] == now[at] for at in now if at != ("rest1", "8083"))
    mended = play("rolling_restart.yml", "--limit", "localhost,rest1", inventory=INVENTORY)
    assert mended.returncode == 0, mended.stdout
    for port in ("8082", "8083"):
        assert on_node("kedge", "rest1", f"systemctl is-active kafka-rest@{port}").strip() == "active"


def test_a_deploy_that_was_killed_is_finished_by_the_next() -> None:
    wanted = ("-e", '{"kafka_rest_settings": {"producer.linger.ms": 4}}')
    with begin("deploy.yml", *wanted, inventory=INVENTORY) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if ": restart)" in line:
                process.kill()
                break
    finished = play("deploy.yml", *wanted, inventory=INVENTORY)
    assert finished.returncode == 0, finished.stdout
    for host in ("rest1", "rest2"):
        for port in ("8082", "8083"):
            text = on_node("kedge", host, f"cat /etc/kafka-rest/{port}/kafka-rest.properties")
            assert "producer.linger.ms=4" in text
            assert on_node("kedge", host, f"systemctl is-active kafka-rest@{port}").strip() == "active"
    again = play("deploy.yml", *wanted, inventory=INVENTORY)
    assert all(state["changed"] == 0 for state in recap(again.stdout).values())


def test_of_two_deploys_together_the_second_is_told_who_is_at_work_before_it_changes_anything() -> None:
    wanted = ("-e", '{"kafka_rest_settings": {"producer.linger.ms": 5}}')
    with begin("deploy.yml", *wanted, inventory=INVENTORY, own_group=True) as first:
        assert first.stdout is not None
        printed = []
        for line in first.stdout:
            printed.append(line)
            if ": drain at" in line:
                break
        # However long the others take to start, it is at work.
        os.killpg(first.pid, signal.SIGSTOP)
        try:
            second = play(
                "deploy.yml", "-e", '{"kafka_rest_settings": {"producer.linger.ms": 6}}', inventory=INVENTORY
            )
            shown = play("plan.yml", inventory=INVENTORY)
        finally:
            os.killpg(first.pid, signal.SIGCONT)
        printed += first.stdout
    assert first.returncode == 0, "".join(printed)
    told = " ".join(second.stdout.split())
    assert second.returncode != 0
    assert "kafka_rest" in told and "is held by" in told and "(deploy.yml, since" in told, told
    assert "No host was touched" in told
    assert all(host["changed"] == 0 for host in recap(second.stdout).values())
    assert "a deploy would be refused now" in " ".join((shown.stdout + shown.stderr).split())
    text = on_node("kedge", "rest2", "cat /etc/kafka-rest/8083/kafka-rest.properties")
    assert "producer.linger.ms=5" in text


def test_a_server_that_somebody_took_out_by_hand_is_out_after_a_deploy() -> None:
    lb = "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/rest-balancer/haproxy/admin.sock')"
    ask = lb + "; s.sendall(b'{}' + bytes([10])); print(s.makefile().read())\""
    # Nothing is left to restart, beside which none may be out.
    assert play("deploy.yml", inventory=INVENTORY).returncode == 0
    on_node("kedge", "lb1", ask.format("set server rest/rest1:8082 state maint"))
    try:
        done = play("deploy.yml", inventory=INVENTORY)
        assert done.returncode == 0, done.stdout
        told = " ".join((done.stdout + done.stderr).split())
        assert "rest1:8082 stays out at the balancer: taken out by hand, not by Kedge" in told
        rows = on_node("kedge", "lb1", ask.format("show stat")).splitlines()
        assert any(row.startswith("rest,rest1:8082,") and ",MAINT," in row for row in rows)
    finally:
        on_node("kedge", "lb1", ask.format("set server rest/rest1:8082 state ready"))


def test_check_mode_works_on_bare_hosts_and_leaves_them_bare() -> None:
    inventory = "molecule/kafka_rest/inventory"
    local_fleet("up", inventory)
    try:
        for _ in range(2):
            done = play("deploy.yml", "--check", "--diff", inventory=inventory)
            assert done.returncode == 0, done.stdout
            assert recap(done.stdout)["rest1"]["changed"] > 0
    finally:
        local_fleet("down", inventory)
