"""What this machine must have installed, found by what is missing, not by guessing."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from local.fleet.node_image import KEYRING
from local.problem import Problem

JAVA = 17  # what 4.x brokers and tools need


@dataclass(frozen=True)
class Package:
    """A Debian package, how its presence shows, and whether only the fleet, or only tests, need it."""

    name: str
    present: Callable[[], bool]
    fleet: bool
    tests: bool = False


def _on_path(*commands: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(command) for command in commands)


def _in_folders(program: str) -> Callable[[], bool]:
    folders = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/libexec/podman")
    return lambda: any((Path(folder) / program).exists() for folder in folders) or bool(shutil.which(program))


def _in_sbin(program: str) -> Callable[[], bool]:
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    return lambda: bool(shutil.which(program, path=path))


def browser() -> str | None:
    """The program of a Chromium that is installed, in which tests look at a report."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, found), None)


def java_major(text: str) -> int:
    """The major version in what `javac -version` prints; 0 where it prints none."""
    match = re.search(r"javac (?:1\.)?(\d+)", text)
    return int(match[1]) if match else 0


def _java_present() -> bool:
    if not (shutil.which("javac") and shutil.which("java")):
        return False
    done = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    return java_major(done.stdout + done.stderr) >= JAVA


def _venv_present() -> bool:
    return importlib.util.find_spec("ensurepip") is not None


def docker_answers() -> bool:
    """Whether a Docker engine, not only its client, is there."""
    if not shutil.which("docker"):
        return False
    done = subprocess.run(["docker", "info"], capture_output=True, check=False)
    return done.returncode == 0


def packages(with_docker: bool) -> list[Package]:
    """All that set-up may install; with Docker there is no need for another engine."""
    engine = [
        Package("podman", _on_path("podman"), fleet=True),
        Package("runc", _in_sbin("runc"), fleet=True),
        Package("netavark", _in_folders("netavark"), fleet=True),
        Package("iptables", _in_sbin("iptables"), fleet=True),
    ]
    return [
        *([] if with_docker else engine),
        Package("mmdebstrap", _on_path("mmdebstrap"), fleet=True),
        Package("debian-archive-keyring", KEYRING.is_file, fleet=True),
        Package("openssh-client", _on_path("ssh", "ssh-keygen"), fleet=True),
        Package(f"openjdk-{JAVA}-jdk-headless", _java_present, fleet=False),
        Package("maven", _on_path("mvn"), fleet=False),
        Package("python3-venv", _venv_present, fleet=False),
        *([Package("chromium", lambda: browser() is not None, fleet=False, tests=True)] if _debian() else []),
    ]


def _debian() -> bool:
    """Ubuntu's package of this name is an empty one that points to a snap, which no container can run."""
    try:
        return platform.freedesktop_os_release().get("ID") == "debian"
    except OSError:
        return False


def missing_packages(known: Sequence[Package], fleet: bool, tests: bool = False) -> list[str]:
    """The names of the packages that are wanted and whose commands are absent."""
    wanted = [one for one in known if (fleet or not one.fleet) and (tests or not one.tests)]
    return [package.name for package in wanted if not package.present()]


def install_command(names: Sequence[str]) -> list[str]:
    """The command that installs packages without a question, waiting for another apt to finish."""
    options = ["-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"]
    return ["apt-get", "install", *options, *names]


def root_prefix() -> list[str] | None:
    """How to become root without a question; None where that is not possible."""
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def install(names: Sequence[str]) -> None:
    """Install packages; raises Problem with the command for the person where this account may not."""
    by_hand = f"sudo apt-get install -y --no-install-recommends {' '.join(names)}"
    if not shutil.which("apt-get"):
        raise Problem(
            f"missing: {', '.join(names)}; this machine has no apt-get: install their equivalents, then again"
        )
    prefix = root_prefix()
    if prefix is None:
        raise Problem(f"missing: {', '.join(names)}; this account may not install them. Run: {by_hand}")
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive"]
    # The first finishes what an interrupted run of apt-get left half done.
    for command in (["dpkg", "--configure", "-a"], ["apt-get", "update", "-q"], install_command(names)):
        done = subprocess.run(
            [*prefix, *quiet, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            last = [
                line for line in done.stdout.splitlines() if line.startswith("E:")
            ] or done.stdout.splitlines()[-3:]
            raise Problem(f"'{' '.join(command[:2])}' failed: {' '.join(last)}; by hand: {by_hand}")
