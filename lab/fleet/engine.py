"""The container engine of this machine: podman where it answers, else Docker where that does.

A client without an engine is no engine: many images of clouds and CI bring Docker's client alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kedge.setup.paths import GENERATED
from kedge.setup.problem import Problem

NO_ENGINE = "no container engine: run 'make setup', or 'apt-get install podman runc netavark iptables'"
#: What only an engine that works can answer.
_QUESTION = {"podman": ("ps", "--quiet"), "docker": ("info", "--format", "{{.ServerVersion}}")}
_ANSWER_S = 20.0


class NoEngine(Problem):
    """No engine is there: then there is no fleet either."""


@dataclass(frozen=True)
class Engine:
    """How to call the engine; podman and Docker share the commands used here."""

    name: str
    prefix: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run one command, in a session of its own so that Ctrl-C cannot cut it; return its output.

        Raises Problem with the engine's own last line where it fails and `check` is set.
        """
        done = subprocess.run(
            [*self.prefix, self.name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            start_new_session=True,
            env={**os.environ, **self.environment},
        )
        if done.returncode and check:
            reason = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit {done.returncode}"]
            raise Problem(f"{self.name} {' '.join(arguments[:2])} failed: {reason[-1]}")
        return done.stdout.decode(errors="replace")

    def inspect(self, kind: str, names: Sequence[str]) -> list[dict[str, Any]]:
        """What the engine knows of containers, networks or images; those that are gone are left out."""
        if not names:
            return []
        found: list[dict[str, Any]] = json.loads(self.run(kind, "inspect", *names, check=False) or "[]")
        return found


def find_engine() -> Engine:
    """Choose the engine that answers; raises Problem where none does, with what to do about it."""
    silence = {}
    for name in ("podman", "docker"):
        if shutil.which(name):
            try:
                engine = Engine(name, _as_root(), podman_environment()) if name == "podman" else Engine(name)
                silence[name] = _silence(engine)
            except Problem as problem:
                silence[name] = str(problem)
            else:
                if not silence[name]:
                    return engine
    if "podman" in silence:
        raise Problem(
            f"podman is installed and does not answer: {silence['podman']}; "
            "see what 'podman info' says, fix it, then run the same command again"
        )
    if silence:
        raise NoEngine(
            f"no container engine: docker is installed and no engine answers it ({silence['docker']}); "
            "start it, or run 'make setup', which installs podman beside it"
        )
    raise NoEngine(NO_ENGINE)


def docker_answers() -> bool:
    """Whether a Docker engine, not only its client, is there."""
    return shutil.which("docker") is not None and not _silence(Engine("docker"))


def _silence(engine: Engine) -> str:
    """Why the engine does not answer, in a line; empty where it does."""
    try:
        done = subprocess.run(
            [*engine.prefix, engine.name, *_QUESTION[engine.name]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_S,
            env={**os.environ, **engine.environment},
        )
    except subprocess.TimeoutExpired:
        return f"nothing in {_ANSWER_S:.0f} s"
    except OSError as error:
        return str(error)
    # Docker's client ends well, and names no version, where it reached no engine.
    if done.returncode or (engine.name == "docker" and not done.stdout.strip()):
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    return ""


def _as_root() -> tuple[str, ...]:
    """Nodes have fixed addresses on a bridge of their own, which takes root."""
    if os.geteuid() == 0:
        return ()
    if (
        not shutil.which("sudo")
        or subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode
    ):
        raise Problem("the nodes need root, which this account becomes after 'sudo -v'")
    return (
        ("sudo", "-n", f"--preserve-env={','.join(podman_environment())}")
        if podman_environment()
        else ("sudo", "-n")
    )


def podman_environment() -> dict[str, str]:
    """Settings for this kind of machine, in a file of ours: its own configuration stays as it is."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return {}
    # crun refuses hosts that still mount the first version of cgroups beside the second; runc runs on them.
    manager = "systemd" if Path("/run/systemd/system").is_dir() else "cgroupfs"
    text = (
        f'[engine]\nruntime = "runc"\ncgroup_manager = "{manager}"\nevents_logger = "file"\n'
        '[network]\nnetwork_backend = "netavark"\n'
    )
    path = GENERATED / "fleet" / "containers.conf"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return {"CONTAINERS_CONF": str(path)}
