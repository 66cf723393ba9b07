"""``python -m kedge.deploy.generator_bundle``: the load's code and the packages that it imports, for a host.

Prints a JSON object: ``archive``, a .tar.gz that holds them beside one another, and ``key``, which names its
content. The packages come through pip, so that the indexes of the user's own settings serve here as well, and
each is held against its checksum in requirements/generator.txt. The hosts need no package index.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from kedge.deploy.jars import is_as_made, note_digest
from kedge.evidence.border.untrusted import shown

ROOT: Final = Path(__file__).resolve().parents[2]
#: For one Python, without conditions: pip judges those by the Python that runs it.
LOCK: Final = ROOT / "requirements" / "generator.txt"
#: What the processes of a load import of the kit.
CODE: Final = ("kedge", "verify")
#: The C libraries for which wheels are published, and the oldest Python that the kit is written for.
_PLATFORMS: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28")
_OLDEST: Final = (3, 11)
_FOLDER, _FILE = 0o755, 0o644


class BundleError(Exception):
    """What has to be mended before a host can make load; its text is one line."""


def code() -> str:
    """Return what names the kit's code of a load: two machines that agree in it understand one another."""
    found = hashlib.sha256()
    for name in CODE:
        for file in sorted((ROOT / name).rglob("*.py")):
            found.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def key(python: str, machine: str) -> str:
    """Return what names the content: it changes with the code, the lock and the kind of machine."""
    return hashlib.sha256(f"{code()} {python} {machine}\n".encode() + LOCK.read_bytes()).hexdigest()[:16]


def bundle(python: str, machine: str, cache: Path) -> Path:
    """Return the archive for a Python (3.11) on a machine (x86_64), made where the cache does not have it.

    Raises:
        BundleError: when that Python is too old, or a package cannot be had for it.
    """
    if not re.fullmatch(r"[a-z0-9_]{1,32}", machine):
        raise BundleError(f"its machine is {shown(machine)!r}, which is none")
    if not re.fullmatch(r"3\.[0-9]{1,3}", python) or tuple(map(int, python.split("."))) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise BundleError(
            f"its Python is {shown(python)}, and making load needs {oldest} or later: name one in "
            "load_generator_python, or take the host out of the group load_generator"
        )
    archive = cache / f"load-generator-{key(python, machine)}.tar.gz"
    if is_as_made(archive):
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        packages = Path(folder) / "packages"
        _install(python, machine, packages)
        made = Path(folder) / "archive"
        with tarfile.open(made, "w:gz", compresslevel=1) as file:
            for one in sorted(packages.iterdir()):
                file.add(one, one.name, filter=_for_everybody)
            for name in CODE:
                file.add(ROOT / name, name, filter=_code_for_everybody)
        made.replace(archive)
    note_digest(archive)
    return archive


def _for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Have a file belong to root and be read by all, whatever it is on this machine."""
    member.mode = _FOLDER if member.isdir() else _FILE
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _code_for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    wanted = member.name.endswith(".py") or (member.isdir() and not member.name.endswith("__pycache__"))
    return _for_everybody(member) if wanted else None


def _install(python: str, machine: str, packages: Path) -> None:
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--target", str(packages), "--python-version", python, "--implementation", "cp", *platforms),
            *("--only-binary", ":all:", "--no-deps", "--no-compile", "--require-hashes", "-r", str(LOCK)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = (lines or [done.stderr.strip()])[-1][:300]
        raise BundleError(f"pip finds no packages for Python {python} on {machine}: {why}")


def main(arguments: list[str] | None = None) -> int:
    """Print where the archive is; 1 with one line when there is none."""
    parser = argparse.ArgumentParser(prog="python -m kedge.deploy.generator_bundle", description=__doc__)
    parser.add_argument("--python", required=True, help="version of the host's Python, such as 3.11")
    parser.add_argument("--machine", required=True, help="of the host, such as x86_64")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the archives")
    options = parser.parse_args(arguments)
    try:
        archive = bundle(options.python, options.machine, options.cache)
    except BundleError as error:
        print(f"{error}. The host was not touched. Fix that, then run deploy.yml again", file=sys.stderr)
        return 1
    print(json.dumps({"archive": str(archive), "key": key(options.python, options.machine)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
