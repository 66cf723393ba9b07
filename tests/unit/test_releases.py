"""Releases on a host's disk: whole or not there, and named so that nothing is told of what is in them."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils import atomic_files, releases

from kedge.deploy.rendering import host_files
from plugins.action import kedge_release as staging
from plugins.module_utils import service_control
from plugins.modules import kedge_release
from tests.kills import killed_at

INSTANCE = {
    "name": "8082",
    "files": {"a": "1\n", "b": "2\n"},
    "marked": {"a": "1\n", "b": "2\n"},
    "links": {},
}


@pytest.mark.process
@pytest.mark.parametrize("options", ["size=48k", "size=1m,nr_inodes=12"])
def test_a_disk_that_fills_up_leaves_no_part_of_a_release(small: Callable[[str], Path], options: str) -> None:
    folder = small(options) / "releases"
    kedge_release.write_release(folder / "old", INSTANCE, os.getgid())
    texts = {f"file{n}": "x" * 8192 for n in range(8)}
    with pytest.raises(OSError, match="No space left"):
        kedge_release.write_release(folder / "new", INSTANCE | {"files": texts, "marked": texts}, os.getgid())
    assert [path.name for path in folder.iterdir()] == ["old"]
    # Nor of one that is there, of which each file is the old one or the new one.
    with pytest.raises(OSError, match="No space left"):
        large = {"a": "new\n", "b": "x" * 65536, **texts}
        kedge_release.write_release(folder / "old", INSTANCE | {"files": large, "marked": large}, os.getgid())
    assert (folder / "old" / "a").read_text() in ("1\n", "new\n")
    assert (folder / "old" / "b").read_text() in ("2\n", large["b"])


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("size=512k", "has 512 KiB free, and 1,0"),
        ("size=8m,nr_inodes=40", " inodes free, and "),
        ("size=8m,ro", "is mounted read-only"),
    ],
)
def test_a_disk_that_cannot_take_what_will_be_written_is_named_before_a_change(
    small: Callable[[str], Path], options: str, said: str
) -> None:
    place = small(options)
    assert atomic_files.lacks([(place / "a" / "b", 1 << 20 if "8m" in options else 1, 1)]).count(said) == 1
    assert atomic_files.lacks([(place.parent, 1, 1)]) == ""


@pytest.mark.process
def test_what_a_full_disk_did_not_take_is_named(small: Callable[[str], Path]) -> None:
    file = small("size=48k") / "lease.json"
    atomic_files.write(file, "old")
    with pytest.raises(OSError, match=f"No space left on device: '{file}'"):
        atomic_files.write(file, "x" * 65536)
    assert [file.read_text(), list(file.parent.iterdir())] == ["old", [file]]


def test_a_file_that_is_replaced_is_the_old_one_wherever_its_writer_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "unit.service"
    atomic_files.write(file, "old")
    for at in count():
        with killed_at(tmp_path, at) as kill:
            atomic_files.write(file, "new", 0o600, os.getgid())
        assert file.read_text() == ("old" if kill.killed else "new")
        if not kill.killed:
            break
    assert at > 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_release_is_named_alike_on_one_host_and_otherwise_on_another() -> None:
    names = [kedge_release.release_id(INSTANCE, key) for key in (b"one", b"one", b"other")]
    assert names[0] == names[1] != names[2]


def test_the_key_of_a_host_is_made_once_and_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kedge_release, "KEY", tmp_path / "kedge" / ".release-key")
    assert kedge_release.release_key(make=False) == b""
    first = kedge_release.release_key(make=True)
    assert first == kedge_release.release_key(make=True) == kedge_release.release_key(make=False)
    assert kedge_release.KEY.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in kedge_release.KEY.parent.iterdir()] == [".release-key"]


WARDEN = {"service": "kafka-rest", "node": "rest1"}


def a_maprcli(folder: Path, says: str) -> None:
    """A maprcli of the test's own: it notes what it was told, and says the same to everything."""
    tool = folder / "maprcli"
    tool.write_text(f"#!/bin/sh\necho \"$@\" >> {folder}/told\ncat <<'END'\n{says}\nEND\n")
    tool.chmod(0o755)


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "active"),
    [
        ('{"data": [{"name": "fileserver", "state": 2}, {"name": "kafka-rest", "state": 2}]}', True),
        ('{"data": [{"name": "kafka-rest", "state": 3}]}', False),
        ('{"data": [{"name": "fileserver", "state": 2}]}', False),
        ("ERROR (10009) -  Couldn't connect to the CLDB service", False),
    ],
)
def test_warden_is_asked_whether_its_service_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, active: bool
) -> None:
    a_maprcli(tmp_path, said)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert service_control.is_active("kafka-rest@8082.service", WARDEN) is active


