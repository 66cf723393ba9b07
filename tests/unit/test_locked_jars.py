from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy import locked_jars, streams_jars
from kedge.deploy.locked_jars import Jar, JarError
from kedge.setup.paths import LOCKS


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_lock(folder: Path, contents: dict[str, bytes]) -> Path:
    lock = folder / "set-1.0.lock"
    lines = [f"{coordinate} {digest(content)}" for coordinate, content in contents.items()]
    lock.write_text("\n".join(["# a comment", "", *lines]) + "\n")
    return lock


def repository_with(monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]) -> list[str]:
    """Stands in for Maven: serves `contents` by file name, and notes what was asked for."""
    asked: list[str] = []

    def fetch(_arguments: object, pom: Path) -> None:
        for name, content in contents.items():
            if f"<artifactId>{name.split('-')[0]}</artifactId>" in pom.read_text():
                asked.append(name)
                (pom.parent / name).write_bytes(content)

    monkeypatch.setattr(locked_jars, "run_maven", fetch)
    return asked


def test_lock_lists_jars_with_their_file_names(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:b:2": b"b", "g:a:1:linux-x86_64": b"a"})
    assert [jar.file_name for jar in locked_jars.read_lock(lock)] == ["a-1-linux-x86_64.jar", "b-2.jar"]


@pytest.mark.parametrize(
    "line",
    ["g:a:1", "g:a " + "0" * 64, "g:a:1 " + "0" * 63, "g:a:1 " + "X" * 64, "g:a:1:c:more " + "0" * 64],
)
def test_wrong_line_of_a_lock_is_named(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "set.lock"
    lock.write_text(f"# first\n{line}\n")
    with pytest.raises(JarError, match=r"set\.lock:2: expected"):
        locked_jars.read_lock(lock)


def test_jar_listed_twice_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "set.lock"
    lock.write_text(f"g:a:1 {'0' * 64}\nother:a:1 {'1' * 64}\n")
    with pytest.raises(JarError, match=r"a-1\.jar is listed twice"):
        locked_jars.read_lock(lock)


def test_lock_that_is_absent_or_empty_is_told(tmp_path: Path) -> None:
    with pytest.raises(JarError, match="cannot be read"):
        locked_jars.read_lock(tmp_path / "none.lock")
    (tmp_path / "empty.lock").write_text("# nothing\n")
    with pytest.raises(JarError, match="lists no jar"):
        locked_jars.read_lock(tmp_path / "empty.lock")


def test_key_follows_the_jars_not_the_comments(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a"})
    key = locked_jars.lock_key(lock)
    lock.write_text("# another comment\n" + lock.read_text())
    assert locked_jars.lock_key(lock) == key
    write_lock(tmp_path, {"g:a:1": b"other"})
    assert locked_jars.lock_key(lock) != key


def test_only_missing_jars_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a", "g:b:1": b"b"})
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "a-1.jar").write_bytes(b"a")
    asked = repository_with(monkeypatch, {"a-1.jar": b"a", "b-1.jar": b"b"})
    assert locked_jars.resolve(lock, folder) == ["b-1.jar"]
    assert asked == ["b-1.jar"]
    assert (folder / "b-1.jar").read_bytes() == b"b"
    assert locked_jars.resolve(lock, folder) == []


def test_check_mode_tells_and_changes_nothing(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a"})
    assert locked_jars.resolve(lock, tmp_path / "jars", check=True) == ["a-1.jar"]
    assert not (tmp_path / "jars").exists()


def test_fetched_jar_with_another_checksum_is_refused_and_not_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a", "g:b:1": b"b"})
    repository_with(monkeypatch, {"a-1.jar": b"tampered", "b-1.jar": b"b"})
    with pytest.raises(JarError) as refused:
        locked_jars.resolve(lock, tmp_path / "jars")
    assert "jar g:a:1: checksum is " + digest(b"tampered") in str(refused.value)
    assert "says " + digest(b"a") in str(refused.value)
    assert "delete ~/.m2/repository/g/a/1" in str(refused.value)
    assert list((tmp_path / "jars").iterdir()) == []


def test_present_jar_with_another_checksum_is_refused_and_named(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a"})
    (tmp_path / "a-1.jar").write_bytes(b"tampered")
    with pytest.raises(
        JarError, match=rf"jar {tmp_path}/a-1\.jar: checksum is {digest(b'tampered')}.*delete it"
    ):
        locked_jars.resolve(lock, tmp_path)


def test_jar_of_another_version_does_not_stay_beside_the_set(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:a:2": b"a"})
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "a-2.jar").write_bytes(b"a")
    (folder / "a-1.jar").write_bytes(b"old")
    assert locked_jars.resolve(lock, folder) == ["a-1.jar"]
    assert [path.name for path in folder.iterdir()] == ["a-2.jar"]


def test_archive_has_the_same_bytes_from_another_folder(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a", "g:b:1": b"b"})
    packed = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        for file, content in (("b-1.jar", b"b"), ("a-1.jar", b"a")):
            (folder / file).write_bytes(content)
        packed.append(locked_jars.archive(lock, folder, tmp_path / f"archives-{name}"))
    assert packed[0].read_bytes() == packed[1].read_bytes()
    with tarfile.open(packed[0]) as tar:
        assert tar.getnames() == ["a-1.jar", "b-1.jar"]
    assert locked_jars.lock_key(lock) in packed[0].name


def changed(content: bytes = b"a", **attributes: Any) -> bytes:
    """Return an archive of one jar, as it should be but for what is said."""
    member = tarfile.TarInfo("a-1.jar")
    member.mode, member.size = 0o644, len(content)
    for name, value in attributes.items():
        setattr(member, name, value)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no tar",
        changed()[:700],
        changed(b"tampered"),
        changed(name="b-1.jar"),
        changed(name="../a-1.jar"),
        changed(mode=0o4755),
        changed(uid=1000),
        changed(b"", type=tarfile.SYMTYPE, linkname="/etc/shadow"),
        changed(b"", type=tarfile.LNKTYPE, linkname="a-1.jar"),
    ],
)
def test_a_packed_set_that_was_changed_in_the_cache_is_packed_again(tmp_path: Path, content: bytes) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a"})
    (tmp_path / "a-1.jar").write_bytes(b"a")
    packed = locked_jars.archive(lock, tmp_path, tmp_path / "archives")
    first = packed.read_bytes()
    packed.write_bytes(content)
    assert not locked_jars.holds(packed, {"a-1.jar": digest(b"a")})
    assert locked_jars.archive(lock, tmp_path, tmp_path / "archives").read_bytes() == first
    written = packed.stat().st_mtime_ns
    assert locked_jars.archive(lock, tmp_path, tmp_path / "archives").stat().st_mtime_ns == written


def test_a_packed_set_with_one_file_more_is_packed_again(tmp_path: Path) -> None:
    lock = write_lock(tmp_path, {"g:a:1": b"a"})
    (tmp_path / "a-1.jar").write_bytes(b"a")
    packed = locked_jars.archive(lock, tmp_path, tmp_path / "archives")
    for name, content in (("b-1.jar", b"b"), ("a-1.jar", b"a")):
        with tarfile.open(packed, "a") as tar:
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o644, len(content)
            tar.addfile(member, io.BytesIO(content))
        assert not locked_jars.holds(packed, {"a-1.jar": digest(b"a")})
        locked_jars.archive(lock, tmp_path, tmp_path / "archives")
        assert locked_jars.holds(packed, {"a-1.jar": digest(b"a")})


def test_what_is_made_here_is_held_against_what_it_was_then(tmp_path: Path) -> None:
    made = tmp_path / "kit.tar"
    assert not locked_jars.is_as_made(made)
    made.write_bytes(b"a")
    assert not locked_jars.is_as_made(made)
    locked_jars.note_digest(made)
    assert locked_jars.is_as_made(made)
    made.write_bytes(b"b")
    assert not locked_jars.is_as_made(made)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "[ERROR] Failed: Could not find artifact g:a:jar:9 in central (https://x)",
            "jar g:a:jar:9 is in no repository of your Maven settings; choose a version that is published",
        ),
        (
            "[ERROR] Unable to resolve. g:a:jar:9 was not found in https://x during a previous attempt.",
            "jar g:a:jar:9 is in no repository of your Maven settings; choose a version that is published",
        ),
        (
            "[ERROR] Could not transfer artifact g:a:jar:1 from/to central: Connect timed out",
            "jar g:a:jar:1 could not be fetched: Connect timed out; see ~/.m2/settings.xml and the network",
        ),
        ("\x1b[31m[ERROR]\x1b[m No compiler\nmore", "Maven failed: No compiler"),
        ("", "Maven failed: no output"),
    ],
)
def test_maven_trouble_becomes_one_line(output: str, reason: str) -> None:
    assert locked_jars.maven_reason(output) == reason


