"""The phases of set-up for a target, and its command line.

    python3 -m kedge.setup [TARGET] [--check] [--without-fleet | --fleet-if-possible | --bundle FILE]

Standard library only, run by the machine's own python3. It does nothing where nothing is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

from kedge.deploy.locked_jars import JarError
from kedge.evidence.files import replace_text
from kedge.setup import bundle, children, environment, jars, packages, schedule
from kedge.setup.go_program import GoProgram
from kedge.setup.paths import GENERATED, PROJECT, VENV, cache_root
from kedge.setup.problem import Problem
from kedge.setup.schedule import Say, SetupPart, say
from kedge.setup.targets import BUNDLE, OWN_HOSTS, TARGETS, Target
from lab.fleet import node_image, toxiproxy
from lab.fleet.engine import NoEngine, find_engine
from lab.services import minio, prometheus

SANDBOX = PROJECT / "lab" / "services" / "sandbox_rest"
SAMPLE = PROJECT / "lab" / "services" / "sample_streams"
#: What the last set-up took: ``{"seconds": all, "phases": {name: seconds}}``, without what was there already.
TIMES = GENERATED / "set-up.json"
_PACKAGES, _JAVA, _VENV = "system packages", "Java and Maven", "virtual environment"
_GO = "requirements/go.txt"


def _sources_key(project: Path) -> str:
    digest = hashlib.sha256()
    for path in [project / "pom.xml", *sorted((project / "src" / "main").rglob("*"))]:
        if path.is_file():
            digest.update(str(path.relative_to(project)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _built_by_maven(what: str, project: Path, product: str) -> SetupPart:
    """The phase that builds one of our own Java projects when its sources have changed."""
    marker = project / "target" / ".sources"

    def wanting() -> str:
        built = any((project / "target").glob(product))
        if built and marker.is_file() and marker.read_text(encoding="utf-8") == _sources_key(project):
            return ""
        return "builds it with Maven"

    def make(_say: Say) -> None:
        key = _sources_key(project)
        marker.unlink(missing_ok=True)
        build = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), "-DskipTests", "package"]
        children.run(build, f"the {what} could not be built")
        marker.write_text(key, encoding="utf-8")

    return SetupPart(what, wanting, make, [(project, 100)], after=(_JAVA,))


def _image_wanting() -> str:
    try:
        present = node_image.is_present(find_engine())
    except NoEngine:  # the phase before this one installs it
        present = False
    return "" if present else "builds it"


def _image(engine_is_missing: bool) -> SetupPart:
    def wanting() -> str:
        return "builds it" if engine_is_missing else _image_wanting()

    def make(tell: Say) -> None:
        node_image.ensure(find_engine(), tell)

    return SetupPart("nodes' image", wanting, make, node_image.needs("podman"), after=(_PACKAGES,))


def _built_by_go(program: GoProgram, after: tuple[str, ...]) -> SetupPart:
    return SetupPart(
        program.name,
        program.wanting,
        lambda _: program.build(),
        [(cache_root(), program.megabytes)],
        after,
    )


def _apt(name: str, names: list[str], after: tuple[str, ...] = (), *, refresh: bool = True) -> SetupPart:
    text = f"installs with apt-get: {' '.join(names)}" if names else ""
    return SetupPart(
        name,
        lambda: text,
        lambda tell: packages.install(names, tell, refresh=refresh),
        [(Path("/usr"), 1000)],
        after,
    )


def phases(target: Target, bundled: Path | None = None) -> list[SetupPart]:
    """The parts of a target's set-up, each after those that it builds upon.

    `bundled` is the folder of an unpacked bundle, from which it is made.
    """
    wanted = packages.wanted(target)
    java = [one for one in wanted if one in packages.BUILDERS]
    others = [one for one in wanted if one not in packages.BUILDERS]
    names = packages.missing(others)
    made = [
        _apt(_PACKAGES, names),
        _apt(_JAVA, packages.missing(java), after=(_PACKAGES,), refresh=not names),
    ]
    go = [toxiproxy.PROGRAM] * target.link + [minio.PROGRAM] * target.store
    files = [*target.requirements, *([_GO] if any(program.obstacle() for program in go) else [])]
    if files:
        after = (_PACKAGES,) if packages.missing([packages.VENV]) else ()
        made.append(
            SetupPart(
                _VENV,
                lambda: environment.wanting(files),
                lambda tell: environment.make(files, tell, bundled and bundled / "wheels"),
                [(VENV, 2000)],
                after,
            )
        )
    if target.jars:
        made.append(
            SetupPart(
                "jars",
                lambda: jars.wanting(target.jars),
                lambda tell: jars.make(target.jars, bundled and bundled / "jars"),
                [(cache_root(), 500)],
                after=(_JAVA,),
            )
        )
    if target.sandbox:
        made.append(_built_by_maven("sandbox REST proxy", SANDBOX, "sandbox-rest-*.tar.gz"))
    if target.sample:
        made.append(_built_by_maven("sample Streams application", SAMPLE, "sample-streams-*.jar"))
    made += [_built_by_go(program, (_VENV,) if _GO in files else ()) for program in go]
    if target.metrics:
        needs = [(cache_root(), prometheus.MEGABYTES)]
        # Two of apt-get at a time would wait for one another.
        before = (_PACKAGES, _JAVA)
        made.append(SetupPart(prometheus.NAME, prometheus.wanting, prometheus.fetch, needs, before))
    if target.fleet:
        made.append(_image(bool(packages.missing(one for one in others if one in packages.OF_ENGINE))))
    return made


def _note(total: float, seconds: dict[str, float]) -> None:
    """Write down what the last set-up took, for the demo's table of phases."""
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    replace_text(TIMES, json.dumps({"seconds": total, "phases": seconds}) + "\n")


