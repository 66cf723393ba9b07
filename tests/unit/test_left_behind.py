"""Hosts that left the inventory: found by the record that the others keep, removed, and forgotten."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kedge.deploy.deployed import left_behind, left_together, next_record, reported
from lab.bench.hosts.__main__ import played, write_inventory
from plugins.action import kedge_deployed_record as action
from plugins.modules import kedge_deployed_record, kedge_host_cleared
from plugins.modules.kedge_deployed_record import read, write


def has(*services: str, address: str = "") -> dict[str, Any]:
    return {"address": address or "10.0.0.1", "services": list(services)}


REST, MIRROR = "kafka_rest", "mirror_maker"
THREE = {f"rest{n}": has(REST, address=f"10.0.0.{n}") for n in (1, 2, 3)}


def said(planned: dict[str, Any], **records: dict[str, Any]) -> list[dict[str, Any]]:
    """What is made of the records that these hosts keep."""
    return left_together(one for host, record in records.items() for one in reported(host, record, planned))


def test_a_host_that_left_the_inventory_stops_the_deploy_with_what_to_do() -> None:
    (left,) = said({h: THREE[h] for h in ("rest1", "rest2")}, rest1=THREE, rest2=THREE)
    assert (left["host"], left["services"], left["stops"]) == ("rest3", [REST], True)
    assert left["said"].startswith("rest3 (10.0.0.3) had kafka_rest deployed and left the inventory: its")
    assert "remove_host.yml -e host=rest3 (-e gone=rest3 where the machine does not exist" in left["said"]
    assert left["said"].endswith("So says the record of rest[1-2]")


def test_a_host_that_left_a_group_is_found_too() -> None:
    record = {**THREE, "rest3": has(REST, MIRROR, address="10.0.0.3")}
    (left,) = said({**THREE, "rest3": has(MIRROR, address="10.0.0.3")}, rest1=record, rest3=record)
    assert (left["host"], left["services"]) == ("rest3", [REST])
    assert "is no longer in the group:" in left["said"]
    assert left["addresses"] == {"10.0.0.3": ["rest3"]}


@pytest.mark.parametrize(
    ("host", "address"), [("rest1", "10.0.0.1"), ("rest1", "10.0.0.66"), ("other", "10.0.0.1")]
)
def test_no_host_has_another_one_named_that_is_planned(host: str, address: str) -> None:
    crafted = {host: has(MIRROR, REST, address=address)}
    planned = {**THREE, "mm1": has(MIRROR, address="10.0.0.9")}
    assert said(planned, rest2=crafted) == []


def test_hosts_that_disagree_on_an_address_are_named_with_what_they_say() -> None:
    planned = {h: THREE[h] for h in ("rest1", "rest2")}
    crafted = {"rest3": has(REST, address="10.0.0.66")}
    (left,) = said(planned, rest1=THREE, rest2=crafted)
    assert left["addresses"] == {"10.0.0.3": ["rest1"], "10.0.0.66": ["rest2"]}
    assert "rest3 (10.0.0.3 by the record of rest1, 10.0.0.66 by the record of rest2) had" in left["said"]


def test_a_host_by_another_name_at_its_address_is_no_other_host() -> None:
    renamed = {"proxy3": THREE["rest3"], "rest1": THREE["rest1"], "rest2": THREE["rest2"]}
    assert left_behind(THREE, renamed) == []
    assert set(next_record(THREE, renamed)) == {"proxy3", "rest1", "rest2"}


def test_a_service_that_no_host_has_may_be_another_inventorys() -> None:
    """Two inventories may share hosts: neither takes the other's services for its own."""
    mirrors = {"rest1": has(MIRROR)}
    (left,) = left_behind({"rest1": has(REST)}, mirrors)
    assert not left["stops"]
    assert next_record({"rest1": has(REST)}, mirrors) == {"rest1": has(MIRROR, REST)}


def test_what_was_removed_is_forgotten_and_the_rest_is_not() -> None:
    planned = {"rest1": THREE["rest1"]}
    assert set(next_record(THREE, planned, "rest3")) == {"rest1", "rest2"}
    assert [one["host"] for one in left_behind(next_record(THREE, planned, "rest3"), planned)] == ["rest2"]


