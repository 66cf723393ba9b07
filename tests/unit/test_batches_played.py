"""Batches as Ansible plays them, on doubles of hosts: who restarts together, and what a restart calls."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from lab.bench.hosts.__main__ import ROOT, played, write_inventory
from plugins.callback.kedge_inventory import with_localhost


def called(folder: Path, module: str) -> list[str]:
    """The hosts of a module's calls, in their order."""
    lines = (line.split() for line in (folder / "calls").read_text().splitlines())
    return [host for host, name in lines if name == module]


@pytest.mark.slow
def test_a_restart_calls_each_host_and_balancer_as_often_whatever_the_fleet(tmp_path: Path) -> None:
    write_inventory(tmp_path, 10, racks=5)
    calls = played(tmp_path, ["rolling_restart.yml"])["calls"]
    asked = {"gate": 2 * 10, "haproxy_compare": 1, "haproxy_drain": 1 + 2 * 10, "kedge_lease": 11}
    assert calls == asked | {"kedge_instance": 10}
    together = called(tmp_path, "kedge_instance")
    assert Counter(together) == Counter({f"rest{n}": 1 for n in range(1, 11)})
    # Ten instances, of which eight carry a quarter more: two at once, of different racks.
    pairs = [together[at : at + 2] for at in range(0, 10, 2)]
    assert all(len({int(host[4:]) % 5 for host in pair}) == 2 for pair in pairs), pairs


@pytest.mark.slow
def test_hosts_of_a_batch_restart_together_whatever_their_instances_are_called(tmp_path: Path) -> None:
    """One instance of rest1 went first, so its second meets the first of another host."""
    write_inventory(tmp_path, 2, racks=2, instances=3, at_once=2, first=1, hold_seconds=1, room_percent=100)
    played(tmp_path, ["rolling_restart.yml"])
    first, *together = called(tmp_path, "kedge_instance")
    assert first == "rest1"
    assert [set(together[at : at + 2]) for at in (0, 2, 4)] == [
        {"rest1", "rest2"},
        {"rest1", "rest2"},
        {"rest2"},
    ]


@pytest.mark.slow
def test_what_a_balancer_has_down_restarts_before_all_others_and_once(tmp_path: Path) -> None:
    write_inventory(tmp_path, 3, instances=2)
    says = tmp_path / "says.json"
    says.write_text(json.dumps({"lb1 haproxy_compare": {"down": ["rest2:8083", "rest3:8082"]}}))
    calls = played(tmp_path, ["rolling_restart.yml"], KEDGE_SAYS=str(says))["calls"]
    assert calls["kedge_instance"] == 6
    assert called(tmp_path, "kedge_instance") == ["rest2", "rest3", "rest1", "rest1", "rest2", "rest3"]


@pytest.mark.slow
def test_a_failure_stops_the_restart_with_its_batch(tmp_path: Path) -> None:
    write_inventory(tmp_path, 4, racks=2, at_once=2, room_percent=100)
    with pytest.raises(RuntimeError, match="does not become ready"):
        played(tmp_path, ["rolling_restart.yml"], KEDGE_FAILS="rest1 kedge_instance")
    assert len(called(tmp_path, "kedge_instance")) == 2
    # Both are put back at the balancer all the same; what a former run left out was put back before.
    assert len(called(tmp_path, "haproxy_drain")) == 1 + 4