@pytest.mark.process
def test_warden_is_told_to_stop_and_start_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_maprcli(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for action in ("stop", "start"):
        assert service_control.act(action, "kafka-rest@8082.service", WARDEN).returncode == 0
    told = (tmp_path / "told").read_text().splitlines()
    assert told == [f"node services -name kafka-rest -action {a} -nodes rest1" for a in ("stop", "start")]


@pytest.mark.process
def test_a_node_without_maprcli_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert service_control.act("start", "kafka-rest@8082.service", WARDEN).returncode == 127


def test_a_kit_that_is_older_than_the_one_before_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "kafka-rest"
    assert not kedge_release.note_kit(folder, "0.10.0", check=False)
    assert kedge_release.note_kit(folder, "0.9.1", check=True) == "0.10.0"
    # Looking noted nothing, so the deploy finds it too; after it, that version is the last.
    assert kedge_release.note_kit(folder, "0.9.1", check=False) == "0.10.0"
    assert not kedge_release.note_kit(folder, "0.9.1", check=False)
    assert not kedge_release.note_kit(folder, "0.10.0", check=False)
    assert not kedge_release.note_kit(folder, "0.11.0.dev0", check=False)
    assert kedge_release.note_kit(folder, "0.10.0", check=False) == "0.11.0.dev0"


def test_what_names_no_version_is_no_reason_to_warn(tmp_path: Path) -> None:
    (tmp_path / kedge_release.KIT).write_text("not a version\n")
    assert not kedge_release.note_kit(tmp_path, "0.1.0", check=False)
    assert not kedge_release.note_kit(tmp_path, "", check=False)


class Staged:
    """An instance's folders on a host, whose process runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (releases, kedge_release):
            monkeypatch.setattr(module, "ROOT", folder / "kedge")
        monkeypatch.setattr(releases, "ETC", folder / "etc")
        for module in (releases, kedge_release):
            monkeypatch.setattr(module, "SYSTEMD", folder / "systemd")
        monkeypatch.setattr(kedge_release, "KEY", folder / "kedge" / ".release-key")
        monkeypatch.setattr(kedge_release, "is_active", lambda *_: True)
        self.home = folder / "kedge" / "kafka-rest" / "8082"
        self.link = folder / "etc" / "kafka-rest" / "8082"

    def stage(self, text: str, *, check: bool = False, rows: str = "", **more: str) -> dict[str, Any]:
        files = {"kafka-rest.properties": text, **more}
        instance = {"name": "8082", "files": files, "marked": files, "links": {}, "rows": rows}
        params = {"unit": "kafka-rest", "controls": {}, "adopts": {}}
        module = SimpleNamespace(params=params, check_mode=check)
        return dict(kedge_release.stage(module, instance, os.getgid())[0])

    def started(self, release: str) -> None:
        """Have the instance run a release, and be ready with it."""
        self.link.parent.mkdir(parents=True, exist_ok=True)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(self.home / "releases" / release)
        (self.home / "running").write_text(release)
        (self.link / releases.PROBE).write_text("{}")

    def text(self) -> str:
        return (self.link / "kafka-rest.properties").read_text()


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staged:
    return Staged(tmp_path, monkeypatch)


def test_another_reason_is_written_and_restarts_nothing(staged: Staged) -> None:
    first = staged.stage("# Two are enough.\nthreads=2\n")
    assert first["pending"]
    staged.started(first["release"])
    looked = staged.stage("# Two suffice.\nthreads=2\n", check=True)
    assert (looked["pending"], looked["comments"]) == (False, True)
    assert "enough" in staged.text()
    done = staged.stage("# Two suffice.\nthreads=2\n")
    assert (done["pending"], done["release"]) == (False, first["release"])
    assert "suffice" in staged.text()
    assert (staged.link / releases.PROBE).is_file(), "a rollback still finds a release that became ready"
    assert not staged.stage("# Two suffice.\nthreads=2\n")["comments"]


ROWS = '[{"key": "threads", "value": "2"}]\n'


def test_rows_that_come_for_the_first_time_restart_nothing(staged: Staged) -> None:
    planned = "threads=2\n"
    first = staged.stage(planned)
    staged.started(first["release"])
    looked = staged.stage(planned, check=True, rows=ROWS)
    assert (looked["pending"], looked["comments"], looked["touched"], looked["rows"]) == (
        False, False, False, "",
    )  # fmt: skip
    assert not (staged.link / "rows.json").exists()
    done = staged.stage(planned, rows=ROWS)
    assert (done["pending"], done["release"]) == (False, first["release"])
    file = staged.link / "rows.json"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (ROWS, 0o640)
    assert (staged.link / releases.PROBE).is_file(), "a rollback still finds a release that became ready"
    again = staged.stage(planned, rows=ROWS)
    assert (again["pending"], again["same_rows"], again["in_force"]) == (
        False, True, [".probe", "kafka-rest.properties", "rows.json"],
    )  # fmt: skip
    # An older Kedge ships none, and takes them out.
    assert not staged.stage(planned)["pending"]
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"key": "threads"}]', "[" * 9_000])
def test_rows_that_somebody_edited_are_put_back_and_restart_nothing(staged: Staged, text: str) -> None:
    planned = "threads=2\n"
    staged.started(staged.stage(planned, rows=ROWS)["release"])
    (staged.link / "rows.json").write_text(text)
    looked = staged.stage(planned, check=True, rows=ROWS)
    assert (looked["pending"], looked["edited"], looked["touched"], looked["rows"]) == (
        False, False, False, base64.b64encode(text.encode()).decode(),
    )  # fmt: skip
    staged.stage(planned, rows=ROWS)
    assert (staged.link / "rows.json").read_text() == ROWS
    assert not (staged.home / "edited").exists()


def test_what_somebody_edited_is_noticed_whatever_is_planned(staged: Staged) -> None:
    staged.started(staged.stage("threads=2\n", rows=ROWS)["release"])
    (staged.link / "kafka-rest.properties").write_text("threads=4\n")
    assert staged.stage("threads=3\n", check=True)["touched"]
    assert staged.stage("threads=2\n", rows=ROWS)["touched"]
    assert not staged.stage("threads=2\n", rows=ROWS)["touched"]


def test_a_row_of_a_secret_says_whether_it_is_another_one() -> None:
    mark = "<secret 0123456789abcdef>"
    rows = [{"key": "a", "value": "1"}, {"key": "b", "value": mark}]

    def text(secret: str, key: bytes) -> str:
        return str(kedge_release.with_rows({"rows": rows}, {mark: secret}, key)["rows"])

    one = text("planted", b"key")
    assert "planted" not in one
    # The mark has the place of the plan in it, and two clones deploy the same.
    assert mark not in one
    assert one == text("planted", b"key") != text("other", b"key")
    assert one != text("planted", b"of another host")
    assert [row.get("digest") for row in json.loads(text("planted", b""))] == [None, None]


def test_a_value_that_somebody_edited_is_put_back_by_a_restart(staged: Staged) -> None:
    planned = "# Two are enough.\nthreads=2\n"
    staged.started(staged.stage(planned)["release"])
    (staged.link / "kafka-rest.properties").write_text("# Two are enough.\nthreads=3\n")
    edited = staged.stage(planned)
    assert (edited["pending"], edited["edited"], edited["comments"]) == (True, True, False)
    assert staged.text() == planned
    copy = staged.home / "edited"
    assert "threads=3" in (copy / "kafka-rest.properties").read_text()
    assert (copy.stat().st_mode & 0o777, (copy / releases.PROBE).exists()) == (0o700, False)


def test_what_somebody_put_beside_the_files_is_shown_and_kept_and_restarts_nothing(staged: Staged) -> None:
    staged.started(staged.stage("threads=2\n")["release"])
    (staged.link / "mine.conf").write_text("mine")
    looked = staged.stage("threads=2\n", check=True)
    assert (looked["pending"], looked["edited"], looked["comments"]) == (False, False, False)
    assert (staged.link / "mine.conf").exists()
    assert not staged.stage("threads=2\n")["pending"]
    assert not (staged.link / "mine.conf").exists()
    assert (staged.home / "edited" / "mine.conf").read_text() == "mine"


def test_a_drop_in_whose_link_is_gone_is_put_back_by_a_restart_and_one_of_others_is_told(
    staged: Staged,
) -> None:
    files = {"systemd/10-kedge.conf": "[Service]\nMemoryMax=1G\n"}
    staged.started(staged.stage("threads=2\n", **files)["release"])
    folder, of_all = (staged.link.parents[2] / "systemd" / f"kafka-rest@{n}.service.d" for n in ("8082", ""))
    for each in (folder, of_all):
        each.mkdir(parents=True)
    (folder / "10-kedge.conf").symlink_to(staged.link / "systemd" / "10-kedge.conf")
    (of_all / "override.conf").write_text("[Service]\nMemoryMax=infinity\n")
    there = staged.stage("threads=2\n", **files)
    assert (there["pending"], there["edited"], there["dropins"]) == (
        False,
        False,
        [str(of_all / "override.conf")],
    )
    (folder / "10-kedge.conf").unlink()
    lost = staged.stage("threads=2\n", **files)
    assert (lost["pending"], lost["edited"]) == (True, True)
    # What an editor left beside them is none of ours, nor is our own link to what somebody took another's.
    staged.started(lost["release"])
    (folder / "10-kedge.conf").symlink_to(staged.link / "systemd" / "10-kedge.conf")
    (folder / "20-gone.conf").symlink_to(staged.link / "systemd" / "20-gone.conf")
    (staged.link / "systemd" / "10-kedge.conf~").write_text("")
    strange = staged.stage("threads=2\n", **files)
    assert (strange["pending"], strange["edited"], strange["dropins"]) == (False, False, there["dropins"])
    (folder / "10-kedge.conf").unlink()
    # A file in the place of the link holds what somebody wrote.
    staged.started(lost["release"])
    (folder / "10-kedge.conf").write_text("")
    assert staged.stage("threads=2\n", check=True, **files)["edited"]


def test_what_somebody_added_goes_and_what_he_wrote_in_another_encoding_is_put_back(staged: Staged) -> None:
    staged.started(staged.stage("threads=2\n")["release"])
    place = staged.link.resolve()
    (place / "kafka-rest.properties").write_bytes(b"# caf\xe9\nthreads=3\n")
    (place / "added").write_text("")
    staged.stage("threads=2\n")
    assert staged.text() == "threads=2\n"
    assert staged.link.resolve() == place
    assert sorted(path.name for path in place.iterdir()) == [releases.PROBE, "kafka-rest.properties"]


@pytest.mark.parametrize("cut", [b"", b"\n", b"abc", b"\xff", b"releases/.."])
def test_a_marker_that_was_cut_names_no_release(staged: Staged, cut: bytes) -> None:
    planned = "threads=2\n"
    staged.started(staged.stage(planned)["release"])
    assert not staged.stage(planned)["pending"]
    (staged.home / "running").write_bytes(cut)
    assert staged.stage(planned)["pending"]


@pytest.mark.parametrize("cut", [b"", b"short"])
def test_a_key_that_was_cut_is_made_anew(staged: Staged, cut: bytes) -> None:
    staged.stage("threads=2\n")
    kedge_release.KEY.write_bytes(cut)
    assert kedge_release.release_key(make=False) == b""
    assert len(kedge_release.release_key(make=True)) == 32


def test_other_contents_of_a_store_that_an_instance_reads_are_another_release(
    staged: Staged, tmp_path: Path
) -> None:
    store = tmp_path / "rest1.jks"

    def named() -> str:
        instance = {"name": "8082", "files": {"a": "b\n"}, "links": {}, "host_files": [str(store)]}
        key = kedge_release.release_key(make=True)
        whole = kedge_release.with_host_files(instance, key)
        assert b"planted" not in json.dumps(whole).encode()
        return str(kedge_release.release_id(whole, key))

    missing = named()
    store.write_bytes(b"planted\xff")
    first = named()
    assert first == named()
    store.write_bytes(b"planted\xfe")
    assert len({missing, first, named()}) == 3
    store.unlink()
    os.mkfifo(store)
    named()  # nobody writes into it


def test_stores_and_keytabs_that_nobody_brings_are_the_hosts() -> None:
    settings = [
        ("ssl.keystore.location", "/srv/rest1.jks"),
        ("client.ssl.truststore.location", "/etc/kafka-rest/8082/cluster-ca.pem"),
        ("client.ssl.keystore.location", "${file:/x:y}"),
        ("client.sasl.jaas.config", "<secret 1>"),
    ]
    instance = {"name": "8082", "settings": [{"key": k, "value": v} for k, v in settings]}
    jaas = {"<secret 1>": 'Krb5LoginModule required keyTab="/srv/rest.keytab" principal="rest";'}
    assert host_files("kafka-rest", instance, jaas) == ["/srv/rest.keytab", "/srv/rest1.jks"]


def test_another_value_is_another_release(staged: Staged) -> None:
    first = staged.stage("threads=2\n")
    staged.started(first["release"])
    second = staged.stage("threads=3\n")
    assert second["pending"] and second["release"] != first["release"]
    assert "threads=2" in staged.text(), "it is staged, and the process keeps what it runs"


@pytest.mark.parametrize("before", ["[Unit]\nDescription=old\n", None])
def test_a_changed_unit_is_written_and_read_by_systemd_and_then_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.setattr(kedge_release, "SYSTEMD", tmp_path)
    units = {"kafka-rest@.service": "[Unit]\nDescription=new\n", "kafka-rest.target": "[Unit]\n"}
    (tmp_path / "kafka-rest.target").write_text(units["kafka-rest.target"])
    if before is not None:
        (tmp_path / "kafka-rest@.service").write_text(before)
    asked: list[str] = []

    def installed(*, check: bool = False, unread: str = "no") -> list[dict[str, str]]:
        asked.clear()

        def run(words: list[str], **_: Any) -> tuple[int, str, str]:
            asked.append(words[1])
            return 0, f"{unread}\n", ""

        return kedge_release.install_units(
            SimpleNamespace(params={"units": units}, check_mode=check, run_command=run)
        )

    assert [one["after"] for one in installed(check=True)] == [units["kafka-rest@.service"]]
    assert "daemon-reload" not in asked
    assert [one["before"] for one in installed()] == [before or ""]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == units
    assert asked[-2:] == ["daemon-reload", "enable"]
    assert installed() == []
    assert "daemon-reload" not in asked
    # A run that was killed wrote it, and systemd has not read it.
    assert installed(unread="yes") == []
    assert "daemon-reload" in asked


def test_a_script_of_another_interpreter_is_another_release() -> None:
    one, other = ({**INSTANCE, "files": {"run": f"#!/bin/{shell}\n# Why\n"}} for shell in ("sh", "bash"))
    assert kedge_release.release_id(one, b"key") != kedge_release.release_id(other, b"key")


def test_the_warning_of_an_older_kit_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"before": "linger.ms=20\nsasl.password=old", "after": "linger.ms=5\nsasl.password=new"}
    answer = {
        "newer_kit": "9.9.9\x1b[2J",
        "instances": [{"name": "8082", "rows": None, "digests": {}}],
        "diff": [{"before_header": "/etc/kafka-rest/8082/kafka-rest.properties", **texts}],
    }
    monkeypatch.setattr(staging.ActionModule, "stage", lambda *_: answer)
    action = object.__new__(staging.ActionModule)
    planned = [{"name": "8082", "settings": []}]
    action._task = SimpleNamespace(args={"unit": "kafka-rest", "instances": planned})
    result = action.run()
    (warning,) = result["warnings"]
    assert "linger.ms from 20 to 5" in warning
    assert "sasl.password from *** to *** (another one)" in warning
    assert "old;" not in warning and "\x1b" not in warning
    assert "newer_kit" not in result
