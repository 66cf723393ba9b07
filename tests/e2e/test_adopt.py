"""Proxies that somebody else runs behind a balancer are taken over under load, or given back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from tests.awaiting import await_that
from tests.e2e.asking import asking, none_failed
from tests.e2e.playing import deployed_fleet, on_node, play, recap

INVENTORY: Final = "tests/e2e/inventory_adopt"
FLEET: Final = "kedge-e2e-adopt"
HOSTS: Final = ("rest1", "rest2")
BALANCER: Final = "http://10.78.16.31:8080"
ADOPT: Final = ("-e", json.dumps({"kafka_rest_adopt": [{"port": 8082, "unit": "theirs.service"}]}))
ONE_HOST: Final = ("--limit", "localhost,lb1,rest1", "-e", "deploy_clusters=true")

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("foreign"),
]

#: The same software under another unit, from another folder, and no trace of Kedge's instance.
THEIRS: Final = r"""set -e
cp -rL --preserve=mode,ownership /etc/kafka-rest/8082 /srv/theirs
sed -i 's#/etc/kafka-rest/8082#/srv/theirs#g' /srv/theirs/environment /srv/theirs/kafka-rest.properties
cat > /etc/systemd/system/theirs.service <<'END'
[Service]
User=kafka-rest
EnvironmentFile=/srv/theirs/environment
ExecStart=/srv/theirs/dist/bin/kafka-rest-start /srv/theirs/kafka-rest.properties
SuccessExitStatus=143
[Install]
WantedBy=multi-user.target
END
systemctl disable --now kafka-rest@8082
rm -rf /etc/kafka-rest /var/lib/kedge/kafka-rest /etc/systemd/system/kafka-rest*
systemctl daemon-reload
systemctl enable --now theirs
"""
BROKEN: Final = "/etc/systemd/system/kafka-rest@.service.d"


def runs(host: str, unit: str) -> str:
    """Whether a unit of a host is active, and whether it starts with the host."""
    asked = f"systemctl is-active {unit}; systemctl is-enabled {unit}"
    return " ".join(on_node(FLEET, host, asked, check=False).split())


def up() -> set[str]:
    """The servers that the balancer has up."""
    said = on_node(
        FLEET,
        "lb1",
        'python3 -c "import socket; s = socket.socket(socket.AF_UNIX);'
        "s.connect('/run/rest-balancer/haproxy/admin.sock'); s.sendall(b'show stat\\n');"
        "print(b''.join(iter(lambda: s.recv(65536), b'')).decode())\"",
    )
    rows = (line.split(",") for line in said.splitlines() if line.startswith("rest,"))
    return {row[1] for row in rows if row[17] == "UP" and row[1] != "BACKEND"}


@pytest.fixture(scope="module")
def foreign() -> Iterator[None]:
    """A fleet whose balancer is Kedge's, and whose proxies are somebody else's."""
    with deployed_fleet(INVENTORY):
        for host in HOSTS:
            on_node(FLEET, host, THEIRS)
        await_that(
            lambda: up() == {f"{host}:8082" for host in HOSTS}, "the balancer has both predecessors up"
        )
        yield


def test_without_an_entry_a_deploy_stops_and_with_one_the_plan_names_what_it_takes_over() -> None:
    stopped = play("deploy.yml", inventory=INVENTORY)
    assert stopped.returncode != 0
    assert "of theirs.service)" in " ".join(stopped.stdout.split())
    assert all(host["changed"] == 0 for host in recap(stopped.stdout).values())
    shown = play("plan.yml", *ADOPT, inventory=INVENTORY)
    assert shown.returncode == 0, shown.stdout
    assert "a deploy would take it over" in shown.stdout
    assert "from theirs.service, which holds its port now" in shown.stdout
    assert "kafka_rest: take over from what runs there" in shown.stdout


def test_an_instance_that_does_not_become_ready_gives_the_port_back_without_a_failed_request() -> None:
    lines = r"[Service]\nExecStart=\nExecStart=/bin/false\n"
    for host in HOSTS:
        on_node(FLEET, host, f"mkdir -p {BROKEN} && printf '{lines}' > {BROKEN}/broken.conf")
    try:
        with asking(BALANCER) as answers:
            failed = play("deploy.yml", *ADOPT, inventory=INVENTORY)
    finally:
        for host in HOSTS:
            on_node(FLEET, host, f"rm -r {BROKEN} && systemctl daemon-reload")
    assert failed.returncode != 0
    said = " ".join(failed.stdout.split())
    assert "theirs.service runs and serves on port 8082 as before. No instance after it was touched" in said
    none_failed(answers)
    assert {runs(host, "theirs") for host in HOSTS} == {"active enabled"}
    ours = {host: runs(host, "kafka-rest@8082").split() for host in HOSTS}
    assert not any({"active", "enabled"} & set(said) for said in ours.values()), ours


def test_one_host_then_the_others_are_taken_over_without_a_failed_request() -> None:
    with asking(BALANCER) as answers:
        one = play("deploy.yml", *ADOPT, *ONE_HOST, inventory=INVENTORY)
        assert one.returncode == 0, one.stdout
        assert (runs("rest1", "kafka-rest@8082"), runs("rest2", "theirs")) == ("active enabled",) * 2
        done = play("deploy.yml", *ADOPT, inventory=INVENTORY)
    assert done.returncode == 0, done.stdout
    none_failed(answers)
    assert {runs(host, "kafka-rest@8082") for host in HOSTS} == {"active enabled"}
    # Stopped and kept, for whoever wants to go back.
    assert {runs(host, "theirs") for host in HOSTS} == {"inactive disabled"}
    again = play("deploy.yml", *ADOPT, inventory=INVENTORY)
    assert again.returncode == 0, again.stdout
    assert all(host["changed"] == 0 for host in recap(again.stdout).values()), again.stdout
