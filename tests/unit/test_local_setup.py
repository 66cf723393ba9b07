from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local.fleet import node_image
from local.paths import PROJECT
from local.problem import Problem
from local.setup import packages as machine
from local.setup import phases as setup
from local.setup.packages import Package
from local.setup.phases import Phase


def phase(name: str, made: list[str], wanting: str = "makes it", megabytes: int = 0) -> Phase:
    return Phase(name, lambda: wanting, lambda: made.append(name), [(PROJECT, megabytes)])


def test_only_packages_whose_command_is_missing_are_wanted() -> None:
    known = [
        Package("there", lambda: True, fleet=False),
        Package("absent", lambda: False, fleet=False),
        Package("engine", lambda: False, fleet=True),
    ]
    assert machine.missing_packages(known, fleet=True) == ["absent", "engine"]
    assert machine.missing_packages(known, fleet=False) == ["absent"]


def test_docker_takes_the_place_of_podman() -> None:
    names = {package.name for package in machine.packages(with_docker=True)}
    assert "podman" not in names
    assert {"mmdebstrap", "openjdk-17-jdk-headless"} <= names


@pytest.mark.parametrize(("text", "major"), [("javac 17.0.15", 17), ("javac 1.8.0_402", 8), ("", 0)])
def test_version_of_java_is_read(text: str, major: int) -> None:
    assert machine.java_major(text) == major


def test_account_that_may_not_install_gets_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "root_prefix", lambda: None)
    command = "Run: sudo apt-get install -y --no-install-recommends podman maven"
    with pytest.raises(Problem, match=command):
        machine.install(["podman", "maven"])


def test_machine_without_apt_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match=r"missing: podman; this machine has no apt-get"):
        machine.install(["podman"])


def test_phases_that_miss_nothing_are_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    setup.run([phase("one", made, wanting=""), phase("two", made)])
    assert made == ["two"]
    assert "two: makes it" in capsys.readouterr().out


def test_nothing_is_made_where_space_lacks() -> None:
    made: list[str] = []
    with pytest.raises(Problem, match=r"no space.*\(large\)"):
        setup.run([phase("small", made), phase("large", made, megabytes=1_000_000_000)])
    assert made == []


def test_interrupted_installation_is_done_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("a==1\nb==2\n")
    monkeypatch.setattr(setup, "REQUIREMENTS", requirements)
    monkeypatch.setattr(setup, "VENV", tmp_path / "venv")
    monkeypatch.setattr(setup, "VENV_MARKER", tmp_path / "venv" / ".requirements")
    monkeypatch.setattr(setup, "_run", lambda command, trouble: _interrupt_pip(command))
    with pytest.raises(KeyboardInterrupt):
        setup._make_venv()
    assert setup._venv_wanting().startswith("installs 2 locked Python packages")
    setup.VENV_MARKER.parent.mkdir()
    setup.VENV_MARKER.write_text(setup._venv_key())
    assert setup._venv_wanting() == ""
    requirements.write_text("a==1\nb==3\n")
    assert setup._venv_wanting()


def _interrupt_pip(command: list[str]) -> None:
    if "pip" in command:
        raise KeyboardInterrupt


def test_machines_own_sources_serve_the_nodes_suite_alone() -> None:
    targets = [
        "Debian bookworm http://mirror/debian/ bookworm main",
        "Debian bookworm http://mirror/debian/ bookworm contrib",
        "Debian bookworm-security http://mirror/security/ bookworm-security main",
        "Debian trixie http://mirror/debian/ trixie main",
        "Node nodistro https://node/ nodistro main",
    ]
    assert node_image.debian_sources(targets) == [
        "deb http://mirror/debian/ bookworm main contrib",
        "deb http://mirror/security/ bookworm-security main",
    ]


def test_machine_of_another_distribution_lends_no_sources() -> None:
    assert node_image.debian_sources(["Ubuntu noble http://mirror/ubuntu/ noble main"]) == []


def test_image_follows_its_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "packages").write_text("systemd\n")
    monkeypatch.setattr(node_image, "RECIPE", tmp_path)
    before = node_image.recipe_key()
    assert node_image.recipe_key() == before
    (tmp_path / "packages").write_text("systemd\nhaproxy\n")
    assert node_image.recipe_key() != before


def test_set_up_that_is_complete_says_so_and_changes_nothing() -> None:
    command = [sys.executable, "-m", "local.setup", "--check", "--without-fleet"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.splitlines()[-1].startswith("set-up is ")