def test_the_record_is_its_owners_alone_and_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "kedge" / ".deployed.json"
    assert read(file) == {}
    write(file, THREE)
    assert read(file) == THREE
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no record of what is deployed"),
        ("[]", "is no record of what is deployed"),
        ('{"format": 1, "hosts": {"a": {"services": []}}}', "is no record of what is deployed"),
        ('{"format": 1, "hosts": []}', "is no record of what is deployed"),
        ('{"format": 2, "hosts": {}}', "was written by a newer Kedge"),
    ],
)
def test_a_record_that_somebody_edited_or_a_newer_kit_wrote_is_named(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / ".deployed.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=said) as raised:
        read(file)
    assert str(file) in str(raised.value)


class Reading(action.ActionModule):  # type: ignore[misc]
    """The action on a host, whose module answers as it is given, or from the file of this machine."""

    def __init__(
        self, answer: dict[str, Any] | None = None, *, check: bool = False, **arguments: Any
    ) -> None:
        self._task = SimpleNamespace(args=arguments, check_mode=check, async_val=0)
        self._answer = answer

    def _execute_module(self, name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        assert name == "kedge_deployed_record"
        if "write" in module_args:
            write(kedge_deployed_record.FILE, module_args["write"])
        return {"record": read(kedge_deployed_record.FILE)} if self._answer is None else self._answer

    def answers(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr(action.ActionBase, "run", lambda *_: {})
        found: dict[str, Any] = self.run(None, {"inventory_hostname": "rest1"})
        return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of a host, which has none yet."""
    monkeypatch.setattr(kedge_deployed_record, "FILE", tmp_path / ".deployed.json")
    return kedge_deployed_record.FILE


def test_nothing_is_noted_while_a_host_is_left_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(**given: Any) -> dict[str, Any]:
        return Reading(**given).answers(monkeypatch)

    assert answer(planned=THREE)["changed"]
    assert not answer(planned=THREE)["changed"]
    two = {h: THREE[h] for h in ("rest1", "rest2")}
    stopped = answer(planned=two)
    assert [one["host"] for one in stopped["left"]] == ["rest3"]
    assert set(json.loads(file.read_text())["hosts"]) == set(THREE)
    assert answer(planned=two, forget="rest3", check=True)["left"] == []
    assert set(read(file)) == set(THREE)
    assert answer(planned=two, forget="rest3")["changed"]
    assert set(read(file)) == set(two)


def one(host: str = "rest9", **differs: Any) -> dict[str, Any]:
    return {"record": {host: {"address": "10.0.0.9", "services": [REST]} | differs}}


@pytest.mark.parametrize(
    "crafted",
    [
        {},
        {"record": ["rest9"]},
        one(services=["../../../../root"]),
        one(services=["another"]),
        one(services=[REST] * 21),
        one(address="-oProxyCommand=id"),
        one(address="10.0.0.9 root"),
        one(address="10.0.0.9\n"),
        one(host="-rest9"),
        one(host="../rest9"),
        one(host="rest9\x1b[2J"),
        one(said="\x1b[2J"),
        {"record": {f"rest{n}": has(REST) for n in range(10_001)}},
    ],
)
def test_an_answer_that_is_no_record_counts_for_nothing_and_names_its_host(
    crafted: dict[str, Any], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Reading(crafted, planned=THREE).answers(monkeypatch)
    (warned,) = answer.pop("warnings")
    assert answer == {"changed": False, "left": []}
    assert warned.startswith("rest1: its record of what is deployed where was not taken: ")
    assert warned.isprintable()
    assert len(warned) < 600
    assert not file.exists()


def test_of_an_answer_nothing_but_the_record_is_taken(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crafted = {"record": {}, "left": one(), "ansible_facts": {"a": 1}, "warnings": ["x"], "msg": "\x1b[2J"}
    assert Reading(crafted, planned={}).answers(monkeypatch) == {"changed": False, "left": []}
    failed = Reading({"failed": True, "msg": "a\x1b[2J\x9b", "said": "x"}).answers(monkeypatch)
    message = failed.pop("msg")
    assert failed == {"changed": False, "failed": True}
    assert message.startswith(
        r"The host's record of what is deployed where: a\x1b[2J\x9b. No host was touched."
    )
    assert not file.exists()


def leaving(tmp_path: Path, *arguments: str, **records: Any) -> tuple[str, list[str]]:
    """Play remove_host.yml on doubles of which rest2 left; what it printed, and the calls to hosts in their order."""
    write_inventory(tmp_path, 3)
    listing = json.loads((tmp_path / "hosts.yml").read_text())
    del listing["all"]["children"]["kafka_rest"]["hosts"]["rest2"]
    (tmp_path / "hosts.yml").write_text(json.dumps(listing))
    says = {f"{host} kedge_deployed_record": {"record": record} for host, record in records.items()}
    (tmp_path / "says").write_text(json.dumps(says))
    with contextlib.suppress(RuntimeError):  # what it printed says why it ended
        played(
            tmp_path,
            ["remove_host.yml", *arguments],
            KEDGE_SAYS=str(tmp_path / "says"),
            KEDGE_FAILS="10.0.0.2 kedge_host_cleared",  # else a whole deploy would follow
            ANSIBLE_DISPLAY_OK_HOSTS="true",
        )
    return " ".join((tmp_path / "output").read_text().split()), (tmp_path / "calls").read_text().splitlines()


HONEST = {"rest2": has(REST, address="10.0.0.2")}


@pytest.mark.slow
def test_a_hosts_crafted_record_reaches_no_other_host(tmp_path: Path) -> None:
    """One host names another address, a unit that is a path, and a text for the terminal."""
    crafted = {"rest2": {"address": "10.0.0.66", "services": ["../../../../root"], "said": "\x1b[2J"}}
    said, calls = leaving(tmp_path, "-e", "host=rest2", rest1=HONEST, rest3=crafted)
    assert "rest3: its record of what is deployed where was not taken" in said
    assert {call for call in calls if "kedge_host_cleared" in call} == {"10.0.0.2 kedge_host_cleared"}
    assert "/root" not in said
    assert "\x1b" not in said


@pytest.mark.slow
def test_where_hosts_disagree_none_is_reached_until_somebody_says_which(tmp_path: Path) -> None:
    records = {"rest1": HONEST, "rest3": {"rest2": has(REST, address="10.0.0.66")}}
    said, calls = leaving(tmp_path, "-e", "host=rest2", **records)
    assert "10.0.0.2 by the record of rest1; 10.0.0.66 by the record of rest3. Nothing was stopped." in said
    assert not [call for call in calls if "kedge_host_cleared" in call]
    _, calls = leaving(tmp_path, "-e", "host=rest2", "-e", "address=10.0.0.2", **records)
    assert {call for call in calls if "kedge_host_cleared" in call} == {"10.0.0.2 kedge_host_cleared"}
    said, calls = leaving(tmp_path, "-e", "host=rest2", "-e", "address=-oProxyCommand=id", **records)
    assert "address is no name and no number of a host" in said
    assert not [call for call in calls if "kedge_host_cleared" in call]


@pytest.mark.parametrize("unit", ["../../../../root", "/root", "kafka-rest/..", "", "-", "Kafka", "a\n"])
def test_a_unit_that_is_no_name_is_refused_where_paths_are_made_of_it(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusedError(Exception):
        pass

    class Module:
        check_mode = True

        def __init__(self, **_: Any) -> None:
            self.params = {"units": ["kafka-rest", unit], "kernel": False}

        def fail_json(self, msg: str) -> None:
            raise RefusedError(msg)

    monkeypatch.setattr(kedge_host_cleared, "AnsibleModule", Module)
    with pytest.raises(RefusedError, match="no names of units"):
        kedge_host_cleared.main()


def test_what_is_cleared_is_what_the_service_has_and_the_shared_only_with_the_last(tmp_path: Path) -> None:
    names = {
        str(path.relative_to(tmp_path))
        for path in kedge_host_cleared.places(["kafka-rest"], ["kafka-rest", "mirror-maker"], tmp_path)
    }
    assert names == {
        "etc/systemd/system/kafka-rest@.service",
        "etc/systemd/system/kafka-rest.target",
        "etc/kafka-rest",
        "var/lib/kafka-rest",
        "var/log/kafka-rest",
        "var/lib/kedge/kafka-rest",
    }
    last = {
        str(path.relative_to(tmp_path))
        for path in kedge_host_cleared.places(["kafka-rest"], ["kafka-rest"], tmp_path)
    }
    assert last - names == {
        "opt/kedge",
        *(
            f"var/lib/kedge/{name}"
            for name in (".release-key", ".deployed.json", ".lease.json", ".lease.lock")
        ),
    }


def test_units_that_go_with_an_instance_are_stopped_and_removed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = tmp_path / "etc/systemd/system"
    systemd.mkdir(parents=True)
    names = ["canary-audit@.timer", "canary-audit@.service"]
    for name in (*names, "canary-of-mine@.service", "kafka-rest@.service"):
        (systemd / name).touch()
    told: list[tuple[str, ...]] = []

    def systemctl(*words: str) -> SimpleNamespace:
        told.append(words)
        return SimpleNamespace(returncode=3)

    found = kedge_host_cleared.helpers("canary", tmp_path)
    assert [path.name for path in found] == names
    assert {*found} <= {*kedge_host_cleared.places(["canary"], ["canary", "kafka-rest"], tmp_path)}
    monkeypatch.setattr(kedge_host_cleared, "systemctl", systemctl)
    monkeypatch.setattr(kedge_host_cleared, "instances", lambda _: ["leaf"])
    monkeypatch.setattr(kedge_host_cleared, "helpers", lambda _: found)
    kedge_host_cleared.stop(None, "canary")
    stopped = [name for word, name, *_ in told if word == "stop"]
    assert stopped[:3] == ["canary-audit@leaf.timer", "canary-audit@leaf.service", "canary@leaf.service"]
    assert ("disable", "canary-audit@leaf.timer") in told


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "kept")
    kedge_host_cleared.remove(link)
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_instances_are_those_that_have_releases(tmp_path: Path) -> None:
    for name in ("8083", "8082"):
        (tmp_path / "kafka-rest" / name).mkdir(parents=True)
    (tmp_path / "kafka-rest" / ".lock").touch()
    assert kedge_host_cleared.instances("kafka-rest", tmp_path) == ["8082", "8083"]
    assert kedge_host_cleared.instances("mirror-maker", tmp_path) == []
    assert kedge_host_cleared.units_here(tmp_path) == ["kafka-rest"]


@pytest.mark.slow
def test_a_deploy_reports_once_what_no_host_has_any_more(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    record = {"mm9": {"address": "10.9.9.9", "services": ["mirror_maker"]}}
    says = tmp_path / "says.json"
    says.write_text(json.dumps({f"rest{n} kedge_deployed_record": {"record": record} for n in (1, 2)}))
    played(tmp_path, ["deploy.yml"], KEDGE_SAYS=str(says), ANSIBLE_DISPLAY_OK_HOSTS="true")
    said = " ".join((tmp_path / "output").read_text().split())
    assert said.count("mm9 (10.9.9.9) had mirror_maker deployed and left the inventory, and no other") == 1


@pytest.mark.slow
def test_the_plan_shows_hosts_that_left_and_writes_nothing(tmp_path: Path) -> None:
    write_inventory(tmp_path, 2)
    record = {"rest9": {"address": "10.9.9.9", "services": [REST]}}
    says = tmp_path / "says.json"
    says.write_text(json.dumps({f"rest{n} kedge_deployed_record": {"record": record} for n in (1, 2)}))
    calls = played(tmp_path, ["plan.yml"], KEDGE_SAYS=str(says))["calls"]
    said = " ".join((tmp_path / "output").read_text().split())
    assert "rest9 (10.9.9.9) had kafka_rest deployed and left the inventory" in said
    assert said.count("rest9 (10.9.9.9) had") == 1
    assert calls["kedge_deployed_record"] == 3
