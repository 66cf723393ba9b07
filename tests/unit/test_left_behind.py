"""Hosts that left the inventory: found by the record that the others keep, removed, and forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plugins.modules import kedge_cleared, kedge_deployed
from plugins.modules.kedge_deployed import left_behind, next_record, read, write


def has(*services: str, address: str = "") -> dict[str, Any]:
    return {"address": address or "10.0.0.1", "services": list(services)}


REST, MIRROR = "kafka_rest", "mirror_maker"
THREE = {f"rest{n}": has(REST, address=f"10.0.0.{n}") for n in (1, 2, 3)}


def test_a_host_that_left_the_inventory_stops_the_deploy_with_what_to_do() -> None:
    (left,) = left_behind(THREE, {h: THREE[h] for h in ("rest1", "rest2")})
    assert (left["host"], left["services"], left["stops"]) == ("rest3", [REST], True)
    assert left["said"].startswith("rest3 (10.0.0.3) had kafka_rest deployed and left the inventory: its")
    assert "remove_host.yml -e host=rest3 (-e gone=rest3 where the machine does not exist" in left["said"]


def test_a_host_that_left_a_group_is_found_too() -> None:
    record = {**THREE, "rest3": has(REST, MIRROR, address="10.0.0.3")}
    (left,) = left_behind(record, {**THREE, "rest3": has(MIRROR, address="10.0.0.3")})
    assert (left["host"], left["services"]) == ("rest3", [REST])
    assert "is no longer in the group:" in left["said"]


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


class EndedError(Exception):
    """A module's answer."""


def answer(monkeypatch: pytest.MonkeyPatch, **given: Any) -> dict[str, Any]:
    class Module:
        check_mode = given.pop("check", False)
        params = {"planned": {}, "forget": ""} | given

        def __init__(self, **_: Any) -> None: ...

        def exit_json(self, **said: Any) -> None:
            raise EndedError(said)

        def fail_json(self, **said: Any) -> None:
            raise EndedError(said | {"failed": True})

    monkeypatch.setattr(kedge_deployed, "AnsibleModule", Module)
    with pytest.raises(EndedError) as ended:
        kedge_deployed.main()
    said: dict[str, Any] = ended.value.args[0]
    return said


def test_nothing_is_noted_while_a_host_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".deployed.json"
    monkeypatch.setattr(kedge_deployed, "FILE", file)
    assert answer(monkeypatch, planned=THREE)["changed"]
    assert not answer(monkeypatch, planned=THREE)["changed"]
    two = {h: THREE[h] for h in ("rest1", "rest2")}
    stopped = answer(monkeypatch, planned=two)
    assert [one["host"] for one in stopped["left"]] == ["rest3"]
    assert set(json.loads(file.read_text())["hosts"]) == set(THREE)
    assert answer(monkeypatch, planned=two, forget="rest3", check=True)["left"] == []
    assert set(read(file)) == set(THREE)
    assert answer(monkeypatch, planned=two, forget="rest3")["changed"]
    assert set(read(file)) == set(two)


def test_what_is_cleared_is_what_the_service_has_and_the_shared_only_with_the_last(tmp_path: Path) -> None:
    names = {
        str(path.relative_to(tmp_path))
        for path in kedge_cleared.places(["kafka-rest"], ["kafka-rest", "mirror-maker"], tmp_path)
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
        for path in kedge_cleared.places(["kafka-rest"], ["kafka-rest"], tmp_path)
    }
    assert last - names == {"opt/kedge", "var/lib/kedge/.release-key", "var/lib/kedge/.deployed.json"}


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "kept")
    kedge_cleared.remove(link)
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_instances_are_those_that_have_releases(tmp_path: Path) -> None:
    for name in ("8083", "8082"):
        (tmp_path / "kafka-rest" / name).mkdir(parents=True)
    (tmp_path / "kafka-rest" / ".lock").touch()
    assert kedge_cleared.instances("kafka-rest", tmp_path) == ["8082", "8083"]
    assert kedge_cleared.instances("mirror-maker", tmp_path) == []
    assert kedge_cleared.units_here(tmp_path) == ["kafka-rest"]