@pytest.mark.slow
def test_a_host_that_is_gone_stops_the_restart_with_its_batch(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    with pytest.raises(RuntimeError, match="a host that is gone"):
        played(tmp_path, ["rolling_restart.yml"], KEDGE_GONE="rest1 kedge_instance")
    assert called(tmp_path, "kedge_instance") == ["rest1"]
    # It stays out: clients would wait for it.
    assert len(called(tmp_path, "haproxy_drain")) == 1 + 1
    said = " ".join((tmp_path / "output").read_text().split())
    assert (
        "8082: restart: rest1 does not answer: a double of a host that is gone. Run the playbook again"
        in said
    )


@pytest.mark.slow
def test_only_the_instance_that_failed_is_put_back(tmp_path: Path) -> None:
    write_inventory(tmp_path, 1, instances=3)
    with pytest.raises(RuntimeError, match="does not become ready"):
        played(tmp_path, ["rolling_restart.yml"], KEDGE_FAILS="rest1 kedge_instance")
    assert len(called(tmp_path, "kedge_instance")) == 1
    assert len(called(tmp_path, "haproxy_drain")) == 1 + 2


@pytest.mark.slow
def test_a_balancer_that_is_gone_leaves_the_instance_untouched(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    with pytest.raises(RuntimeError, match="lb1 does not answer: a double of a host that is gone"):
        played(tmp_path, ["rolling_restart.yml"], KEDGE_GONE="lb1 haproxy_drain")
    assert called(tmp_path, "kedge_instance") == []


@pytest.mark.long
def test_what_goes_first_goes_alone_and_stops_all_where_it_does_not_hold(tmp_path: Path) -> None:
    write_inventory(tmp_path, 10, racks=5, first=1, hold_seconds=1)
    with pytest.raises(RuntimeError, match=r"(?s)failed their soak.*no other instance was touched"):
        played(tmp_path, ["rolling_restart.yml"], KEDGE_FAILS="lb1 haproxy_compare")
    assert called(tmp_path, "kedge_instance") == ["rest1"]


@pytest.mark.slow
def test_a_soak_of_which_a_balancer_says_nothing_stops_all_and_takes_nothing_back(tmp_path: Path) -> None:
    write_inventory(tmp_path, 3, first=1, hold_seconds=1)
    with pytest.raises(RuntimeError, match=r"They run and serve, and no other instance was touched"):
        played(tmp_path, ["rolling_restart.yml"], KEDGE_GONE="lb1 haproxy_compare")
    assert called(tmp_path, "kedge_instance") == ["rest1"]


@pytest.mark.slow
def test_what_went_first_goes_back_to_its_former_release_where_it_does_not_hold(tmp_path: Path) -> None:
    write_inventory(tmp_path, 3, first=1, hold_seconds=1)
    with pytest.raises(RuntimeError, match="The former release is back, and no other instance was touched"):
        played(tmp_path, ["deploy.yml"], KEDGE_FAILS="rest1 held")
    # The balancer was reloaded before, so that it serves both; the planned configuration waits.
    assert called(tmp_path, "kedge_instance") == ["lb1", "rest1"]
    assert called(tmp_path, "back") == ["rest1"]


@pytest.mark.slow
def test_a_balancer_that_changes_with_its_proxies_is_reloaded_before_the_first_and_after_the_last(
    tmp_path: Path,
) -> None:
    write_inventory(tmp_path, 2)
    played(tmp_path, ["deploy.yml"])
    assert called(tmp_path, "kedge_instance") == ["lb1", "rest1", "rest2", "lb1"]


@pytest.mark.slow
def test_a_rollback_goes_by_the_gates_and_batches_of_a_restart(tmp_path: Path) -> None:
    write_inventory(tmp_path, 4, racks=2, at_once=2, room_percent=100)
    calls = played(tmp_path, ["rollback.yml", "-e", "service=kafka_rest"], ANSIBLE_DISPLAY_OK_HOSTS="true")[
        "calls"
    ]
    asked = {"haproxy_compare": 1, "haproxy_drain": 1 + 2 * 4, "kedge_lease": 5}
    assert calls == {**asked, "gate": 2 * 4, "former": 4, "kedge_previous_release": 4}
    together = called(tmp_path, "former")
    pairs = [together[at : at + 2] for at in range(0, 4, 2)]
    assert all(len({int(host[4:]) % 2 for host in pair}) == 2 for pair in pairs), pairs
    assert "rest1 kafka-rest@8082: 000000000000 in place of 111111111111" in (tmp_path / "output").read_text()


@pytest.mark.slow
def test_where_one_instance_cannot_go_back_none_is_touched(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    said = (
        r"Refusing to roll back: kafka-rest@8082 of rest1, kafka-rest@8082 of rest2: no previous release is "
        r"there\. No instance was touched"
    )
    with pytest.raises(RuntimeError, match=said):
        played(
            tmp_path, ["rollback.yml", "-e", "service=kafka_rest"],
            KEDGE_NO_WAY_BACK="no previous release is there",
        )  # fmt: skip
    assert {line.split()[1] for line in (tmp_path / "calls").read_text().splitlines()} == {
        "kedge_lease",
        "kedge_previous_release",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["-e", "service=kafka_rst"], "service=kafka_rst: no host of the inventory has instances of that"),
        ([], "service=: no host of the inventory has instances of that"),
        (["-e", "service=kafka_rest", "-e", "release=ab12,000000000000"],
         "no instance has a release ab12: kafka-rest@8082 of rest1 has 000000000000, 111111111111"),
    ],
)  # fmt: skip
def test_a_rollback_of_what_is_not_there_touches_nothing(tmp_path: Path, asked: list[str], said: str) -> None:
    write_inventory(tmp_path, 2)
    with pytest.raises(RuntimeError, match=said):
        played(tmp_path, ["rollback.yml", *asked])
    assert called(tmp_path, "former") == []


@pytest.mark.slow
def test_a_balancer_serves_both_before_proxies_that_it_asks_otherwise_go_back(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    played(tmp_path, ["rollback.yml", "-e", "service=kafka_rest"], KEDGE_ASKED_OTHERWISE="yes")
    lines = (tmp_path / "calls").read_text().splitlines()
    assert [line for line in lines if "kedge_instance" in line or " former" in line] == [
        "lb1 kedge_instance",
        "rest1 former",
        "rest2 former",
    ]


BOOTS = ["-e", json.dumps({"reboot_command": ["true"]})]


@pytest.mark.slow
def test_a_reboot_takes_one_host_after_the_other_out_with_all_its_instances(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2, instances=2)
    played(tmp_path, ["reboot.yml", "-e", "service=kafka_rest", *BOOTS])
    lines = (tmp_path / "calls").read_text().splitlines()
    drained = ["lb1 haproxy_drain"] * 2
    expected = []
    for host in ("rest1", "rest2"):
        gate = f"{host} gate"
        expected += [gate, *drained, f"{host} stopped", f"{host} ping", f"{host} kedge_instance"]
        expected += [*drained, gate]
    assert [line for line in lines if line.split()[1] in {one.split()[1] for one in expected}] == expected


@pytest.mark.slow
def test_packages_that_are_asked_for_are_updated_between_stop_and_boot(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    played(
        tmp_path,
        ["reboot.yml", "--limit", "localhost,rest1", "-e", "packages=java,kernel,curl", *BOOTS],
    )
    lines = (tmp_path / "calls").read_text().splitlines()
    own = [line.split()[1] for line in lines if line.startswith("rest1 ")]
    assert own == [
        "kedge_lease",
        "gate",
        "stopped",
        "setup",
        "apt",
        "apt",
        *("command", "apt", "command"),  # which Java the distribution has, by lists that were empty
        "apt",
        "ping",
        "kedge_instance",
        "gate",
    ]


@pytest.mark.slow
def test_java_is_updated_under_the_name_that_the_host_has_for_it(tmp_path: Path) -> None:
    write_inventory(tmp_path, 1)
    named = json.dumps({"java_packages": {"Debian": ["temurin-{{ java_version }}-jdk"]}})
    own = ["reboot.yml", "--limit", "localhost,rest1", "-v", "-e", named, "-e", "packages=java,curl", *BOOTS]
    played(tmp_path, own, ANSIBLE_DISPLAY_OK_HOSTS="true")
    output = (tmp_path / "output").read_text()
    assert "- curl\n" in output
    assert "- temurin-17-jdk\n" in output
    assert "openjdk-" not in output


@pytest.mark.slow
def test_a_host_that_needs_no_java_gets_none(tmp_path: Path) -> None:
    write_inventory(tmp_path, 1)
    asked = ["-e", "packages=java", "-e", "service=rest_balancer", "-e", '{"java_version": 17}', *BOOTS]
    played(
        tmp_path, ["reboot.yml", "--limit", "localhost,lb1", "-v", *asked], ANSIBLE_DISPLAY_OK_HOSTS="true"
    )
    assert "jdk" not in (tmp_path / "output").read_text()


@pytest.mark.slow
def test_no_host_is_rebooted_after_one_that_stopped_answering(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    asked = ["reboot.yml", "-e", "service=kafka_rest", "-e", "packages=java", *BOOTS]
    with pytest.raises(RuntimeError, match=r"rest1 stopped answering\. rest2 was not touched"):
        played(tmp_path, asked, KEDGE_GONE="rest1 setup")
    assert called(tmp_path, "stopped") == ["rest1"]


@pytest.mark.slow
def test_a_host_that_cannot_be_taken_out_serves_on_and_is_not_rebooted(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    with pytest.raises(
        RuntimeError, match=r"rest1 was not rebooted, and its\s+instances serve again: a double"
    ):
        played(tmp_path, ["reboot.yml", "-e", "service=kafka_rest", *BOOTS], KEDGE_FAILS="rest1 stopped")
    assert "rest1 ping" not in (tmp_path / "calls").read_text()
    # It is started and put back.
    assert called(tmp_path, "kedge_instance") == ["rest1"]
    assert called(tmp_path, "haproxy_drain") == ["lb1", "lb1"]


@pytest.mark.slow
def test_a_host_that_does_not_come_back_stops_the_playbook_with_what_to_do(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    failing = ["-e", json.dumps({"reboot_command": ["false"]})]
    said = r"(?s)rest1 does not come back: false rest1 ended with 1.*The other\s+hosts serve, without\s+kafka_rest"
    with pytest.raises(RuntimeError, match=said):
        played(tmp_path, ["reboot.yml", "-e", "service=kafka_rest", *failing])
    assert set(called(tmp_path, "stopped")) == {"rest1"}


@pytest.mark.slow
def test_a_host_has_as_long_to_answer_as_is_asked_for(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    given = ["reboot.yml", "-e", "service=kafka_rest", "-e", "reboot_seconds=1", *BOOTS]
    began = time.monotonic()
    with pytest.raises(
        RuntimeError, match=r"(?s)rest1 does not come back:\s+timed\s+out.*longer\s+than\s+1\s+s"
    ):
        played(tmp_path, given, KEDGE_FAILS="rest1 ping")
    assert time.monotonic() - began < 120  # by default 900


@pytest.mark.slow
def test_a_balancer_is_rebooted_only_where_it_is_asked_for_by_name(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    with pytest.raises(
        RuntimeError, match=r"Refusing to reboot lb1: clients that go through its balancer fail"
    ):
        played(tmp_path, ["reboot.yml", *BOOTS])
    assert (tmp_path / "calls").read_text() == ""
    played(tmp_path, ["reboot.yml", "-e", "service=rest_balancer", *BOOTS])
    assert called(tmp_path, "stopped") == ["lb1"]


@pytest.mark.long
def test_a_limit_that_mixes_batches_is_refused(tmp_path: Path) -> None:
    write_inventory(tmp_path, 10, racks=5)
    listing = json.loads((tmp_path / "hosts.yml").read_text())
    racks = {host: of["rack"] for host, of in listing["all"]["children"]["kafka_rest"]["hosts"].items()}
    assert racks["rest1"] == racks["rest6"]
    with pytest.raises(RuntimeError, match="of rack r1 would restart together"):
        played(tmp_path, ["rolling_restart.yml", "--limit", "localhost,rest1,rest6"])
    assert called(tmp_path, "kedge_instance") == []


MADE_HERE = [
    "review.yml",
    *(
        file.name
        for file in sorted(ROOT.glob("*.yml"))
        if any(
            role["role"] == "plan"
            for play in yaml.safe_load(file.read_text())
            for role in play.get("roles", ())
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("playbook", MADE_HERE)
def test_a_limit_that_leaves_out_localhost_is_refused_with_the_one_to_write(
    tmp_path: Path, playbook: str
) -> None:
    write_inventory(tmp_path, 2)
    said = "--limit rest1 leaves out localhost, where the plan or review is made. No host was touched. Write --limit 'localhost,rest1'"
    with pytest.raises(RuntimeError, match=re.escape(said)):
        played(tmp_path, [playbook, "--limit", "rest1"])
    assert (tmp_path / "calls").read_text() == ""
    assert "PLAY [" not in (tmp_path / "output").read_text()


@pytest.mark.parametrize(
    ("limit", "written"),
    [
        ("rest1", "localhost,rest1"),
        ("rest1:rest2", "localhost,rest1,rest2"),
        ("rest1, rest2", "localhost,rest1,rest2"),
        ("rest*:!rest2", "localhost,rest*,!rest2"),
        ("!rest2", "localhost,all,!rest2"),
    ],
)
def test_the_limit_to_write_selects_the_same_hosts_and_localhost(limit: str, written: str) -> None:
    assert with_localhost(limit) == written
    chosen = []
    for asked in (limit, written):
        inventory = InventoryManager(DataLoader(), sources="rest1,rest2,rest3,")
        inventory.subset(asked)
        chosen.append([host.name for host in inventory.get_hosts()])
    assert chosen[0] == chosen[1]
    assert [host.name for host in inventory.get_hosts("localhost")] == ["localhost"]


@pytest.mark.parametrize("limit", ["rest*:&rest1", "all:!localhost"])
def test_a_limit_that_would_leave_out_localhost_again_is_not_proposed(limit: str) -> None:
    assert with_localhost(limit) == "localhost,HOST,..."
