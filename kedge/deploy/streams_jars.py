"""The jars of a Streams application: its own, proven and packed, and the kit's classes, built against them.

Two archives come out, each named after its content: the application's jars, and one jar with the RocksDB
class that the plan asks for and the reporter of its state. Everything happens on the control machine, so that
a class that does not compile or load stops a deployment before a host is touched.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kedge.deploy.locked_jars import (
    JarError,
    holds,
    is_as_made,
    note_digest,
    pack,
    read_lock,
    resolve,
    sha256_of,
)
from kedge.deploy.rendering import TEMPLATES, render

SOURCES: Final = TEMPLATES / "streams"
ROCKSDB_CLASS: Final = "kedge.BoundedRocksDb"
_CHECK_SECONDS: Final = 120
_VERSION_ENTRY: Final = "kafka/kafka-streams-version.properties"
#: Zip files know no earlier day; with a fixed one the same classes give the same bytes.
_DAY: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Packed:
    """An archive for the nodes: a name that follows from its content, and where it lies."""

    key: str
    tarball: Path


@dataclass(frozen=True)
class Wish:
    """What to build: the application's jars, what the plan says of RocksDB, and what has to load.

    ``rocksdb`` are the settings of rocksdb.properties; none for an application without stores. ``release`` is
    the feature release of the nodes' Java.
    """

    name: str
    version: str
    main_class: str
    jars: Sequence[Path]
    rocksdb: Sequence[Mapping[str, Any]]
    release: int


def application_jars(
    own: Iterable[Mapping[str, Any]], lock: Path | None, cache: Path, *, fetch: bool
) -> list[Path]:
    """Return the application's jars, each with the checksum that was asked for.

    Raises JarError for one that is not there, or is another than the one that was asked for, and for two of
    one name.
    """
    found: dict[str, Path] = {}
    if lock is not None:
        folder = cache / "jars" / lock.stem
        resolve(lock, folder, check=not fetch)
        found = {jar.file_name: folder / jar.file_name for jar in read_lock(lock)}
    for entry in own:
        path = Path(entry["path"]).expanduser()
        if not path.is_file():
            raise JarError(f"{path} is not there: build the application, or mend streams_app_jars")
        wanted = entry.get("sha256")
        if wanted and (is_ := sha256_of(path)) != wanted:
            raise JarError(f"{path} has SHA-256 {is_}, streams_app_jars says {wanted}")
        if path.name in found:
            raise JarError(f"{path.name} is twice among the application's jars: take one out")
        found[path.name] = path
    return [found[name] for name in sorted(found)]


def pack_application(jars: Sequence[Path], cache: Path, *, write: bool) -> Packed:
    """Pack the application's jars into one archive, named after their names and contents."""
    digests = {jar.name: sha256_of(jar) for jar in jars}
    key = _key([*digests.items()])
    tarball = cache / "archives" / f"streams-app-{key}.tar"
    if write and not holds(tarball, digests):
        pack(tarball, {jar.name: jar for jar in jars})
    return Packed(key, tarball)


def build_kit(wish: Wish, cache: Path, *, write: bool) -> Packed:
    """Build the kit's jar against the application's jars, see it load, and pack it.

    What was built before, from the same sources against the same jars, was seen to load then.

    Raises:
        JarError: in one line, when kafka-streams is missing or of another version than planned, a class does
            not compile, the main class is missing, or a store does not open with the RocksDB class.
    """
    sources = _sources(wish)
    jars = [(jar.name, sha256_of(jar)) for jar in wish.jars]
    key = _key([*sources.items(), *jars, ("main", wish.main_class), ("release", str(wish.release))])
    tarball = cache / "archives" / f"streams-kit-{key}.tar"
    if write and not is_as_made(tarball):
        _check_version(wish)
        with tempfile.TemporaryDirectory(prefix="kedge-streams-") as name:
            classes = _compile(wish, sources, Path(name))
            _see_it_load(wish, classes)
            jar = Path(name) / "kedge-streams.jar"
            jar.write_bytes(_jar(classes))
            pack(tarball, {jar.name: jar})
        note_digest(tarball)
    return Packed(key, tarball)


def _sources(wish: Wish) -> dict[str, str]:
    found = {name: (SOURCES / name).read_text() for name in ("StateReporter.java", "LoadCheck.java")}
    if wish.rocksdb:
        template = "streams/BoundedRocksDb.java.j2"
        try:
            found["BoundedRocksDb.java"] = render(template, settings=list(wish.rocksdb))
        except ValueError as error:
            raise JarError(f"{wish.name}: the RocksDB class cannot be rendered: {error}") from error
    return found


def _check_version(wish: Wish) -> None:
    for jar in wish.jars:
        with zipfile.ZipFile(jar) as archive:
            if _VERSION_ENTRY not in archive.namelist():
                continue
            text = archive.read(_VERSION_ENTRY).decode()
        match = re.search(r"^version=(\S+)", text, re.MULTILINE)
        held = match[1] if match else "unknown"
        if held != wish.version:
            raise JarError(
                f"{wish.name}: {jar.name} holds kafka-streams {held}, streams_app_version says "
                f"{wish.version}: the plan would be made for another version"
            )
        return
    raise JarError(f"{wish.name}: no jar holds kafka-streams: add it, or its lock as streams_app_lock")


def _compile(wish: Wish, sources: Mapping[str, str], folder: Path) -> Path:
    classes = folder / "classes"
    for name, text in sources.items():
        (folder / name).write_text(text)
    command = ["javac", "-proc:none", "--release", str(wish.release), "-d", str(classes)]
    command += ["-cp", _class_path(wish), *(str(folder / name) for name in sorted(sources))]
    done = _run(command)
    if done.returncode:
        lines = [line.replace(f"{folder}/", "") for line in done.stdout.splitlines()]
        first = next((line for line in lines if "error:" in line), lines[0] if lines else "no reason given")
        raise JarError(
            f"{wish.name}: the kit's classes do not compile against its kafka-streams {wish.version} and "
            f"rocksdbjni: {first}"
        )
    return classes


def _see_it_load(wish: Wish, classes: Path) -> None:
    command = [
        "java",
        "-Xmx128m",
        "-cp",
        f"{classes}:{_class_path(wish)}",
        "kedge.LoadCheck",
        wish.main_class,
    ]
    done = _run([*command, *([ROCKSDB_CLASS] if wish.rocksdb else [])])
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("SLF4J")]
        raise JarError(f"{wish.name}: {lines[-1] if lines else 'the check of its classes gave no reason'}")


def _class_path(wish: Wish) -> str:
    return ":".join(str(jar) for jar in wish.jars)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    # A person's own options would end up in the classes, or in the output.
    clean = {
        k: v for k, v in os.environ.items() if k not in ("JAVA_TOOL_OPTIONS", "CLASSPATH", "_JAVA_OPTIONS")
    }
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_CHECK_SECONDS,
            env=clean,
        )
    except FileNotFoundError as error:
        raise JarError(f"{command[0]} is missing on this machine: install a Java development kit") from error
    except subprocess.TimeoutExpired as error:
        raise JarError(f"{command[0]} did not end within {_CHECK_SECONDS} s") from error


def _jar(classes: Path) -> bytes:
    """Return a jar of all classes but the check, which has no business on a node."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            if not path.name.startswith("LoadCheck"):
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(classes)), _DAY), path.read_bytes())
    return buffer.getvalue()


def _key(parts: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(sorted(parts)).encode()).hexdigest()[:16]
