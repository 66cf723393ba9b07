"""Set-up: makes this machine and this folder ready, and does nothing where they are.

    python3 -m local.setup [--check] [--for-tests] [--without-fleet | --fleet-if-possible]

Standard library only, run by the machine's own python3.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from control.jars import JarError, archive_path, resolve
from local.fleet import node_image, toxiproxy
from local.fleet.engine import NoEngine, find_engine
from local.fleet.survey import check_space
from local.paths import LOCKS, PROJECT, VENV, cache_root, jar_folder
from local.problem import Problem
from local.setup import jars
from local.setup import packages as machine

REQUIREMENTS = PROJECT / "requirements.txt"
VENV_MARKER = VENV / ".requirements"
SANDBOX = PROJECT / "local" / "services" / "sandbox_rest"
IMAGE = "node image"
SAMPLE = PROJECT / "local" / "services" / "sample_streams"


@dataclass(frozen=True)
class Phase:
    """A part of set-up: `wanting` tells in words what is missing, or nothing; `make` makes it.

    `needs` is the space that making takes: folders and megabytes.
    """

    name: str
    wanting: Callable[[], str]
    make: Callable[[], None]
    needs: Sequence[tuple[Path, int]]


def say(line: str) -> None:
    """Print one line at once."""
    print(line, flush=True)


def _venv_key() -> str:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{python} {hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()}"


def _venv_wanting() -> str:
    if VENV_MARKER.is_file() and VENV_MARKER.read_text(encoding="utf-8").strip() == _venv_key():
        return ""
    count = sum(1 for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if "==" in line)
    return f"installs {count} locked Python packages into .venv (a minute or two)"


def _make_venv() -> None:
    python = VENV / "bin" / "python"
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    probe = "import sys, pip; print('%d.%d' % sys.version_info[:2])"
    usable = python.exists() and _output([str(python), "-c", probe]) == wanted
    VENV_MARKER.unlink(missing_ok=True)
    if not usable:
        base = getattr(sys, "_base_executable", sys.executable)
        _run([base, "-m", "venv", "--clear", str(VENV)], "the virtual environment could not be made")
    install = [str(python), "-m", "pip", "install", "--require-hashes", "--requirement", str(REQUIREMENTS)]
    _run(
        [*install, "-q", "--no-input", "--disable-pip-version-check"],
        "pip could not install requirements.txt",
    )
    VENV_MARKER.write_text(_venv_key() + "\n", encoding="utf-8")


def _jars_wanting() -> str:
    absent = []
    for name in jars.sets():
        lock = LOCKS / f"{name}.lock"
        packed = archive_path(lock, cache_root() / "archives").is_file()
        if resolve(lock, jar_folder(name), check=True) or not packed:
            absent.append(name)
    return f"fetches {', '.join(absent)} with Maven into {cache_root() / 'jars'}" if absent else ""


def _make_jars() -> None:
    for name in jars.sets():
        jars.get(name)


def _sources_key(project: Path) -> str:
    digest = hashlib.sha256()
    for path in [project / "pom.xml", *sorted((project / "src" / "main").rglob("*"))]:
        if path.is_file():
            digest.update(str(path.relative_to(project)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _built_by_maven(what: str, project: Path, product: str) -> Phase:
    """The phase that builds one of our own Java projects when its sources have changed."""
    marker = project / "target" / ".sources"

    def wanting() -> str:
        built = any((project / "target").glob(product))
        if built and marker.is_file() and marker.read_text(encoding="utf-8") == _sources_key(project):
            return ""
        return f"builds the {what} with Maven"

    def make() -> None:
        key = _sources_key(project)
        marker.unlink(missing_ok=True)
        build = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), "-DskipTests", "package"]
        _run(build, f"the {what} could not be built")
        marker.write_text(key, encoding="utf-8")

    return Phase(what, wanting, make, [(project, 100)])


def _image_wanting() -> str:
    try:
        present = node_image.is_present(find_engine())
    except NoEngine:  # the phase before this one installs it
        present = False
    return "" if present else "builds the nodes' image"


def _make_image() -> None:
    node_image.ensure(find_engine(), lambda line: say(f"  {line}"))


def _link_wanting() -> str:
    # Without Go the fleets without a link run all the same; who needs it is told so.
    if toxiproxy.binary().is_file() or toxiproxy.obstacle():
        return ""
    return f"builds Toxiproxy {toxiproxy.version()} with Go, for the long way between clusters"


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _run(command: list[str], trouble: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        told = [line for line in lines if "ERROR" in line][:3] or lines[-3:]
        raise Problem(f"{trouble}: {' '.join(told)}")


def _packages_phase(fleet: bool, tests: bool = False) -> Phase:
    known = machine.packages(not shutil.which("podman") and machine.docker_answers())
    names = machine.missing_packages(known, fleet, tests)
    wanting = f"installs with apt-get: {' '.join(names)}" if names else ""
    return Phase("system packages", lambda: wanting, lambda: machine.install(names), [(Path("/usr"), 1000)])


def phases(fleet: bool, tests: bool = False) -> list[Phase]:
    """The parts of set-up in their order; those of the fleet or of tests only where they are wanted."""
    made = [
        _packages_phase(fleet, tests),
        Phase("virtual environment", _venv_wanting, _make_venv, [(VENV, 2000)]),
        Phase("jars", _jars_wanting, _make_jars, [(cache_root(), 500)]),
        _built_by_maven("sandbox REST proxy", SANDBOX, "sandbox-rest-*.tar.gz"),
        _built_by_maven("sample Streams application", SAMPLE, "sample-streams-*.jar"),
        Phase("link between clusters", _link_wanting, toxiproxy.build, [(cache_root(), 300)]),
    ]
    if fleet:
        made.append(Phase(IMAGE, _image_wanting, _make_image, node_image.needs("podman")))
    return made


def run(made: list[Phase]) -> None:
    """Make what is missing, phase by phase, each with its time; raises Problem or JarError."""
    began = time.monotonic()
    wanting = {phase.name: phase.wanting() for phase in made}
    check_space(
        (folder, size, phase.name) for phase in made if wanting[phase.name] for folder, size in phase.needs
    )
    for phase in made:
        if not wanting[phase.name]:
            continue
        started = time.monotonic()
        say(f"set-up: {phase.name}: {wanting[phase.name]}")
        phase.make()
        say(f"set-up: {phase.name}: done in {time.monotonic() - started:.1f} s")
    say(f"set-up: complete ({time.monotonic() - began:.1f} s)")


def _check(made: list[Phase]) -> int:
    missing = [(phase.name, text) for phase in made if (text := phase.wanting())]
    for name, text in missing:
        say(f"{name}: {text}")
    say("set-up is not complete: run 'make setup'" if missing else "set-up is complete")
    return 1 if missing else 0


def _fleet_obstacle() -> str:
    """Why the fleet cannot be set up by this account, or nothing."""
    names = _packages_phase(True).wanting()
    if names and (machine.root_prefix() is None or not shutil.which("apt-get")):
        return f"this account may not install what it needs ({names})"
    allowed = [*(machine.root_prefix() or []), "unshare", "--mount", "true"]
    if subprocess.run(allowed, capture_output=True, check=False).returncode:
        return "mounts are not allowed here"
    try:
        if not names:
            find_engine()
    except Problem as problem:
        return str(problem)
    return ""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    """Set up or check: 0 complete, 1 (check) something is missing, 2 a problem to mend, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="python3 -m local.setup", description="Make this machine ready.")
    parser.add_argument("--check", action="store_true", help="only say what is missing")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--without-fleet", action="store_true", help="leave out what only the local fleet needs"
    )
    kind.add_argument(
        "--fleet-if-possible", action="store_true", help="leave the fleet out where it cannot run"
    )
    parser.add_argument("--for-tests", action="store_true", help="also what only tests need: a browser")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        fleet = not options.without_fleet
        if options.fleet_if_possible and (obstacle := _fleet_obstacle()):
            say(f"set-up: the local fleet is left out: {obstacle}")
            fleet = False
        if options.check:
            return _check(phases(fleet, options.for_tests))
        run(phases(fleet, options.for_tests))
    except (Problem, JarError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; 'make setup' goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
