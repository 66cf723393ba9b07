"""The archives that services are installed from: downloads them, and checks each against its checksum."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedge.plan.findings import Finding, Severity, Subject
from kedge.plan.hosts import Inventory
from kedge.plan.service import Service

#: What inventories/example has where a person's own checksum belongs.
_PLACEHOLDER: Final = "0" * 64
_ALGORITHM: Final = "sha256:"
_DOWNLOAD_TIMEOUT_S: Final = 60
#: Keys that name classes, and a class as they name it; Java has its own in any case.
_CLASS_KEY: Final = re.compile(r"\b(class|classes|reporters|(de)?serializer|jaas\.config)$")
_CLASS: Final = re.compile(r"(?!javax?[.]|sun[.]|com[.]sun[.])([a-z_]\w*[.]){2,}[A-Z][\w$]*")


def archives(inventory: Inventory, services: Iterable[Service]) -> dict[str, str]:
    """Return the archives that hosts are installed from, each with the SHA-256 that is asked for, or ''."""
    return {one.path: one.wanted for one in _named(inventory, services)}


def is_url(path: str) -> bool:
    """Return whether an archive is fetched, and not a file of the machine that runs Ansible."""
    return path.startswith(("https://", "http://", "file://"))


def file_of(path: str, wanted: str, folder: str) -> str:
    """Return where an archive lies here; what a URL names is in ``folder``, by its checksum."""
    return f"{folder}/{wanted[:16]}-{path.rpartition('/')[2]}" if is_url(path) else path


def read_archives(
    inventory: Inventory, services: Sequence[Service], *, fetch: bool = False
) -> dict[str, str | None]:
    """Return the archives that hosts are installed from, each with its SHA-256 or, not there, None.

    With ``fetch`` those that are named by a URL are fetched; else only what was fetched before is read.
    """
    found: dict[str, str | None] = {}
    for path, file in archive_files(inventory, services).items():
        if fetch and is_url(path) and not file.exists():
            _download(path, file)
        found[path] = _checksum(file)
    return found


def archive_files(inventory: Inventory, services: Sequence[Service]) -> dict[str, Path]:
    """Return the archives that hosts are installed from, each with its file on this machine."""
    cache = os.environ.get("KEDGE_CACHE") or "~/.cache/kedge"
    return {
        path: Path(file_of(path, wanted, f"{cache}/downloads")).expanduser()
        for path, wanted in archives(inventory, services).items()
    }


def _download(url: str, file: Path) -> None:
    """Download a file beside its place and rename it; one that cannot be had is not there afterwards."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_TIMEOUT_S) as answer, part.open("wb") as to:  # noqa: S310 - the user's
            shutil.copyfileobj(answer, to)
        part.replace(file)
    except (OSError, ValueError):
        part.unlink(missing_ok=True)