def _check(made: list[SetupPart], again: str) -> int:
    missing = [(name, text) for name, text in schedule.wantings(made).items() if text]
    for name, text in missing:
        print(f"{name}: {text}")
    print(f"set-up is not complete: run '{again}'" if missing else "set-up is complete")
    return 1 if missing else 0


def _fleet_obstacle() -> str:
    """Why the fleet cannot be set up by this account, or nothing."""
    names = packages.missing(packages.wanted(Target(requirements=(), fleet=True)))
    prefix = packages.root_prefix()
    if names and (prefix is None or not shutil.which("apt-get")):
        return f"this account may not install what it needs ({', '.join(names)})"
    allowed = [*(prefix or []), "unshare", "--mount", "true"]
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m kedge.setup", description="Make this machine ready.")
    parser.add_argument(
        "target",
        nargs="?",
        default="setup",
        choices=TARGETS,
        metavar="TARGET",
        help="of the Makefile (default: setup)",
    )
    parser.add_argument("--check", action="store_true", help="only say what is missing")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--without-fleet", action="store_true", help="leave out what only the local fleet needs"
    )
    kind.add_argument(
        "--fleet-if-possible", action="store_true", help="leave the fleet out where it cannot run"
    )
    kind.add_argument(
        "--bundle", type=Path, metavar="FILE", help="without a network: from what 'make bundle' packed"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Set up or check: 0 complete, 1 (check) something is missing, 2 a problem to mend, 130 interrupted."""
    options = _parser().parse_args(arguments)
    again = "make setup" if options.target == "setup" else f"make {options.target}"
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        target = TARGETS[options.target]
        if options.bundle:
            if options.target != "setup":
                raise Problem(f"--bundle brings what 'setup' needs, not '{options.target}': leave that out")
            again, target = f"make setup BUNDLE={options.bundle}", BUNDLE
        elif options.without_fleet:
            target = OWN_HOSTS if options.target == "setup" else replace(target, fleet=False)
        elif options.fleet_if_possible and target.fleet and (obstacle := _fleet_obstacle()):
            say(f"the local fleet is left out: {obstacle}")
            target = replace(target, fleet=False)
        with bundle.unpacked(options.bundle) if options.bundle else contextlib.nullcontext() as bundled:
            made = phases(target, bundled)
            if options.check:
                return _check(made, again)
            began = time.monotonic()
            seconds = schedule.run(made)
            _note(time.monotonic() - began, seconds)
    except (Problem, JarError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted; '{again}' goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
