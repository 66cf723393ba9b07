"""Where jars are fetched from, and that only what is locked is taken."""

from __future__ import annotations

import functools
import hashlib
import http.server
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kedge.deploy.locked_jars import Jar
from kedge.setup import jar_download
from tests.answering import Server

CENTRAL = "https://central/maven2"
MODEL = f"""<project><repositories><repository><id>central</id><url>{CENTRAL}</url></repository></repositories></project>"""
BLOCKER = "<mirror><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url></mirror>"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven with its own settings, and a home without any."""
    for folder in ("bin", "conf", "lib", "home/.m2"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin" / "mvn").write_text("")
    (tmp_path / "bin" / "mvn").chmod(0o755)
    (tmp_path / "conf" / "settings.xml").write_text(
        f'<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>{BLOCKER}</mirrors></settings>'
    )
    with zipfile.ZipFile(tmp_path / "lib" / "maven-model-builder-3.x.jar", "w") as jar:
        jar.writestr("org/apache/maven/model/pom-4.0.0.xml", MODEL)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MAVEN_ARGS", raising=False)
    return tmp_path


def configure(machine: Path, text: str) -> None:
    (machine / "home" / ".m2" / "settings.xml").write_text(f"<settings>{text}</settings>")


def mirror(of: str, url: str) -> str:
    return f"<mirror><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror>"


def test_maven_that_is_not_configured_uses_its_own_repository(machine: Path) -> None:
    assert jar_download.repository() == CENTRAL


@pytest.mark.parametrize("of", ["central", "*", "external:*", "other, central"])
def test_mirror_of_the_person_takes_its_place(machine: Path, of: str) -> None:
    configure(
        machine, f"<mirrors>{mirror('jboss', 'https://no')}{mirror(of, 'https://mirror/m2/')}</mirrors>"
    )
    assert jar_download.repository() == "https://mirror/m2"


def test_mirror_of_all_but_central_does_not(machine: Path) -> None:
    configure(machine, f"<mirrors>{mirror('*,!central', 'https://mirror')}</mirrors>")
    assert jar_download.repository() == CENTRAL


@pytest.mark.parametrize(
    "text",
    [
        f"<mirrors>{mirror('*', 'http://plain')}</mirrors>",
        f"<mirrors>{mirror('*', 'https://${env.HOST}')}</mirrors>",
        "<servers><server><id>central</id><password>p</password></server></servers>",
        "<proxies><proxy><host>p</host></proxy></proxies>",
        "<profiles><profile><repositories/></profile></profiles>",
        "<not closed",
    ],
)
def test_what_takes_more_than_an_address_is_left_to_maven(machine: Path, text: str) -> None:
    configure(machine, text)
    assert jar_download.repository() is None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    with Server(functools.partial(Quiet, directory=folder)) as server:
        yield server.url, folder


def test_jars_are_taken_where_they_are_as_locked_and_left_where_not(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    address, folder = served
    sha256 = hashlib.sha256(b"right").hexdigest()
    right, wrong, absent = (Jar("org.g", name, "1", "", sha256) for name in ("right", "wrong", "absent"))
    for jar in (right, wrong):
        (folder / "org/g" / jar.artifact / "1").mkdir(parents=True)
        (folder / "org/g" / jar.artifact / "1" / jar.file_name).write_bytes(jar.artifact.encode())
    one, two = tmp_path / "one", tmp_path / "two"
    jar_download.fetch({one: [right, wrong, absent], two: [right]}, address)
    assert [path.name for path in one.iterdir()] == ["right-1.jar"]
    assert (two / "right-1.jar").read_bytes() == b"right"


def test_repository_that_does_not_answer_leaves_all_to_maven(tmp_path: Path) -> None:
    jar_download.fetch({tmp_path / "one": [Jar("g", "a", "1", "", "0" * 64)]}, "http://127.0.0.1:1")
    assert list((tmp_path / "one").iterdir()) == []