def _checksum(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def bytes_unpacked(file: str | Path) -> int:
    """Return what an archive takes on a host: its copy, and what is in it; 0 where it is not there.

    gzip says that of up to 4 GiB; of other compressions it is taken as four times the archive.
    """
    try:
        with Path(file).expanduser().open("rb") as archive:
            gzip = archive.read(2) == b"\x1f\x8b"
            size = archive.seek(0, os.SEEK_END)
            archive.seek(-min(4, size), os.SEEK_END)
            holds = int.from_bytes(archive.read(), "little")
    except OSError:
        return 0
    return size + (holds if gzip else size if str(file).endswith(".tar") else 4 * size)


def unpacks(
    inventory: Inventory, services: Sequence[Service], found: Mapping[str, str | None]
) -> dict[str, dict[str, int]]:
    """Return host to the folders of the archives that it is installed from, each with the bytes it takes."""
    files = archive_files(inventory, services)
    taken: dict[str, dict[str, int]] = {}
    for one in _named(inventory, services):
        if (has := found.get(one.path)) and one.path.endswith((".tar", ".tgz", ".tar.gz")):
            # A folder is named after its archive's checksum.
            taken.setdefault(one.host, {})[f"/opt/kedge/*-{has[:16]}"] = bytes_unpacked(files[one.path])
    return taken


def check_archives(
    inventory: Inventory,
    services: Iterable[Service],
    found: Mapping[str, str | None] | None,
    *,
    deploying: bool = False,
) -> Iterator[Finding]:
    """Find archives that a deploy would stop at.

    ``found`` is what the machine that runs Ansible has: archive -> its SHA-256, empty where it was not read,
    None where it is not there; None where nobody looked. That an archive is not there is an error when
    ``deploying``, and else a warning: a plan can be reviewed anywhere.
    """
    for one in _named(inventory, services):
        path, wanted = one.path, one.wanted
        if wanted == _PLACEHOLDER:
            yield one.finding(
                "error" if deploying else "warning",
                one.checksum,
                f"{one.checksum} is the example's placeholder of zeros, which no archive has: a deploy would "
                "stop",
                f"write what sha256sum prints for {path}, if its publisher says the same",
            )
        elif is_url(path) and not wanted:
            yield one.finding(
                "error",
                one.checksum,
                f"{one.variable} is the URL {path}, and {one.checksum} is missing: nothing would tell what "
                "was fetched",
                "write the SHA-256 that its publisher gives",
            )
            continue
        if found is None:
            continue
        has = found.get(path)
        if has is None and is_url(path):
            if deploying and wanted != _PLACEHOLDER:
                yield one.finding(
                    "error",
                    one.variable,
                    f"{one.variable} could not be fetched from {path}",
                    "correct the URL, or fetch it yourself and name the file",
                )
        elif has is None:
            yield one.finding(
                "error" if deploying else "warning",
                one.variable,
                f"{one.variable} is {path}, which is not on this machine: a deploy from here would stop",
                "put the archive there, or correct the path; it is read where Ansible runs, and not on the "
                "hosts",
            )
        elif has and wanted not in ("", _PLACEHOLDER, has):
            yield one.finding(
                "error",
                one.checksum,
                f"{one.checksum} is {wanted}, and {path} has {has}",
                "fetch the archive again and compare it with what its publisher says; correct the checksum "
                "only then",
            )


def look_at_classes(inventory: Inventory, services: Sequence[Service]) -> Iterator[Finding]:
    """Find classes that settings name and that no jar of the archive has, where the archive is here.

    With a CLASSPATH of one's own, classes may come from anywhere.
    """
    files, known = archive_files(inventory, services), dict[Path, frozenset[str]]()
    for service in services:
        for one in _named(inventory, [service]):
            name = f"{service.name}_settings"
            own = inventory.hosts[one.host].get(name)
            if not isinstance(own, Mapping) or "CLASSPATH" in own:
                continue
            for key, value in own.items():
                words = str(value).replace(",", " ").split() if _CLASS_KEY.search(str(key)) else []
                if not (wanted := [word for word in words if _CLASS.fullmatch(word)]):
                    continue
                file = files[one.path]
                has = known[file] if file in known else known.setdefault(file, _classes(file))
                for missing in [word for word in wanted if has and word not in has]:
                    yield one.finding(
                        "error",
                        f"{name}.{key}",
                        f"{name}.{key} names {missing}, which no jar of {one.path} has: "
                        "the instance would not start",
                        f"take it out, name its jar as CLASSPATH in {name}, or take an archive that has it",
                    )


def _classes(archive: Path) -> frozenset[str]:
    """Return the classes in the jars of an archive; none where it is not here or no tar archive."""
    found: set[str] = set()
    try:
        with tarfile.open(archive, "r|*") as packed:
            for member in packed:
                if member.isfile() and member.name.endswith(".jar") and (jar := packed.extractfile(member)):
                    found |= set(zipfile.ZipFile(io.BytesIO(jar.read())).namelist())
    except (OSError, tarfile.TarError, zipfile.BadZipFile):
        return frozenset()
    return frozenset(one.removesuffix(".class").replace("/", ".") for one in found if one.endswith(".class"))


@dataclass(frozen=True)
class _Archive:
    """An archive or jar of a host: the variables that name it and its checksum, and what they say."""

    host: str
    variable: str
    checksum: str
    path: str
    wanted: str

    def finding(self, severity: Severity, variable: str, message: str, fix: str) -> Finding:
        return Finding(
            severity, "inventory.archive", f"{self.host}: {variable}", message, fix, Subject(variable)
        )


def _named(inventory: Inventory, services: Iterable[Service]) -> Iterator[_Archive]:
    for service in services:
        for host in service.hosts(inventory):
            for variable, checksum, path, wanted in service.archives(inventory.hosts[host]):
                digest = wanted or ""
                if isinstance(path, str) and isinstance(digest, str) and path:
                    digest = digest.lower().removeprefix(_ALGORITHM)
                    yield _Archive(host, variable, checksum, path, digest)