def test_missing_maven_is_told_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarError, match="apt-get install maven"):
        locked_jars.run_maven(["x"], tmp_path / "pom.xml")


def test_listing_of_maven_is_read_with_classifiers_and_modules() -> None:
    text = (
        "The following files have been resolved:\n"
        "   g:a:jar:1:compile:/m2/a-1.jar -- module a (auto)\n"
        "   g:n:jar:linux:2:runtime:/m2/n-2-linux.jar\n"
        "   g:p:pom:1:compile:/m2/p-1.pom\n"
    )
    assert locked_jars.parse_listing(text) == [
        (Jar("g", "a", "1"), Path("/m2/a-1.jar")),
        (Jar("g", "n", "2", "linux"), Path("/m2/n-2-linux.jar")),
    ]


@pytest.mark.parametrize("text", ["g:a", "g:a:1:c:d", "g::1", ""])
def test_text_that_is_no_coordinate_is_refused(text: str) -> None:
    with pytest.raises(JarError, match="is no coordinate"):
        locked_jars.parse_coordinate(text)


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.lock")), ids=lambda lock: lock.stem)
def test_locks_of_this_project_can_be_read(lock: Path) -> None:
    listed = locked_jars.read_lock(lock)
    assert len({(jar.group, jar.artifact, jar.classifier) for jar in listed}) == len(listed)


