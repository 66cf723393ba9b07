"""The way back on real folders: which release is the previous one, what would change, and what is no way back."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import atomic_files, releases, way_back

from kedge.deploy.rollback_report import refusal, steps
from plugins.module_utils.haproxy_trial import Trial
from plugins.modules import kedge_instance, kedge_previous_release, kedge_release
from tests.instance_units import instance_unit

KEY = "agg.exactly.once.source.support"
UNIT = "[Service]\nExecStart=/usr/bin/java {}\n"
MARK = "<secret 0123456789abcdef>"


class Host:
    """A host's folders, with the switch of the module; a process is not started."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.did = folder, list[str]()
        for module in (releases, kedge_previous_release, kedge_release, kedge_instance):
            monkeypatch.setattr(module, "ROOT", folder / "kedge", raising=False)
        monkeypatch.setattr(releases, "ETC", folder / "etc")
        for module in (kedge_instance, way_back):
            monkeypatch.setattr(module, "SYSTEMD", folder / "systemd")
        (folder / "systemd").mkdir()

        def systemctl(*words: str) -> subprocess.CompletedProcess[str]:
            self.did.append(words[0])
            return subprocess.CompletedProcess(words, 0, "", "")

        for module in (kedge_instance, way_back):
            monkeypatch.setattr(module, "systemctl", systemctl)
            monkeypatch.setattr(module, "act", lambda action, *_: systemctl(action))

    def stage(self, release: str, unit: str = "proxy", rows: Any = None, **files: str) -> None:
        texts = {"kafka-rest.properties": f"release={release}\n", "unit.service": UNIT.format(unit), **files}
        marked = {path: text for path, text in texts.items() if MARK in text}
        real = {path: text.replace(MARK, f"secret-of-{release}") for path, text in texts.items()}
        instance = {
            "name": "8082",
            "files": real,
            "marked": texts | marked,
            "links": {"dist": str(self.folder)},
            "rows": json.dumps(rows) if rows is not None else "",
        }
        kedge_release.write_release(self.home / "releases" / release, instance, os.getgid())

    @property
    def home(self) -> Path:
        return self.folder / "kedge" / "kafka-rest" / "8082"

    def switch(self, release: str, state: str = "restarted", fails: str = "", **probe: str) -> str | None:
        """Give the instance a release as a restart does."""
        ready = {"8082": {"kind": "none", **probe}}
        instance = instance_unit("8082", release, ready=ready, state=state, ready_seconds=0.1)
        instance.link = self.folder / "etc" / "kafka-rest" / "8082"
        instance.journal = lambda: "last words"
        instance.wait_ready = lambda **_: "it answers 500" if instance.current() == fails else None
        wrong: str | None = instance.run()
        return wrong

    def find(self, **params: Any) -> dict[str, Any]:
        given = {"unit": "kafka-rest", "names": ["8082"], "releases": [], "foreign": "", "balanced": True}
        return kedge_previous_release.find(given | params)

    def former(self, **params: Any) -> tuple[str, str]:
        found = self.find(**params)["instances"][0]
        return found["release"], found["wrong"]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_the_previous_release_is_the_one_that_ran_before_and_a_second_rollback_goes_forward(
    host: Host,
) -> None:
    for release in ("first", "second", "third"):
        host.stage(release)
        assert host.switch(release) is None
    assert host.former() == ("second", "")
    assert host.switch("second", "former") is None
    assert host.former() == ("third", "")
    assert host.switch("third", "former") is None
    assert host.former() == ("second", "")


def test_the_previous_release_is_the_one_before_although_the_clock_was_set_back(host: Host) -> None:
    for release in ("first", "second"):
        host.stage(release)
        host.switch(release)
        ahead = time.time() + 3600
        os.utime(host.home / "releases" / release / ".probe", (ahead, ahead))
    for release in ("third", "fourth"):
        host.stage(release)
        host.switch(release)
    assert host.former() == ("third", "")


def test_a_rollback_stops_switches_and_starts_with_the_unit_of_the_release(host: Host) -> None:
    for release in ("old", "new"):
        host.stage(release, unit=release)
        host.switch(release)
    host.did.clear()
    assert host.switch("old", "former") is None
    assert (host.folder / "etc" / "kafka-rest" / "8082").resolve().name == "old"
    assert (host.folder / "systemd" / "kafka-rest@.service").read_text() == UNIT.format("old")
    stopped, read, started = (host.did.index(word) for word in ("stop", "daemon-reload", "start"))
    assert stopped < read < started


