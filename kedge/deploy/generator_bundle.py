"""``python -m kedge.deploy.generator_bundle``: the load's code and the packages that it imports, for a host.

With ``--canary`` it is the canary's: its metrics, and the audit with PySpark beside that.
Prints a JSON object: ``archive``, a .tar.gz that holds them beside one another, and ``key``, which names its
content. The packages come through pip, so that the indexes of the user's own settings serve here as well, and
each is held against its checksum in requirements/generator.txt. The hosts need no package index.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from kedge.deploy.locked_jars import is_as_made, note_digest
from kedge.evidence.border.untrusted import shown

ROOT: Final = Path(__file__).resolve().parents[2]
#: For one Python, without conditions: pip judges those by the Python that runs it.
LOCK: Final = ROOT / "requirements" / "generator.txt"
#: What the processes of a load import of the kit.
CODE: Final = ("kedge", "verify")
#: The same of a canary, which audits its windows itself; the audit has templates beside its code.
CANARY_LOCK: Final = ROOT / "requirements" / "canary.txt"
CANARY_CODE: Final = (*CODE, "spark_checks")
_KINDS: Final = (".py", ".j2", ".css", ".js", ".properties", ".yml", ".json")
#: The C libraries for which wheels are published, and the oldest Python that the kit is written for.
_PLATFORMS: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")
_OLDEST: Final = (3, 11)
#: Of folders and programs, such as those of PySpark, and of all others.
_FOLDER, _FILE = 0o755, 0o644


class BundleError(Exception):
    """What has to be mended before a host can make load; its text is one line."""


def code() -> str:
    """Return what names the kit's code of a load: two machines that agree in it understand one another."""
    return _digest(CODE, (".py",))


def _digest(folders: Iterable[str], kinds: Collection[str]) -> str:
    found = hashlib.sha256()
    for name in folders:
        for file in sorted(file for file in (ROOT / name).rglob("*") if file.suffix in kinds):
            found.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def key(python: str, machine: str, canary: bool = False) -> str:
    """Return what names the content: it changes with the code, the lock and the kind of machine."""
    if canary:
        named = f"{_digest(CANARY_CODE, _KINDS)} {python} {machine}\n".encode() + CANARY_LOCK.read_bytes()
    else:
        named = f"{code()} {python} {machine}\n".encode() + LOCK.read_bytes()
    return hashlib.sha256(named).hexdigest()[:16]


def bundle(python: str, machine: str, cache: Path, canary: bool = False) -> Path:
    """Return the archive for a Python (3.11) on a machine (x86_64), made where the cache does not have it.

    Raises:
        BundleError: when that Python is too old, or a package cannot be had for it.
    """
    name = CANARY_LOCK.stem if canary else "load_generator"
    if not re.fullmatch(r"[a-z0-9_]{1,32}", machine):
        raise BundleError(f"its machine is {shown(machine)!r}, which is none")
    if not re.fullmatch(r"3\.[0-9]{1,3}", python) or tuple(map(int, python.split("."))) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise BundleError(
            f"its Python is {shown(python)}, and making load needs {oldest} or later: name one in "
            f"{name}_python, or take the host out of the group {name}"
        )
    archive = cache / f"{name.replace('_', '-')}-{key(python, machine, canary)}.tar.gz"
    if is_as_made(archive):
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        packages = Path(folder) / "packages"
        _install(python, machine, packages, CANARY_LOCK if canary else LOCK)
        made = Path(folder) / "archive"
        with tarfile.open(made, "w:gz", compresslevel=1) as file:
            for one in sorted(packages.iterdir()):
                file.add(one, one.name, filter=_for_everybody)
            kinds = _KINDS if canary else (".py",)
            for folder_name in CANARY_CODE if canary else CODE:
                file.add(ROOT / folder_name, folder_name, filter=_of_kinds(kinds))
        made.replace(archive)
    note_digest(archive)
    return archive


def _for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Have a file belong to root and be read by all, whatever it is on this machine."""
    member.mode = _FOLDER if member.isdir() or member.mode & stat.S_IXUSR else _FILE
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _of_kinds(kinds: tuple[str, ...]) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    def code_for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        wanted = member.name.endswith(kinds) or (member.isdir() and not member.name.endswith("__pycache__"))
        return _for_everybody(member) if wanted else None

    return code_for_everybody


def _install(python: str, machine: str, packages: Path, lock: Path) -> None:
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--target", str(packages), "--python-version", python, "--implementation", "cp", *platforms),
            *(*_only_wheels(lock), "--no-deps", "--no-compile", "--require-hashes", "-r", str(lock)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = (lines or [done.stderr.strip()])[-1][:300]
        raise BundleError(f"pip finds no packages for Python {python} on {machine}: {why}")


def _only_wheels(lock: Path) -> tuple[str, ...]:
    """Return that packages come built; PySpark is published as a source alone, which compiles nothing."""
    return ("--only-binary", ":all:", *(("--no-binary", "pyspark") if lock == CANARY_LOCK else ()))


def main(arguments: list[str] | None = None) -> int:
    """Print where the archive is; 1 with one line when there is none."""
    parser = argparse.ArgumentParser(prog="python -m kedge.deploy.generator_bundle", description=__doc__)
    parser.add_argument("--python", required=True, help="version of the host's Python, such as 3.11")
    parser.add_argument("--machine", required=True, help="of the host, such as x86_64")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the archives")
    parser.add_argument("--canary", action="store_true", help="what a canary's host needs")
    options = parser.parse_args(arguments)
    try:
        archive = bundle(options.python, options.machine, options.cache, options.canary)
    except BundleError as error:
        print(f"{error}. The host was not touched. Fix that, then run deploy.yml again", file=sys.stderr)
        return 1
    print(json.dumps({"archive": str(archive), "key": key(options.python, options.machine, options.canary)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