def test_a_jar_for_an_application_has_its_classes_without_the_check_of_them(tmp_path: Path) -> None:
    for name in ("Bounds", "LoadCheck", "LoadCheck$1"):
        (tmp_path / "kedge").mkdir(exist_ok=True)
        (tmp_path / "kedge" / f"{name}.class").write_bytes(name.encode())
    with zipfile.ZipFile(io.BytesIO(streams_jars._jar(tmp_path))) as jar:
        assert {name: jar.read(name) for name in jar.namelist()} == {"kedge/Bounds.class": b"Bounds"}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mvn"), reason="Maven is not installed")
def test_version_that_was_never_published_is_told_by_maven(tmp_path: Path) -> None:
    lock = tmp_path / "set.lock"
    lock.write_text(f"org.slf4j:slf4j-api:0.0.0-never {'0' * 64}\n")
    with pytest.raises(JarError, match=r"org\.slf4j:slf4j-api:jar:0\.0\.0-never is in no repository"):
        locked_jars.resolve(lock, tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mvn"), reason="Maven is not installed")
def test_jar_that_maven_serves_is_refused_under_another_checksum(tmp_path: Path) -> None:
    lock = tmp_path / "set.lock"
    lock.write_text(f"org.slf4j:slf4j-api:1.7.36 {'0' * 64}\n")
    with pytest.raises(
        JarError, match=r"jar org\.slf4j:slf4j-api:1\.7\.36: checksum is d3ef575e3e.*says 0{64}"
    ):
        locked_jars.resolve(lock, tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []
