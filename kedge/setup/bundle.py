"""A bundle: all that set-up and a deploy fetch, in one tar, for a control machine without a network.

    python3 -m kedge.setup.bundle          packs it into dist/
    python3 -m kedge.setup --bundle FILE   sets up from it

Standard library only. The tar has ``manifest.json``, ``wheels/FILE`` and ``jars/SET/FILE``. Nothing in it is
believed: every file is held against the locks of the tree that it sets up.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from kedge.deploy.locked_jars import JarError, pack, read_lock, sha256_of
from kedge.evidence.release import VERSION
from kedge.setup import children, environment
from kedge.setup.disk_space import check_space
from kedge.setup.paths import LOCKS, PROJECT, cache_root, jar_folder
from kedge.setup.problem import Problem
from kedge.setup.targets import BUNDLE

_MANIFEST = "manifest.json"
_PART = 1 << 20
_WHEEL = re.compile(r"wheels/\w[\w.+!-]*")
_MADE_AGAIN = "make it again with 'make bundle'"
_COPIED_AGAIN = "copy the bundle again, and check it with sha256sum -c"


@dataclass(frozen=True)
class Manifest:
    """What a bundle is for, and what it holds.

    Attributes:
        kedge: The version of Kedge that made it.
        python: The version of Python that its wheels are for, such as ``3.11``.
        machine: The architecture that they are for, such as ``x86_64``.
        locks: The SHA-256 of each lock that it was made from.
        files: The SHA-256 of each file in it.
    """

    kedge: str
    python: str
    machine: str
    locks: Mapping[str, str]
    files: Mapping[str, str]


def _of_this_tree(files: Mapping[str, str]) -> Manifest:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = [*environment.locks(BUNDLE.requirements), *map(_lock, BUNDLE.jars)]
    locks = {name: sha256_of(PROJECT / name) for name in names}
    return Manifest(VERSION, python, platform.machine(), locks, files)


def _lock(jars: str) -> str:
    return str((LOCKS / f"{jars}.lock").relative_to(PROJECT))


def _locked_jars() -> dict[str, str]:
    """The SHA-256 of each jar by its name in a bundle."""
    return {
        f"jars/{name}/{jar.file_name}": jar.sha256
        for name in BUNDLE.jars
        for jar in read_lock(PROJECT / _lock(name))
    }


def _locked_wheels() -> frozenset[str]:
    """The SHA-256 of every file that a lock of packages allows."""
    texts = [(PROJECT / name).read_text(encoding="utf-8") for name in environment.locks(BUNDLE.requirements)]
    return frozenset(one for text in texts for one in re.findall(r"--hash=sha256:([0-9a-f]{64})", text))


def make(folder: Path) -> Path:
    """Pack a bundle for machines such as this; return the tar, whose checksum lies beside it.

    The jars and the virtual environment are there already; the packages come through pip and its cache.
    """
    cache_root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=cache_root()) as name:
        environment.download(BUNDLE.requirements, Path(name) / "wheels")
        found = {f"wheels/{path.name}": path for path in (Path(name) / "wheels").iterdir()}
        for jars in BUNDLE.jars:
            for jar in read_lock(PROJECT / _lock(jars)):
                found[f"jars/{jars}/{jar.file_name}"] = jar_folder(jars) / jar.file_name
        manifest = _of_this_tree({each: sha256_of(path) for each, path in sorted(found.items())})
        written = Path(name) / _MANIFEST
        written.write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")
        bundle = folder / f"kedge-{VERSION}-python{manifest.python}-{manifest.machine}.tar"
        pack(bundle, {**found, _MANIFEST: written})
    bundle.chmod(0o644)  # somebody else may carry it over
    note = f"{sha256_of(bundle)}  {bundle.name}\n"
    bundle.with_name(f"{bundle.name}.sha256").write_text(note, encoding="utf-8")
    return bundle


@contextmanager
def unpacked(bundle: Path) -> Iterator[Path]:
    """Unpack a bundle that fits this machine and this tree; yield the folder, which is removed afterwards.

    Raises:
        Problem: when a file is missing or is not as the locks have it, or when the bundle is for another
            Python, architecture or version of Kedge. Then nothing has changed.
    """
    cache_root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=cache_root()) as name:
        _unpack(bundle, Path(name))
        yield Path(name)


def _unpack(bundle: Path, folder: Path) -> None:
    try:
        with tarfile.open(bundle, "r:") as tar:
            manifest = _manifest(bundle, tar)
            _check_fit(bundle, manifest)
            jars, wheels = _locked_jars(), _locked_wheels()
            wanted = sorted({*jars, *filter(_WHEEL.fullmatch, manifest.files)})
            if absent := sorted({*wanted} - {*tar.getnames()}):
                others = f" and {len(absent) - 1} more" if absent[1:] else ""
                raise Problem(f"{bundle}: lacks {absent[0]}{others}; {_MADE_AGAIN}")
            check_space([(folder, bundle.stat().st_size >> 20, "bundle")])
            for name in wanted:
                digest = _copy(tar, name, folder / name)
                if digest != jars[name] if name in jars else digest not in wheels:
                    raise Problem(f"{bundle}: {name} is not the file that the locks name: {_COPIED_AGAIN}")
    except (tarfile.TarError, KeyError) as error:  # KeyError: a link to what is not there
        raise Problem(f"{bundle}: is no whole tar ({error}): {_COPIED_AGAIN}") from None
    except OSError as error:
        raise Problem(f"{error.filename or bundle}: {error.strerror}") from None


def _copy(tar: tarfile.TarFile, name: str, to: Path) -> str:
    """Write a file of the tar; return its SHA-256."""
    digest = hashlib.sha256()
    to.parent.mkdir(parents=True, exist_ok=True)
    file = tar.extractfile(name)
    with to.open("wb") as output:
        while part := file.read(_PART) if file else b"":
            children.go_on()
            digest.update(part)
            output.write(part)
    return digest.hexdigest()


def _manifest(bundle: Path, tar: tarfile.TarFile) -> Manifest:
    try:
        file = tar.extractfile(_MANIFEST)
        read = json.loads(file.read()) if file else {}
        manifest = Manifest(**{field.name: read[field.name] for field in fields(Manifest)})
        if not all(isinstance(each, dict) for each in (manifest.locks, manifest.files)):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise Problem(f"{bundle}: no bundle, as its {_MANIFEST} cannot be read; {_MADE_AGAIN}") from None
    return manifest


def _check_fit(bundle: Path, manifest: Manifest) -> None:
    here = _of_this_tree({})
    on = f"{_MADE_AGAIN} on a machine with Python {here.python} and {here.machine}"
    if manifest.kedge != here.kedge:
        raise Problem(
            f"{bundle}: is of Kedge {manifest.kedge}, and this is {here.kedge}; "
            "make it again with this version"
        )
    if manifest.python != here.python:
        raise Problem(f"{bundle}: is for Python {manifest.python}, and this is {here.python}; {on}")
    if manifest.machine != here.machine:
        raise Problem(f"{bundle}: is for {manifest.machine}, and this machine is {here.machine}; {on}")
    if changed := [name for name, digest in here.locks.items() if manifest.locks.get(name) != digest]:
        raise Problem(f"{bundle}: was made from another {', '.join(changed)}; make it again with this tree")


def main() -> int:
    """Pack a bundle into dist/: 0 done, 2 a problem to mend, 130 interrupted."""
    try:
        bundle = make(PROJECT / "dist")
    except (Problem, JarError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; 'make bundle' begins again", file=sys.stderr)
        return 130
    print(f"{bundle} ({bundle.stat().st_size >> 20} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
