"""When the class data archive of an instance is made anew, and by what command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plugins.module_utils import class_archive


class Host:
    """A host's folders with one running instance, and the commands that were run on it."""

    def __init__(self, folder: Path, java: Path) -> None:
        self.cache = folder / "cache" / "kafka-rest" / "8082"
        self.process = folder / "proc" / "17"
        self.jars = folder / "jars"
        self.marker = folder / "marker"
        self.commands: list[tuple[str, ...]] = []
        for path in (self.cache, self.process, self.jars):
            path.mkdir(parents=True)
        (self.cache / "classes").write_text("java/lang/Object id: 0\n")
        (self.jars / "a.jar").write_text("a")
        words = ("java", "-Xmx1g", "-XX:+UseG1GC", "-cp", f":{self.jars}/*", "Main", "-XX:+UseSerialGC2 x")
        (self.process / "cmdline").write_text("\0".join(words))
        (self.process / "exe").symlink_to(java)

    def run(self, *command: str) -> Any:
        self.commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    def renewed(self, pid: str = "17") -> bool:
        before = len(self.commands)
        class_archive.renew("kafka-rest", "8082", pid, self.marker)
        return len(self.commands) > before


@pytest.fixture
def jdk(tmp_path: Path) -> Path:
    """A stub of a JDK: its java, and the modules beside it."""
    java = tmp_path / "jdk" / "bin" / "java"
    for path in (java, tmp_path / "jdk" / "lib" / "modules"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    return java


@pytest.fixture
def host(tmp_path: Path, jdk: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path, jdk)
    monkeypatch.setattr(class_archive, "PROC", tmp_path / "proc")
    monkeypatch.setattr(class_archive, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(class_archive, "ROOTS", os.getuid())
    monkeypatch.setattr(class_archive, "run", made.run)
    return made


def test_the_archive_is_made_by_the_instances_java_as_its_user_beside_it(host: Host, jdk: Path) -> None:
    assert host.renewed()
    (command,) = host.commands
    assert command[:2] == ("systemd-run", "--quiet")
    assert f"--property=User={os.getuid()}" in command
    assert f"--property=ReadWritePaths={host.cache}" in command
    assert command[command.index("flock") :] == (
        "flock",
        str(host.cache.parent),
        str(jdk),
        "-Xshare:dump",
        "-Xlog:disable",
        f"-XX:SharedClassListFile={host.cache}/classes",
        f"-XX:SharedArchiveFile={host.cache}/classes.jsa",
        "-XX:+UseG1GC",
        "-cp",
        f":{host.jars}/*",
    )


def test_one_that_is_there_is_made_again_only_for_other_jars_or_another_java(host: Host, jdk: Path) -> None:
    assert host.renewed()
    assert host.renewed(), "the first one was never written"
    (host.cache / "classes.jsa").write_text("")
    assert not host.renewed()
    (host.jars / "b.jar").write_text("b")
    assert host.renewed()
    assert not host.renewed()
    (jdk.parent.parent / "lib" / "modules").write_text("later")
    assert host.renewed()


def test_none_is_made_where_the_jvm_listed_nothing_as_that_of_java_8(host: Host) -> None:
    (host.cache / "classes").unlink()
    assert not host.renewed()


def test_none_is_made_by_a_java_that_is_not_roots(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "ROOTS", os.getuid() + 1)
    assert not host.renewed()


@pytest.mark.parametrize("pid", ["0", "18", ""])
def test_none_is_made_of_a_process_that_ended(pid: str, host: Host) -> None:
    assert not host.renewed(pid)


def test_a_command_that_is_refused_is_tried_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = subprocess.CompletedProcess((), 1, "", "no systemd-run")
    monkeypatch.setattr(class_archive, "run", lambda *_: refused)
    class_archive.renew("kafka-rest", "8082", "17", host.marker)
    assert not host.marker.exists()
