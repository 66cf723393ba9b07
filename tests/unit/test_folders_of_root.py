"""What root unpacks and makes on a host gives nobody more than to read and run it: roles, played on this machine."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
#: Owners can be set by root alone; others are root in a namespace of their own.
AS_ROOT = [] if os.geteuid() == 0 else ["unshare", "-Ur"]


def play(
    folder: Path, role: str, tasks: str = "main", *more: str, **variables: Any
) -> subprocess.CompletedProcess[str]:
    book = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "tasks": [
                {"ansible.builtin.include_role": {"name": role, "tasks_from": tasks}, "vars": variables}
            ],
        }
    ]
    (folder / "book.yml").write_text(json.dumps(book))
    return subprocess.run(
        [*AS_ROOT, str(ANSIBLE), str(folder / "book.yml"), *more],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )


def archive(folder: Path, **members: tuple[bytes, int]) -> Path:
    made = folder / "software.tar.gz"
    with tarfile.open(made, "w:gz") as tar:
        for name, (kind, mode) in members.items():
            member = tarfile.TarInfo(f"top/{name}")
            member.type, member.mode = kind, mode
            if kind == tarfile.SYMTYPE:
                member.linkname = "/etc/passwd"
            content = b"x" if kind == tarfile.REGTYPE else b""
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made


def unpacked(folder: Path, **members: tuple[bytes, int]) -> subprocess.CompletedProcess[str]:
    given = {
        "unpacked_archive": str(archive(folder, **members)),
        "unpacked_home": str(folder / "opt" / "home"),
    }
    return play(folder, "unpacked", unpacked_strip=1, **given)


@pytest.mark.slow
def test_modes_of_an_archive_give_nobody_a_right_but_to_read_and_run(tmp_path: Path) -> None:
    before = Path("/etc/passwd").stat()
    done = unpacked(
        tmp_path,
        setuid=(tarfile.REGTYPE, 0o6755),
        open=(tarfile.REGTYPE, 0o666),
        shut=(tarfile.REGTYPE, 0o600),
        inside=(tarfile.DIRTYPE, 0o3777),
        link=(tarfile.SYMTYPE, 0o777),
    )
    assert done.returncode == 0, done.stdout
    home = tmp_path / "opt" / "home"
    found = {
        name: stat.S_IMODE((home / name).lstat().st_mode) for name in ("setuid", "open", "shut", "inside")
    }
    assert found == {"setuid": 0o755, "open": 0o644, "shut": 0o644, "inside": 0o755}
    assert stat.S_IMODE(home.stat().st_mode) == stat.S_IMODE(home.parent.stat().st_mode) == 0o755
    assert (home / "link").is_symlink()
    assert Path("/etc/passwd").stat().st_mode == before.st_mode


@pytest.mark.slow
def test_an_archive_with_a_pipe_or_a_device_is_refused(tmp_path: Path) -> None:
    done = unpacked(tmp_path, tool=(tarfile.REGTYPE, 0o755), pipe=(tarfile.FIFOTYPE, 0o666))
    assert done.returncode == 2
    assert "brings a device, a pipe or a socket" in done.stdout
    assert not (tmp_path / "opt" / "home").exists()
    assert not (tmp_path / "opt" / "home.new" / "pipe").exists()


@pytest.mark.slow
def test_check_mode_says_that_software_would_come_and_leaves_nothing(tmp_path: Path) -> None:
    given = {"unpacked_archive": str(archive(tmp_path)), "unpacked_home": str(tmp_path / "opt" / "home")}
    done = play(tmp_path, "unpacked", "main", "--check", unpacked_strip=1, **given)
    assert done.returncode == 0, done.stdout
    assert "changed=0" not in done.stdout
    assert not (tmp_path / "opt").exists()


def disk(folder: Path) -> subprocess.CompletedProcess[str]:
    place = {
        "instances_disk": str(folder),
        "instances_user": "root",
        "instances_planned": [{"name": "orders-1"}],
    }
    return play(folder.parent, "instances", "state_disk", **place)


@pytest.mark.slow
def test_each_instance_has_a_folder_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o755)
    done = disk(tmp_path / "disk")
    assert done.returncode == 0, done.stdout
    made = (tmp_path / "disk" / "orders-1").lstat()
    assert stat.S_ISDIR(made.st_mode)
    assert stat.S_IMODE(made.st_mode) == 0o750


@pytest.mark.slow
def test_a_link_in_an_instances_place_is_not_followed(tmp_path: Path) -> None:
    """The unit had a command of root's follow it: what it led to became the service's own."""
    (tmp_path / "disk").mkdir(mode=0o755)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc").chmod(0o701)
    (tmp_path / "disk" / "orders-1").symlink_to(tmp_path / "etc")
    done = disk(tmp_path / "disk")
    assert done.returncode == 2
    assert stat.S_IMODE((tmp_path / "etc").stat().st_mode) == 0o701
    assert (tmp_path / "disk" / "orders-1").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o775, 0o1777])
def test_a_disk_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk").chmod(mode)
    done = disk(tmp_path / "disk")
    assert done.returncode == 2
    assert "chmod 755" in done.stdout
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.slow
def test_a_disk_that_is_not_mounted_is_said(tmp_path: Path) -> None:
    done = disk(tmp_path / "disk")
    assert done.returncode == 2
    assert "Mount the disk" in done.stdout
    assert not (tmp_path / "disk").exists()


def units() -> Iterator[Path]:
    """Yield what a unit is made of: the templates, and the roles' own keys for them."""
    yield from (ROOT / "templates").glob("service*.j2")
    yield from (ROOT / "roles").glob("*/vars/main.yml")
    yield from (ROOT / "roles").glob("*/tasks/*.yml")


def test_no_unit_runs_a_command_as_root_before_its_service() -> None:
    """With a + or ! before it, a command of a unit has root's rights, whatever User= says."""
    for unit in units():
        assert not re.search(r"(?i)exec_?(start|stop|reload)\w*[=:]\s*[\"']?[-@:]*[+!]", unit.read_text()), (
            unit
        )


def test_what_a_role_wants_of_its_unit_is_in_the_template() -> None:
    """A key that the template does not know is passed over: a broker was started on a storage without a format."""
    template = (ROOT / "templates" / "service.j2").read_text()
    wanted = {
        key for unit in units() for key in re.findall(r"^\s+(exec_\w+|own_folders):", unit.read_text(), re.M)
    }
    assert wanted >= {"exec_start", "exec_start_pre", "exec_reload", "own_folders"}
    assert [key for key in sorted(wanted) if key not in template] == []
