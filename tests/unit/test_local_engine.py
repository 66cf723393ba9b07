from __future__ import annotations

import os
from pathlib import Path

import pytest

from kedge.setup import packages, phases
from kedge.setup.problem import Problem
from kedge.setup.targets import TARGETS
from lab.fleet import engine
from lab.fleet.engine import NoEngine, find_engine

pytestmark = pytest.mark.process

ANSWERS = "#!/bin/sh\necho 1.0\n"
#: Docker's client names no version, says why, and ends well where it reached no engine.
CLIENT = "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\n"
REFUSED = "#!/bin/sh\necho 'permission denied while trying to connect' >&2\nexit 1\n"
BROKEN = "#!/bin/sh\necho 'Error: the database is locked' >&2\nexit 125\n"
HANGS = "#!/bin/sh\nexec /bin/sleep 60\n"
ABSENT = ""

#: podman, docker, the engine that is found or what is said, and whether set-up installs podman.
COMBINATIONS = [
    (ABSENT, ABSENT, "no container engine: run 'make setup'", True),
    (ABSENT, CLIENT, r"docker is installed .* \(Cannot connect to the Docker daemon\)", True),
    (
        ABSENT,
        REFUSED,
        r"docker is installed .* \(permission denied .*\); start it, or run 'make setup'",
        True,
    ),
    (ABSENT, HANGS, r"docker is installed .* \(nothing in 1 s\)", True),
    (ABSENT, ANSWERS, "docker", False),
    (ANSWERS, ABSENT, "podman", False),
    (ANSWERS, CLIENT, "podman", False),
    (ANSWERS, ANSWERS, "podman", False),
    (BROKEN, ABSENT, "podman is installed and does not answer: Error: the database is locked; see", False),
    (BROKEN, CLIENT, "podman is installed and does not answer: Error: the database is locked; see", False),
    (BROKEN, ANSWERS, "docker", False),
    (HANGS, ABSENT, "podman is installed and does not answer: nothing in 1 s", False),
]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(engine, "_ANSWER_S", 1.0)
    return tmp_path


def install(programs: Path, podman: str, docker: str) -> None:
    for name, text in (("podman", podman), ("docker", docker)):
        if text:
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)


@pytest.mark.parametrize(("podman", "docker", "found", "installs"), COMBINATIONS)
def test_engine_that_answers_is_found_and_its_lack_is_told(
    programs: Path, podman: str, docker: str, found: str, installs: bool
) -> None:
    install(programs, podman, docker)
    if found in ("podman", "docker"):
        assert find_engine().name == found
    else:
        with pytest.raises(Problem, match=found) as told:
            find_engine()
        assert "\n" not in str(told.value)
        assert isinstance(told.value, NoEngine) == installs


@pytest.mark.parametrize(("podman", "docker", "found", "installs"), COMBINATIONS)
def test_podman_is_installed_where_no_engine_is(
    programs: Path, podman: str, docker: str, found: str, installs: bool
) -> None:
    install(programs, podman, docker)
    assert ("podman" in packages.missing(packages.wanted(TARGETS["demo"]))) == installs


@pytest.mark.parametrize(
    ("podman", "docker"), [(podman, docker) for podman, docker, _, installs in COMBINATIONS if installs]
)
def test_image_waits_for_the_engine_that_is_installed_first(programs: Path, podman: str, docker: str) -> None:
    install(programs, podman, docker)
    image = next(phase for phase in phases.phases(TARGETS["demo"]) if phase.name == "nodes' image")
    assert image.wanting() == "builds it"
    assert image.after == ("system packages",)


def test_account_that_may_not_become_root_gets_docker_where_it_answers(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    install(programs, ANSWERS, ABSENT)
    with pytest.raises(Problem, match="root, which this account becomes after 'sudo -v'"):
        find_engine()
    install(programs, ANSWERS, ANSWERS)
    assert find_engine().name == "docker"
