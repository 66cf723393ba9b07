"""Set-up from its first line to its last on a machine of doubles: what it makes, and what stops it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.awaiting import await_that
from tests.setup.doubles import Machine, machine

#: Every phase, by a program without which it cannot be made, and the arguments that are of it.
PHASES = {
    "system packages": ("apt-get", "install"),
    "virtual environment": ("uv", "requirements.txt"),
    "jars": ("mvn", "dependency"),
    "sandbox REST proxy": ("mvn", "package"),
    "nodes' image": ("mmdebstrap", ""),
}


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    return machine(tmp_path)


def test_machine_that_has_nothing_is_made_ready_and_then_left_alone(bare: Machine) -> None:
    status, said, _ = bare.ended()
    assert status == 0
    for phase in PHASES:
        assert f"set-up: {phase}: done in " in said
    assert said.splitlines()[-1].startswith("set-up: complete")
    bare.calls()
    status, said, _ = bare.ended()
    assert (status, len(said.splitlines())) == (0, 1)
    assert not [call for call in bare.calls() if call.split()[0] in ("apt-get", "uv", "mvn", "mmdebstrap")]


@pytest.mark.parametrize("phase", PHASES)
def test_phase_that_lost_its_network_is_all_that_the_next_run_makes(bare: Machine, phase: str) -> None:
    program, when = PHASES[phase]
    bare.tell(program, "fail E: Temporary failure resolving", when)
    if program == "uv":
        bare.tell(
            "python", "fail E: Temporary failure resolving", f"--no-build-isolation -r {bare.root}/kit/req"
        )
    status, _, complained = bare.ended()
    assert status == 2
    assert f"{phase}: " in complained
    assert "Temporary failure resolving" in complained
    bare.heal(program)
    bare.heal("python")
    status, said, _ = bare.ended()
    assert status == 0
    made = [line.split(": ")[1] for line in said.splitlines() if ": done in " in line]
    waiting = ["nodes' image"] if phase == "system packages" else []
    assert sorted(made) == sorted([phase, *waiting])


@pytest.mark.parametrize("phase", PHASES)
def test_interrupted_phase_ends_its_program_and_is_made_again(bare: Machine, phase: str) -> None:
    program, when = PHASES[phase]
    bare.tell(program, "hang", when)
    process = bare.set_up()
    await_that(lambda: bare.hanging() is not None, f"{program} hangs")
    hanging = bare.hanging()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, complained = process.communicate(timeout=60)
    assert (process.returncode, complained) == (130, "interrupted; 'make demo' goes on from here\n")
    assert not Path(f"/proc/{hanging}").exists()
    bare.heal(program)
    status, said, _ = bare.ended()
    assert status == 0
    assert f"set-up: {phase}: done in " in said


def test_disk_that_fills_up_is_told_with_its_phase(bare: Machine) -> None:
    bare.tell("mmdebstrap", "fail E: write failed: No space left on device")
    status, _, complained = bare.ended()
    assert status == 2
    assert complained.startswith("nodes' image: mmdebstrap could not make the nodes' root: ")
    assert "No space left on device" in complained


def test_apt_that_is_at_work_is_waited_for(bare: Machine) -> None:
    bare.tell("apt-get", "once E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt)")
    status, said, _ = bare.ended()
    assert status == 0
    assert "set-up: system packages: another apt is at work, waiting for it" in said


def test_engine_that_does_not_answer_stops_set_up_with_one_line(bare: Machine) -> None:
    assert bare.ended()[0] == 0
    bare.tell("podman", "fail Error: the database is locked")
    status, _, complained = bare.ended()
    assert (status, len(complained.splitlines())) == (2, 1)
    assert complained.startswith("podman is installed and does not answer: Error: the database is locked; ")


def test_pip_installs_the_same_files_where_uv_cannot(bare: Machine) -> None:
    bare.tell("python", "fail ERROR: No matching distribution found for uv", "only-binary")
    status, said, _ = bare.ended()
    assert status == 0
    assert "pip installs the same files" in said
    by_pip = [call for call in bare.calls() if call.startswith("python -m pip install")]
    assert any("--require-hashes" in call and call.endswith("kit/requirements.txt") for call in by_pip)
    assert not any("requirements.txt" in call and "--require-hashes" not in call for call in by_pip)
