"""Root in a folder of a service's user, against whoever runs as that user."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins.module_utils import haproxy, haproxy_trial, probes, untrusted_folder
from plugins.module_utils.haproxy import keep_down
from tests.awaiting import await_that

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which takes another user's part")
CRON = "* * * * * root id"
COLUMNS = (
    "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight "
    "srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state "
    "srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord"
)
DOWN = "2 rest 1 rest1:8082 127.0.0.1 0 0 1 1 1 8 2 0 6 0 0 0 - 8082 -"
STATISTICS = "# pxname,svname,status,scur,qcur\nrest,rest1:8082,DOWN,0,0\nrest,rest1:8083,UP,0,0\n"
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter; in it ``run``, which belongs to nobody."""
    with tempfile.TemporaryDirectory(prefix="kedge-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        run = Path(made) / "run"
        run.mkdir(mode=0o750)
        if os.geteuid() == 0:
            os.chown(run, NOBODY, NOBODY)
        yield Path(made)


def balancer(folder: Path, state: str) -> None:
    """Answer for a balancer as nobody, from a socket of its own beside a link; never returns."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    (folder / "down.state").symlink_to(folder.parent / "victim")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "new.sock"))
        listening.listen()
        # Who sees it there can connect.
        (folder / "new.sock").rename(folder / "admin.sock")
        while True:
            asked, _ = listening.accept()
            with asked, contextlib.suppress(OSError):
                asked.sendall((STATISTICS if asked.recv(4096) == b"show stat\n" else state).encode())


def kept(folder: Path, state: str) -> Path:
    """Have root write which servers are down, in nobody's folder; return the file."""
    runtime = folder / "run" / "admin.sock"
    process = multiprocessing.get_context("fork").Process(target=balancer, args=(folder / "run", state))
    process.start()
    try:
        await_that(runtime.is_socket, "it answers")
        return keep_down(str(runtime), "rest")
    finally:
        process.kill()
        process.join()


@pytest.mark.process
@AS_ROOT
@pytest.mark.parametrize("there", [False, True])
def test_a_link_in_the_place_of_the_servers_state_leads_root_nowhere(folder: Path, there: bool) -> None:
    victim = folder / "victim"
    if there:
        victim.write_text("root's own")
    file = kept(folder, f"1\n# {COLUMNS}\n{DOWN}\n{DOWN.replace('8082', '8083')}\n\n")
    assert victim.exists() == there
    assert not there or victim.read_text() == "root's own"
    assert not file.is_symlink()
    assert file.read_text() == f"1\n# {COLUMNS}\n{DOWN}\n"
    assert file.stat().st_mode & 0o7777 == 0o644
    assert [path.name for path in folder.glob("run/.*")] == []


@pytest.mark.process
@AS_ROOT
@pytest.mark.parametrize(
    "state",
    [
        f"{CRON}\n# {COLUMNS}\n{DOWN}\n",
        f"1\n# {COLUMNS} {CRON}\n{DOWN} {CRON}\n",
        f"1\n# {COLUMNS}\n{DOWN.replace('127.0.0.1', chr(27))}\n",
        f"1\n# {COLUMNS}\n{DOWN.replace('127.0.0.1', 'a' * 300)}\n",
        f"1\n{CRON} {COLUMNS}\n",
        "no such command",
        "",
    ],
)
def test_what_haproxy_does_not_write_is_not_kept(folder: Path, state: str) -> None:
    with pytest.raises(OSError, match="answers with"):
        kept(folder, state)
    assert not (folder / "victim").exists()


@pytest.mark.process
@AS_ROOT
def test_an_answer_without_end_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(haproxy, "MOST_BYTES", 1_000)
    with pytest.raises(OSError, match="more than 1,000 bytes"):
        kept(folder, f"1\n# {COLUMNS}\n" + f"{DOWN}\n" * 1_000)


def test_root_speaks_to_no_socket_that_a_link_leads_to(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "other.sock"))
        listening.listen()
        (folder / "run" / "admin.sock").symlink_to(folder / "other.sock")
        with pytest.raises(OSError, match="is no socket"):
            haproxy.ask(str(folder / "run" / "admin.sock"), "show stat")


def test_a_folder_in_a_files_place_is_named(folder: Path) -> None:
    (folder / "run" / "down.state").mkdir()
    with pytest.raises(OSError, match=r"run/down\.state"):
        untrusted_folder.write(folder / "run" / "down.state", "text")
    assert [path.name for path in folder.glob("run/.*")] == []


@pytest.mark.parametrize("what", ["pipe", "link", "folder", "device", "long"])
def test_only_a_file_is_read_and_no_more_than_it_may_have(folder: Path, what: str) -> None:
    path = folder / "run" / "state.json"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to("/dev/zero")
    elif what == "folder":
        path.mkdir()
    elif what == "long":
        path.write_text("x" * 1_001)
    else:
        path = Path("/dev/zero")
    with pytest.raises(OSError, match=re.escape(str(path))):
        untrusted_folder.read(path, 1_000)


def test_a_file_is_read_whole(folder: Path) -> None:
    path = folder / "run" / "state.json"
    untrusted_folder.write(path, "x" * 1_000)
    assert untrusted_folder.read(path, 1_000) == b"x" * 1_000


@pytest.mark.parametrize("text", ["pipe", "[" * 60_000, "[]", "{}", " " * 70_000])
def test_an_application_that_writes_anything_as_its_state_is_not_ready(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "main_pid", lambda _: "1")
    path = folder / "run" / "state.json"
    os.mkfifo(path) if text == "pipe" else path.write_text(text)
    said = probes.state_file({"path": str(path), "unit": "streams-app@a", "state": "RUNNING"})
    assert str(said).startswith(f"{path} tells no state: ")


@AS_ROOT
def test_the_user_of_a_balancers_trial_may_write_to_no_file_of_root(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = folder / "release"
    release.mkdir()
    (release / "haproxy.cfg").write_text("global\n    stats socket /run/rest-balancer/haproxy/admin.sock\n")
    (release / "unit.service").write_text("[Service]\nUser=nobody\n")
    owners: dict[str, tuple[int, int]] = {}

    def look(place: Path, *_: object) -> haproxy_trial.Trial:
        for path in (place, *place.iterdir()):
            owners[path.name if path != place else "."] = (path.stat().st_uid, path.stat().st_mode & 0o7777)
        return haproxy_trial.Trial(None)

    monkeypatch.setattr(haproxy_trial, "_run", look)
    probe = {"socket": "/run/rest-balancer/haproxy/admin.sock", "backend": "rest"}
    assert haproxy_trial.trial(release, probe, folder / "link", 1).refusal is None
    assert owners == {".": (0, 0o750), "haproxy.cfg": (0, 0o640), "run": (NOBODY, 0o700)}
