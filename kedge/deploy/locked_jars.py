"""Jar sets: a locked list of jars, made present and proven in one flat folder.

A lock is a text file: comments, then `group:artifact:version[:classifier] sha256` a line, with transitives.
Jars come through Maven, so that the mirrors and proxies of the user's own settings.xml serve here as well.
Standard library only: set-up runs this before there is any virtual environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_MODE = 0o644
_LINE = re.compile(r"(?P<coordinate>[^\s:]+:[^\s:]+:[^\s:]+(?::[^\s:]+)?)\s+(?P<sha256>[0-9a-f]{64})")


class JarError(Exception):
    """A jar set that cannot be made present; the message is one line for the user."""


@dataclass(frozen=True, order=True)
class Jar:
    """One jar of a set; `classifier` is empty for the main jar."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    sha256: str = ""

    @property
    def coordinate(self) -> str:
        """`group:artifact:version[:classifier]`, as in a lock."""
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)

    @property
    def file_name(self) -> str:
        """The name that Maven gives the file."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"


def parse_coordinate(text: str, sha256: str = "") -> Jar:
    """Read `group:artifact:version[:classifier]`; raises JarError where it is none."""
    parts = text.split(":")
    if len(parts) not in (3, 4) or not all(parts):
        raise JarError(
            f"{text!r} is no coordinate: write group:artifact:version or group:artifact:version:classifier"
        )
    return Jar(parts[0], parts[1], parts[2], parts[3] if len(parts) == 4 else "", sha256)


def read_lock(lock: Path) -> tuple[Jar, ...]:
    """Read the jars of a lock file; raises JarError with the line that is wrong."""
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise JarError(f"jar lock {lock} cannot be read: {error.strerror}") from error
    jars: dict[str, Jar] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise JarError(
                f"{lock}:{number}: expected 'group:artifact:version sha256', found {line.strip()!r}"
            )
        jar = parse_coordinate(match["coordinate"], match["sha256"])
        if jar.file_name in jars:
            raise JarError(f"{lock}:{number}: {jar.file_name} is listed twice; keep one of them")
        jars[jar.file_name] = jar
    if not jars:
        raise JarError(f"jar lock {lock} lists no jar")
    return tuple(sorted(jars.values()))


def lock_key(lock: Path) -> str:
    """A short name for exactly these jars: it changes with any version or checksum."""
    listing = "\n".join(f"{jar.coordinate} {jar.sha256}" for jar in read_lock(lock))
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def sha256_of(path: Path) -> str:
    """The checksum of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def missing(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    """The jars that `folder` lacks; raises JarError for one that is there with another content."""
    absent = []
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            absent.append(jar)
        elif (found := sha256_of(path)) != jar.sha256:
            raise JarError(
                f"jar {path}: checksum is {found}, lock says {jar.sha256}; delete it, and it is fetched anew"
            )
    return absent


def strangers(jars: Iterable[Jar], folder: Path) -> list[Path]:
    """Jars in `folder` that are not of the set: an older version there would shadow the right one."""
    expected = {jar.file_name for jar in jars}
    return sorted(path for path in folder.glob("*.jar") if path.name not in expected)


def resolve(lock: Path, folder: Path, *, check: bool = False) -> list[str]:
    """Make `folder` hold exactly the jars of `lock`; return the file names that were added or removed.

    With `check` nothing is changed. Raises JarError where a jar cannot be had or is not what the lock says;
    then the folder holds no wrong jar.
    """
    jars = read_lock(lock)
    absent = missing(jars, folder)
    surplus = strangers(jars, folder)
    changed = sorted([jar.file_name for jar in absent] + [path.name for path in surplus])
    if check or not changed:
        return changed
    folder.mkdir(parents=True, exist_ok=True)
    if absent:
        _fetch(absent, folder, lock)
    for path in surplus:
        path.unlink()
    return changed


def _fetch(jars: Sequence[Jar], folder: Path, lock: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as name:
        fetched = Path(name)
        pom = fetched / "pom.xml"
        pom.write_text(copy_pom(jars, fetched), encoding="utf-8")
        run_maven([f"{DEPENDENCY_PLUGIN}:copy"], pom)
        for jar in jars:
            found = sha256_of(fetched / jar.file_name)
            if found != jar.sha256:
                raise JarError(
                    f"jar {jar.coordinate}: checksum is {found}, {lock} says {jar.sha256}; "
                    f"delete {_in_repository(jar)} and run again; if it comes back the same, "
                    "the repository serves another file than the one that was locked"
                )
        for jar in jars:
            (fetched / jar.file_name).replace(folder / jar.file_name)


def _in_repository(jar: Jar) -> str:
    return f"~/.m2/repository/{jar.group.replace('.', '/')}/{jar.artifact}/{jar.version}"


def _elements(jar: Jar) -> str:
    named = {"groupId": jar.group, "artifactId": jar.artifact, "version": jar.version}
    named |= {"classifier": jar.classifier} if jar.classifier else {}
    return "".join(f"<{name}>{escape(value)}</{name}>" for name, value in named.items())


def copy_pom(jars: Iterable[Jar], target: Path) -> str:
    """A project whose dependency:copy puts exactly `jars`, without transitives, into `target`."""
    items = "".join(f"<artifactItem>{_elements(jar)}</artifactItem>" for jar in jars)
    group, artifact, version = DEPENDENCY_PLUGIN.split(":")
    return project_pom(
        f"<build><plugins><plugin><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><configuration><outputDirectory>{escape(str(target))}</outputDirectory>"
        f"<artifactItems>{items}</artifactItems></configuration></plugin></plugins></build>"
    )


def project_pom(body: str) -> str:
    """The least Maven project around `body`."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kedge</groupId>'
        f"<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>{body}</project>\n"
    )


def run_maven(arguments: Sequence[str], pom: Path) -> None:
    """Run Maven on `pom`; raises JarError with Maven's own reason in one line."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise JarError("Maven (mvn) is not installed: apt-get install maven")
    # -U: Maven remembers what was absent once, and would not ask again for a day.
    command = [mvn, "-q", "-B", "-U", "-f", str(pom), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JarError(maven_reason(done.stdout + done.stderr))


def maven_reason(output: str) -> str:
    """What went wrong, in one line, from Maven's output."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    absent = re.search(r"(?:Could not find artifact (\S+)|(\S+) was not found in)", output)
    if absent:
        name = absent[1] or absent[2]
        return f"jar {name} is in no repository of your Maven settings; choose a version that is published"
    transfer = re.search(r"Could not transfer artifact (\S+) from/to ([^:]+): (.+)", output)
    if transfer:
        reason = transfer[3].strip()
        return f"jar {transfer[1]} could not be fetched: {reason}; see ~/.m2/settings.xml and the network"
    first = next((line for line in output.splitlines() if "[ERROR]" in line), output.strip() or "no output")
    return "Maven failed: " + first.replace("[ERROR]", "").strip()


def archive_path(lock: Path, archives: Path) -> Path:
    """Where `archive` puts the set of `lock`."""
    return archives / f"{lock.stem}-{lock_key(lock)}.tar"


def archive(lock: Path, folder: Path, archives: Path) -> Path:
    """Pack a resolved set as one tar, so that a node gets it in one transfer; return its path.

    The name carries the lock's key and the bytes depend on the jars alone. One that exists is looked into:
    what lies in a cache may have been changed since.
    """
    jars = read_lock(lock)
    path = archive_path(lock, archives)
    if not holds(path, {jar.file_name: jar.sha256 for jar in jars}):
        pack(path, {jar.file_name: folder / jar.file_name for jar in jars})
    return path


def holds(tarball: Path, files: Mapping[str, str]) -> bool:
    """Whether a tar has exactly these files, name to SHA-256, as `pack` writes them."""
    try:
        with tarfile.open(tarball, "r:") as tar:
            found = {}
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or member.mode != _MODE or (member.uid, member.gid) != (0, 0):
                    return False
                if member.name in found:
                    return False
                found[member.name] = hashlib.sha256(content.read()).hexdigest()
    except (OSError, tarfile.TarError):
        return False
    return found == dict(files)


def pack(tarball: Path, files: Mapping[str, Path]) -> None:
    """Pack files under their names as one tar, whose bytes depend on them alone."""
    tarball.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".archive-", dir=tarball.parent)
    try:
        with (
            os.fdopen(handle, "wb") as file,
            tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for arcname, path in sorted(files.items()):
                tar.add(path, arcname=arcname, filter=without_history)
        Path(name).replace(tarball)
    finally:
        Path(name).unlink(missing_ok=True)


def note_digest(made: Path) -> None:
    """Write down beside a file of the cache what it holds, which no lock says."""
    _digest_of(made).write_text(sha256_of(made) + "\n", encoding="utf-8")


def is_as_made(made: Path) -> bool:
    """Whether a file of the cache holds what it held when it was made."""
    try:
        return sha256_of(made) == _digest_of(made).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return False


def _digest_of(made: Path) -> Path:
    return made.with_name(f"{made.name}.sha256")


def without_history(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Have an archive's bytes depend on its files alone: no times, no owners."""
    member.mtime, member.mode = 0, _MODE
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def lock_text(coordinates: Sequence[str], without: Sequence[str], command: str) -> str:
    """Resolve `coordinates` with their runtime transitives and return the text of a lock.

    `without` names `group:artifact` that something else brings. `command` is noted, to make it again.
    """
    wanted = [parse_coordinate(text) for text in coordinates]
    with tempfile.TemporaryDirectory(prefix="kedge-lock-") as name:
        pom, listing = Path(name) / "pom.xml", Path(name) / "jars.txt"
        dependencies = "".join(f"<dependency>{_elements(jar)}</dependency>" for jar in wanted)
        pom.write_text(project_pom(f"<dependencies>{dependencies}</dependencies>"), encoding="utf-8")
        run_maven(
            [
                f"{DEPENDENCY_PLUGIN}:list",
                "-DincludeScope=runtime",
                "-DoutputAbsoluteArtifactFilename=true",
                f"-DoutputFile={listing}",
            ],
            pom,
        )
        found = parse_listing(listing.read_text(encoding="utf-8"))
    lines = sorted(
        f"{jar.coordinate} {sha256_of(path)}"
        for jar, path in found
        if f"{jar.group}:{jar.artifact}" not in without
    )
    return (
        "\n".join(
            [f"# Made by: {command}", "# Each line: group:artifact:version[:classifier] sha256", *lines]
        )
        + "\n"
    )


def parse_listing(text: str) -> list[tuple[Jar, Path]]:
    """Read dependency:list with absolute file names: each jar and where it lies."""
    found = []
    for line in text.splitlines():
        # group:artifact:jar[:classifier]:version:scope:/path, sometimes followed by the module's name
        parts = line.strip().split(" -- ")[0].split(":")
        if len(parts) not in (6, 7) or parts[2] != "jar":
            continue
        classifier = parts[3] if len(parts) == 7 else ""
        found.append((Jar(parts[0], parts[1], parts[-3], classifier), Path(parts[-1].strip())))
    return found
