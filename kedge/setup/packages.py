"""The programs that this machine must have, and the Debian packages that bring them."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kedge.setup import children
from kedge.setup.problem import Problem
from kedge.setup.targets import Target
from lab.fleet.engine import docker_answers
from lab.fleet.node_image import KEYRING

JAVA = 17  # what 4.x brokers and tools need
_JDK = "openjdk-{}-jdk-headless"
_LOCKED = ("Could not get lock", "frontend lock", "Unable to lock", "is another process using it")
_REFRESH = ("apt-get", "update", "-q")
LOCK_S = 120.0
_POLL_S = 2.0
#: Every Debian system has them.
ESSENTIAL = frozenset(
    (
        "apt-config",
        "apt-get",
        "bash",
        "cat",
        "cp",
        "dpkg",
        "dpkg-deb",
        "env",
        "mount",
        "rm",
        "sh",
        "sha256sum",
        "true",
        "umount",
        "unshare",
    )
)


@dataclass(frozen=True)
class Package:
    """A Debian package: the programs for which it is wanted, and whether they are there."""

    name: str
    programs: tuple[str, ...]
    present: Callable[[], bool]


def _program(name: str, *programs: str) -> Package:
    """A package that is there when its programs are; those of root alone are looked for as well."""
    return Package(name, programs, lambda: all(find(program) for program in programs))


def find(program: str) -> str | None:
    """Where a program is, on the PATH or among those of root."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")


def _netavark() -> bool:
    folders = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/libexec/podman")
    return any((Path(folder) / "netavark").exists() for folder in folders) or bool(find("netavark"))


def browser() -> str | None:
    """The program of a Chromium that is installed, in which tests look at a report."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, found), None)


def _browser_or_none_to_have() -> bool:
    """Ubuntu's package of this name is an empty one that points to a snap, which no container can run."""
    try:
        debian = platform.freedesktop_os_release().get("ID") == "debian"
    except OSError:
        debian = False
    return browser() is not None or not debian


def java_major(text: str) -> int:
    """The major version in what `javac -version` prints; 0 where it prints none."""
    match = re.search(r"javac (?:1\.)?(\d+)", text)
    return int(match[1]) if match else 0


def _java_present() -> bool:
    if not (shutil.which("javac") and shutil.which("java")):
        return False
    done = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=False)
    return java_major(done.stdout + done.stderr) >= JAVA


#: Podman and what it needs to give nodes fixed addresses; where Docker answers, none of them is wanted.
ENGINE = (
    _program("podman", "podman"),
    _program("runc", "runc"),
    Package("netavark", ("netavark",), _netavark),
    _program("iptables", "iptables"),
)
FLEET = (
    _program("iproute2", "ip", "ss"),
    _program("mmdebstrap", "mmdebstrap"),
    Package("debian-archive-keyring", (), KEYRING.is_file),
    _program("openssh-client", "ssh", "ssh-keygen"),
    _program("procps", "kill"),
)
OF_ENGINE = (*ENGINE, *FLEET)
VENV = Package("python3-venv", (), lambda: importlib.util.find_spec("ensurepip") is not None)
BUILDERS = (
    Package(_JDK.format(JAVA), ("java", "javac", "jcmd"), _java_present),
    _program("maven", "mvn"),
)
SINGLE = (
    Package("chromium", ("chromium",), _browser_or_none_to_have),
    _program("curl", "curl"),
    _program("git", "git"),
    _program("haproxy", "haproxy"),
    _program("make", "make"),
    _program("openssl", "openssl"),
    _program("systemd", "systemd-analyze"),
)


def wanted(target: Target) -> tuple[Package, ...]:
    """The packages of a target, Java and Maven last: nothing of the fleet waits for them."""
    engine = ENGINE if target.fleet and not docker_alone() else ()
    fleet = FLEET if target.fleet else ()
    venv = (VENV,) if target.requirements else ()
    java = (target.jars and not target.bundled) or target.sandbox or target.sample
    named = [one for one in (*FLEET, *SINGLE, *BUILDERS) if set(one.programs) & set(target.programs)]
    found = [*engine, *fleet, *venv, *named, *(BUILDERS if java else ())]
    return tuple(dict.fromkeys(sorted(found, key=lambda one: one in BUILDERS)))


def programs(target: Target) -> frozenset[str]:
    """Every program that set-up of this target sees to, those of any Debian system included."""
    packages = {*wanted(target), *(ENGINE if target.fleet else ())}
    own = {"go"} if target.link or target.store else set()  # from PyPI, as Debian's is too old
    own |= {"prometheus", "promtool"} if target.metrics else set()
    return ESSENTIAL | own | {program for package in packages for program in package.programs}


def docker_alone() -> bool:
    """Whether Docker is the engine here: it answers, and podman is not installed."""
    return not shutil.which("podman") and docker_answers()


def missing(packages: Iterable[Package]) -> list[str]:
    """The names of the packages that are absent."""
    return [package.name for package in packages if not package.present()]


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


def install(
    names: Sequence[str], say: Callable[[str], None] = lambda text: None, *, refresh: bool = True
) -> None:
    """Install packages, apt's lists made new with `refresh`.

    Raises Problem with the command for the person where this account may not.
    """
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
    for command in (["dpkg", "--configure", "-a"], *([_REFRESH] if refresh else [])):
        _patiently([*quiet, *command], prefix, by_hand, say)
    wanted = [offered(name) for name in names]
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted]
    _patiently([*quiet, *command], prefix, by_hand, say)


def refresh_lists(say: Callable[[str], None]) -> None:
    """Have apt make its lists of packages new; raises Problem where that cannot be."""
    by_hand = f"sudo {' '.join(_REFRESH)}"
    if (prefix := root_prefix()) is None:
        raise Problem(f"apt's lists of packages are old, and this account may not renew them. Run: {by_hand}")
    _patiently(["env", "--", *_REFRESH], prefix, by_hand, say)


def offered(name: str) -> str:
    """Return a package as this machine's distribution has it: of a Java that it lacks, the next release."""
    jdk = _JDK.format(r"(\d+)")
    if not (wanted := re.fullmatch(jdk, name)):
        return name
    done = subprocess.run(["apt-cache", "pkgnames", "openjdk-"], capture_output=True, text=True, check=False)
    found = map(int, re.findall(rf"(?m)^{jdk}$", done.stdout))
    there = [release for release in found if release >= int(wanted[1])]
    return _JDK.format(min(there)) if there else name


def _patiently(command: list[str], prefix: list[str], by_hand: str, say: Callable[[str], None]) -> None:
    """Run a command, again and again while another apt or dpkg is at work."""
    trouble = f"'{' '.join(command[2:4])}' failed"
    until = time.monotonic() + LOCK_S
    told = False
    while True:
        try:
            children.run(command, trouble, prefix=prefix)
        except Problem as problem:
            if not any(mark in str(problem) for mark in _LOCKED):
                raise Problem(f"{problem}; by hand: {by_hand}") from None
            if time.monotonic() > until:
                raise Problem(
                    f"{problem}; another apt was at work for {LOCK_S:.0f} s: let it end, then again"
                ) from None
        else:
            return
        if not told:
            say("another apt is at work, waiting for it")
            told = True
        children.pause(_POLL_S)
