"""The kit's classes for a Streams application, built against real jars: what fits, and what is refused."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.locked_jars import JarError
from kedge.deploy.streams_jars import Wish, application_jars, build_kit
from kedge.services.planning import make_plan
from kedge.setup.paths import LOCKS, cache_root
from tests.planned import instances, streams

pytestmark = pytest.mark.process

LOCK = LOCKS / "kafka-streams-4.3.1.lock"


@pytest.fixture
def wish() -> Wish:
    """What would be built for an application whose main class is one of Kafka's own."""
    (instance,) = instances(make_plan(streams()), "streams_app")["st1"]
    settings: list[dict[str, Any]] = [
        asdict(s) for s in instance.settings if s.file.endswith("/rocksdb.properties")
    ]
    jars = application_jars([], LOCK, cache_root(), fetch=True)
    return Wish("joins", "4.3.1", "org.apache.kafka.common.utils.AppInfoParser", jars, settings, 17)


def refused(wish: Wish, cache: Path) -> str:
    with pytest.raises(JarError) as error:
        build_kit(wish, cache, write=True)
    assert "\n" not in str(error.value)
    assert not list(cache.rglob("*.tar")), "nothing may be left that a deployment would take"
    return str(error.value)


def test_a_main_class_that_no_jar_holds_is_refused(wish: Wish, tmp_path: Path) -> None:
    assert "no jar holds the main class a.B" in refused(replace(wish, main_class="a.B"), tmp_path)


def test_a_class_that_does_not_compile_is_refused_with_the_line(wish: Wish, tmp_path: Path) -> None:
    settings = [dict(s) | ({"value": "NONE"} if s["key"] == "compression" else {}) for s in wish.rocksdb]
    message = refused(replace(wish, rocksdb=settings), tmp_path)
    assert "do not compile" in message
    assert "BoundedRocksDb.java:" in message


def test_a_rocksdbjni_without_a_library_for_this_machine_is_refused(wish: Wish, tmp_path: Path) -> None:
    whole = next(jar for jar in wish.jars if jar.name.startswith("rocksdbjni"))
    other = tmp_path / whole.name
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(other, "w") as target:
        for entry in source.namelist():
            if entry.endswith(".class"):
                target.writestr(entry, source.read(entry))
    jars = [other if jar == whole else jar for jar in wish.jars]
    main = replace(wish, main_class="kedge.LoadCheck", jars=jars)
    assert "was not found inside JAR" in refused(main, tmp_path / "cache")


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("org/rocksdb/WriteBufferManager.class", "BoundedRocksDb.java:"),
        ("org/rocksdb/ColumnFamilyHandle.class", "org.rocksdb.ColumnFamilyHandle"),
    ],
    ids=["the class needs what it lacks", "kafka-streams needs what it lacks"],
)
def test_a_rocksdbjni_that_lacks_what_is_used_is_refused(
    wish: Wish, tmp_path: Path, without: str, said: str
) -> None:
    """An archive cut down by hand stands for a release that is too old."""
    whole = next(jar for jar in wish.jars if jar.name.startswith("rocksdbjni"))
    other = tmp_path / whole.name
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(other, "w") as target:
        for entry in source.namelist():
            if entry != without and (entry.endswith(".class") or "linux64.so" in entry):
                target.writestr(entry, source.read(entry))
    jars = [other if jar == whole else jar for jar in wish.jars]
    assert said in refused(replace(wish, main_class="kedge.LoadCheck", jars=jars), tmp_path / "cache")


def test_another_version_than_planned_is_refused(wish: Wish, tmp_path: Path) -> None:
    assert "holds kafka-streams 4.3.1, streams_app_version says 4.2.0" in refused(
        replace(wish, version="4.2.0"), tmp_path
    )


def test_a_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    jar = tmp_path / "app.jar"
    jar.write_bytes(b"another")
    with pytest.raises(JarError, match="streams_app_jars says 000"):
        application_jars([{"path": str(jar), "sha256": "0" * 64}], None, tmp_path, fetch=False)


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler here")
def test_what_was_built_depends_on_the_bound(wish: Wish, tmp_path: Path) -> None:
    main = replace(wish, main_class="kedge.LoadCheck")
    first = build_kit(main, tmp_path, write=True)
    assert first.tarball.is_file()
    settings = [
        dict(s) | ({"value": "1073741824"} if s["key"] == "cache.bytes" else {}) for s in wish.rocksdb
    ]
    assert build_kit(replace(main, rocksdb=settings), tmp_path, write=False).key != first.key