def test_a_balancer_goes_back_by_a_reload_after_its_former_configuration_was_tried(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def trial(folder: Path, *_: object) -> Trial:
        tried.append(folder.name)
        return Trial(None)

    monkeypatch.setattr(kedge_instance.haproxy_trial, "trial", trial)
    monkeypatch.setattr(kedge_instance.InstanceUnit, "reload", lambda _: host.did.append("reload"))
    for release in ("old", "new"):
        host.stage(release)
        host.switch(release)
    host.did.clear()
    assert host.switch("old", "former", kind="haproxy", socket="s", backend="rest") is None
    assert tried == ["old"]
    assert ("reload" in host.did, "stop" in host.did) == (True, False)
    said = "it would see no instance up"
    monkeypatch.setattr(kedge_instance.haproxy_trial, "trial", lambda *_: Trial(said))
    assert said in str(host.switch("new", "former", kind="haproxy", socket="s", backend="rest"))
    assert (host.folder / "etc" / "kafka-rest" / "8082").resolve().name == "old"


def test_a_restart_is_no_change_of_what_was_before(host: Host) -> None:
    for release in ("first", "second"):
        host.stage(release)
        host.switch(release)
    host.switch("second")
    assert host.former() == ("first", "")


def test_what_never_became_ready_is_not_gone_back_to(host: Host) -> None:
    host.stage("first")
    host.switch("first")
    host.stage("broken")
    assert "the previous release first is back" in str(host.switch("broken", fails="broken"))
    assert host.former() == ("", "no previous release is there")


def test_a_release_that_failed_its_soak_is_not_gone_back_to(host: Host) -> None:
    for release in ("first", "second", "slow"):
        host.stage(release)
        host.switch(release)
    assert host.switch("second", "back") is None
    assert host.former() == ("first", "")


def test_a_former_release_that_does_not_become_ready_leaves_what_ran(host: Host) -> None:
    for release in ("old", "new"):
        host.stage(release, unit=release)
        host.switch(release)
    assert "the previous release new is back and running" in str(host.switch("old", "former", fails="old"))
    assert (host.folder / "systemd" / "kafka-rest@.service").read_text() == UNIT.format("new")


def test_a_release_that_is_gone_stops_nothing(host: Host) -> None:
    host.stage("first")
    host.switch("first")
    host.did.clear()
    assert "its former release gone is no longer there" in str(host.switch("gone", "former"))
    assert host.did == []


def test_a_named_release_is_given_to_the_instance_that_has_it_alone(host: Host) -> None:
    for release in ("first", "second", "third"):
        host.stage(release)
        host.switch(release)
    assert host.former(releases=["another", "first"]) == ("first", "")
    found = host.find(releases=["another"])
    assert found["instances"][0]["release"] == ""
    assert (found["instances"][0]["wrong"], found["restart"], found["diff"]) == ("", [], [])
    # What runs already is named: nothing is to be done.
    assert host.find(releases=["third"])["restart"] == []


def test_an_instance_that_was_never_deployed_is_no_instance_to_roll_back(host: Host) -> None:
    assert host.former() == ("", "nothing is deployed")


@pytest.mark.parametrize(
    ("change", "given", "wrong"),
    [
        ("", {"foreign": "org.other.Main"}, "runs org.other.Main, which must not run beside"),
        ("dist", {}, "which is no longer there"),
        ("tls", {}, "turns TLS on or off at a port in use"),
        ("tls", {"balanced": False}, ""),
        ("unit", {}, "has no unit"),
    ],
)
def test_what_is_no_way_back_is_said(host: Host, change: str, given: dict[str, Any], wrong: str) -> None:
    host.stage("old", unit="org.other.Main")
    host.switch("old", url="http://h:8082")
    host.stage("new")
    host.switch("new", url="https://h:8082" if change == "tls" else "http://h:8082")
    if change == "dist":
        (host.home / "releases" / "old" / "dist").unlink()
        (host.home / "releases" / "old" / "dist").symlink_to(host.folder / "gone")
    if change == "unit":
        (host.home / "releases" / "old" / "unit.service").unlink()
    said = host.former(**given)[1]
    assert wrong in said
    assert bool(said) is bool(wrong)


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("disabled", "enabled", "without exactly_once"),
        ("enabled", "disabled", "with exactly_once"),
        ("preparing", "enabled", ""),
        ("enabled", "enabled", ""),
    ],
)
def test_a_release_with_another_exactly_once_is_no_way_back(
    host: Host, old: str, new: str, runs: str
) -> None:
    for release, support in (("old", old), ("new", new)):
        text = "tasks.max=1\n" if support == "disabled" else f"{KEY}={support}\n"
        # Rows say what was planned; what it runs with may have been edited.
        rows = [{"file": "mm2.properties", "key": KEY, "value": "preparing"}]
        host.stage(release, rows=rows, **{"mm2.properties": text})
    host.switch("old")
    wrong = host.switch("new", "started", fails="new") or ""
    if runs:
        assert f"its previous release runs {runs}, which must not run beside this one" in wrong
    else:
        assert "the previous release old is back and running" in wrong
    host.switch("new")
    refused = f"release old runs {runs}, which must not run beside what is planned" if runs else ""
    assert host.former() == ("old", refused)


def test_the_difference_has_the_files_that_change_and_no_secret(host: Host) -> None:
    host.stage("old", **{"users.properties": f"anna={MARK}\n"})
    host.switch("old")
    host.stage(
        "new", **{"users.properties": f"anna={MARK}\n", "jaas.conf": f'password="{MARK}"\n', "same": "1\n"}
    )
    host.switch("new")
    found = host.find()
    shown = {
        each["after_header"].rpartition("/")[2]: (each["before"], each["after"]) for each in found["diff"]
    }
    assert shown["kafka-rest.properties"] == ("release=new\n", "release=old\n")
    assert shown["users.properties"] == ("anna=***\n", "anna=*** (another one)\n")
    # What only the active release has goes.
    assert shown["jaas.conf"] == ('password="***\n', "")
    assert shown["same"] == ("1\n", "")
    assert "secret-of" not in json.dumps(found)


@pytest.mark.parametrize("kept", ["old", "new"])
def test_the_way_back_leads_past_a_release_with_rows_and_one_without(host: Host, kept: str) -> None:
    for release in ("old", "new"):
        host.stage(release, rows=[{"key": "a", "value": "b"}] if release == kept else None)
        host.switch(release)
    for back in ("old", "new"):
        assert host.former() == (back, "")
        shown = [each["before_header"].rpartition("/")[2] for each in host.find()["diff"]]
        assert shown == ["kafka-rest.properties"]
        assert host.switch(back, "former") is None


@pytest.mark.parametrize(
    ("before", "after", "otherwise"),
    [
        ({"user": "anna", "login": "x"}, {}, True),
        ({"kind": "none"}, {"kind": "other"}, True),
        ({"topic": "a"}, {"topic": "b"}, False),
    ],
)
def test_a_release_that_another_health_check_suits_is_noticed(
    host: Host, before: dict[str, str], after: dict[str, str], otherwise: bool
) -> None:
    for release, probe in (("old", before), ("new", after)):
        host.stage(release)
        host.switch(release)
        (host.home / "releases" / release / ".probe").write_text(json.dumps({"kind": "none", **probe}))
    assert host.find()["asked_otherwise"] is otherwise


def test_the_release_before_the_one_that_runs_is_kept_however_many_are_staged(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for release in ("first", "second"):
        host.stage(release)
        host.switch(release)
    for n in range(6):
        host.stage(f"failed{n}")
    monkeypatch.setattr(kedge_release, "release_key", lambda **_: b"key")
    monkeypatch.setattr(kedge_release, "is_active", lambda *_: True)
    monkeypatch.setattr(kedge_release, "install_units", lambda _: [])
    for n, folder in enumerate([host.home / "releases" / "first", host.home / "releases" / "second"]):
        os.utime(folder, (n, n))
    instance = {"name": "8082", "files": {"a": "1\n"}, "marked": {"a": "1\n"}, "links": {}}
    params = {
        "unit": "kafka-rest",
        "units": {},
        "instances": [instance],
        "secrets": {},
        "controls": {},
        "adopts": {},
        "keep_releases": 3,
        "kit": "",
    }
    kedge_release.stage_all(SimpleNamespace(params=params, check_mode=False), os.getgid())
    assert {"first", "second"} <= set(releases.kept("kafka-rest", "8082"))
    assert len(releases.kept("kafka-rest", "8082")) < 8


def test_a_folder_that_is_no_instance_is_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kedge_release, "ROOT", tmp_path)
    monkeypatch.setattr(kedge_release, "install_units", lambda _: [])
    for name in ("8099", "8099; id > PWNED #", "-rf", ".cache", "a b", "é"):
        (tmp_path / "kafka-rest" / name).mkdir(parents=True)
    params = {"unit": "kafka-rest", "instances": [], "secrets": {}, "keep_releases": 0, "kit": ""}
    said = kedge_release.stage_all(SimpleNamespace(params=params, check_mode=True), 0)
    assert said["stale"] == ["8099"]
    assert said["strange"] == sorted(["'8099; id > PWNED #'", "'-rf'", "'.cache'", "'a b'", r"'\xe9'"])


def found(**instances: dict[str, Any]) -> dict[str, dict[str, Any]]:
    empty = {"name": "8082", "current": "b", "release": "a", "kept": ["a", "b"], "wrong": ""}
    return {host: {"instances": [empty | instance]} for host, instance in instances.items()}


def test_the_reasons_of_a_refusal_are_one_line_however_many_hosts_have_them() -> None:
    hosts = {f"rest{n}": {"wrong": "no previous release is there"} for n in range(50)}
    said = refusal(found(**hosts, other={"wrong": "nothing is deployed"}), "kafka-rest", [])
    assert said.startswith("kafka-rest@8082 of rest0, kafka-rest@8082 of rest1, ")
    assert "rest5 and 44 more: no previous release is there; " in said
    assert said.endswith("kafka-rest@8082 of other: nothing is deployed")


def test_each_named_release_has_to_be_somewhere() -> None:
    two = found(rest1={"kept": ["a"]}, rest2={"kept": ["b"]})
    assert refusal(two, "kafka-rest", ["a", "b"]) == ""
    said = refusal(two, "kafka-rest", ["a", "x"])
    assert (
        said == "no instance has a release x: kafka-rest@8082 of rest1 has a; kafka-rest@8082 of rest2 has b"
    )


def test_what_is_done_is_a_line_an_instance() -> None:
    said = steps(
        found(rest1={"kept": ["a", "b", "c"]}, rest2={"release": ""}, rest3={"release": "b"}), "kafka-rest"
    )
    assert said == [
        "rest1 kafka-rest@8082: a in place of b; also kept: c",
        "rest2 kafka-rest@8082: keeps b",
        "rest3 kafka-rest@8082: keeps b",
    ]
    # A host that --limit leaves out has no answer.
    assert steps({"rest4": {}}, "kafka-rest") == []


CUT = ["", "\n", "rel", "\udcff"]


@pytest.mark.parametrize("cut", CUT)
def test_a_way_back_whose_marker_was_cut_leads_to_the_release_that_was_ready_last(
    host: Host, cut: str
) -> None:
    for release in ("first", "second"):
        host.stage(release, unit=release)
        host.switch(release)
    (host.home / "good").write_text(cut, errors="surrogateescape")
    host.stage("broken")
    assert "the previous release second is back" in str(host.switch("broken", fails="broken"))
    assert (host.folder / "systemd" / "kafka-rest@.service").read_text() == UNIT.format("second")
    assert host.did[-1] == "start"


@pytest.mark.parametrize("cut", ["", '{"kind": "no', "[]", "\udcff"])
def test_a_probe_that_was_cut_is_asked_as_is_planned_and_no_rollback_leads_to_it(
    host: Host, cut: str
) -> None:
    for release in ("old", "new"):
        host.stage(release)
        host.switch(release)
    for release, left in (("new", "the previous release new is back"), ("old", "")):
        probe = host.home / "releases" / release / ".probe"
        probe.write_text(cut, errors="surrogateescape")
        if left:
            host.stage("broken")
            assert left in str(host.switch("broken", fails="broken"))
    release, wrong = host.former()
    assert (release, wrong.partition(" is empty or cut")[0]) == ("old", str(probe))


@pytest.mark.parametrize("missing", ["", None])
def test_a_former_release_without_a_unit_stops_nothing(host: Host, missing: str | None) -> None:
    for release in ("old", "new"):
        host.stage(release)
        host.switch(release)
    unit = host.home / "releases" / "old" / "unit.service"
    unit.unlink()
    if missing is not None:
        unit.write_text(missing)
    host.did.clear()
    assert "has no unit" in str(host.switch("old", "former"))
    assert host.did == []


@pytest.mark.parametrize("full", ["etc", "systemd", "kedge/kafka-rest/8082"])
def test_a_disk_that_fills_up_between_stop_and_start_leaves_the_service_up_or_says_what_to_do(
    host: Host, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    for release in ("old", "new"):
        host.stage(release, unit=release)
        host.switch(release)
    unit = host.folder / "systemd" / "kafka-rest@.service"
    unit.write_text(UNIT.format("new"))
    write = atomic_files.write

    def until_full(path: Path, *more: Any) -> None:
        if path.is_relative_to(host.folder / full):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, *more)

    monkeypatch.setattr(atomic_files, "write", until_full)
    monkeypatch.setattr(kedge_instance, "is_active", lambda *_: host.did[-1] == "start")
    wrong = kedge_instance.whole(lambda _: host.switch("old", "former"))(instance_unit("8082", "old"))
    assert unit.read_text() in {UNIT.format("old"), UNIT.format("new")}
    if full == "etc":
        assert wrong is None
    else:
        assert "No space left on device" in str(wrong)
        assert "run the playbook again" in str(wrong)
    if full == "systemd":
        # Nothing of the former release was activated, so the one that ran is started again.
        assert host.did[-1] == "start"


def test_a_disk_that_is_full_keeps_what_runs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.stage("old")
    host.switch("old")
    host.stage("new")
    host.did.clear()
    monkeypatch.setattr(atomic_files, "RESERVE_BYTES", 1 << 62)
    said = str(host.switch("new"))
    assert "KiB are needed. It was not touched." in said
    assert host.did == []
    assert (host.home / "running").read_text() == "old\n"
