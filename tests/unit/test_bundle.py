"""A bundle is what the locks name, whole, and for this machine; anything else is one line, and changes nothing."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.locked_jars import JarError
from kedge.setup import bundle, environment, jars, packages, phases
from kedge.setup.paths import jar_folder
from kedge.setup.targets import BASE, BUNDLE, OWN_HOSTS, Target

WHEEL, JAR = b"a wheel\n", b"a jar\n"
NAME = "a-1-py3-none-any.whl"
Change = Callable[[dict[str, bytes]], object]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out a tree that locks one wheel and one jar, both at hand, and stop what would set it up."""
    root = tmp_path / "tree"
    (root / "requirements").mkdir(parents=True)
    (root / "locks").mkdir()
    (root / "pyproject.toml").touch()
    digest = hashlib.sha256(WHEEL).hexdigest()
    for name in environment.locks([BASE]):
        (root / name).write_text(f"a==1 \\\n    --hash=sha256:{digest}\n")
    (root / "locks" / "set.lock").write_text(f"g:j:1 {hashlib.sha256(JAR).hexdigest()}\n")
    monkeypatch.setenv("KEDGE_CACHE", str(tmp_path / "cache"))
    jar_folder("set").mkdir(parents=True)
    (jar_folder("set") / "j-1.jar").write_bytes(JAR)

    def download(_names: object, folder: Path) -> None:
        folder.mkdir()
        (folder / NAME).write_bytes(WHEEL)

    monkeypatch.setattr(environment, "download", download)
    for module in (bundle, jars):
        monkeypatch.setattr(module, "LOCKS", root / "locks")
    monkeypatch.setattr(bundle, "PROJECT", root)
    monkeypatch.setattr(bundle, "BUNDLE", Target(jars=("set",)))
    return root


def files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {name: content.read() for name in tar.getnames() if (content := tar.extractfile(name))}


def changed(path: Path, change: Change) -> Path:
    """Pack a bundle's files anew, as `change` leaves them."""
    content = files(path)
    change(content)
    with tarfile.open(path, "w") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def manifest(**values: Any) -> Change:
    return lambda content: content.update(
        {"manifest.json": json.dumps(json.loads(content["manifest.json"]) | values).encode()}
    )


def refused(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Set up from a bundle; return the one line that refuses it, before anything was made."""
    monkeypatch.setattr(phases, "phases", lambda *_: pytest.fail("set-up began"))
    cache = path.parent.parent / "cache"
    before = sorted(cache.rglob("*"))
    assert phases.main(["--bundle", str(path)]) == 2
    assert sorted(cache.rglob("*")) == before
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.process
def test_bundle_has_what_the_locks_name_and_its_checksum_beside_it(tree: Path, tmp_path: Path) -> None:
    made = bundle.make(tmp_path / "dist")
    content = files(made)
    listed = json.loads(content.pop("manifest.json"))["files"]
    assert content == {f"wheels/{NAME}": WHEEL, "jars/set/j-1.jar": JAR}
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    subprocess.run(["sha256sum", "--check", f"{made.name}.sha256"], cwd=made.parent, check=True)
    # It was made for some machine, which is to be told from its name.
    python, machine = bundle._of_this_tree({}).python, bundle._of_this_tree({}).machine
    assert made.name.endswith(f"-python{python}-{machine}.tar")
    first = made.read_bytes()
    assert bundle.make(tmp_path / "dist").read_bytes() == first


@pytest.mark.usefixtures("tree")
def test_unpacked_bundle_is_there_while_it_is_used(tmp_path: Path) -> None:
    made = bundle.make(tmp_path / "dist")
    with bundle.unpacked(made) as folder:
        assert (folder / "wheels" / NAME).read_bytes() == WHEEL
        assert (folder / "jars" / "set" / "j-1.jar").read_bytes() == JAR
    assert not folder.exists()


@pytest.mark.usefixtures("tree")
def test_jars_of_a_bundle_are_taken_without_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bundle.make(tmp_path / "dist")
    monkeypatch.setenv("KEDGE_CACHE", str(tmp_path / "other"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JarError, match=r"Maven \(mvn\) is not installed"):
        jars.make(["set"])
    with bundle.unpacked(made) as folder:
        jars.make(["set"], folder / "jars")
    assert jars.wanting(["set"]) == ""
    assert (jar_folder("set") / "j-1.jar").read_bytes() == JAR


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda content: content.pop("manifest.json"), "no bundle, as its manifest.json cannot be read"),
        (
            lambda content: content.update({"manifest.json": b"{"}),
            "no bundle, as its manifest.json cannot be read",
        ),
        (
            lambda content: content.update({"manifest.json": b'{"files": {}}'}),
            "no bundle, as its manifest.json cannot be read",
        ),
        (manifest(files=["a"]), "no bundle, as its manifest.json cannot be read"),
        (lambda content: content.pop(f"wheels/{NAME}"), f"lacks wheels/{NAME}; make it again"),
        (lambda content: content.pop("jars/set/j-1.jar"), "lacks jars/set/j-1.jar; make it again"),
        (
            lambda content: [content.pop(f"wheels/{NAME}"), content.pop("jars/set/j-1.jar")],
            "lacks jars/set/j-1.jar and 1 more; make it again",
        ),
        (
            lambda content: content.update({f"wheels/{NAME}": b"other\n"}),
            f"wheels/{NAME} is not the file that the locks name: copy the bundle again",
        ),
        (
            lambda content: content.update({"jars/set/j-1.jar": WHEEL}),
            "jars/set/j-1.jar is not the file that the locks name: copy the bundle again",
        ),
        (manifest(python="3.1"), "is for Python 3.1, and this is 3."),
        (manifest(machine="vax"), "is for vax, and this machine is "),
        (manifest(kedge="0.0.1"), "is of Kedge 0.0.1, and this is "),
        (manifest(locks={}), "was made from another requirements.txt, "),
    ],
)
def test_bundle_that_does_not_fit_is_refused_with_the_reason(
    change: Change,
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = changed(bundle.make(tmp_path / "dist"), change)
    assert f"{path}: {line}" in refused(path, capsys, monkeypatch)


def test_bundle_of_a_tree_with_another_lock_names_the_lock(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bundle.make(tmp_path / "dist")
    lock = tree / "locks" / "set.lock"
    lock.write_text(f"{lock.read_text()}g:k:1 {hashlib.sha256(JAR).hexdigest()}\n")
    assert refused(made, capsys, monkeypatch) == (
        f"{made}: was made from another locks/set.lock; make it again with this tree"
    )


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("kept", "line"), [(0, "is no whole tar"), (100, "is no whole tar"), (9000, "is no whole tar")]
)
def test_bundle_that_was_cut_short_is_refused(
    kept: int,
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = changed(bundle.make(tmp_path / "dist"), lambda content: content.update(last=bytes(20_000)))
    path.write_bytes(path.read_bytes()[:kept])
    assert f"{path}: {line}" in refused(path, capsys, monkeypatch)


@pytest.mark.usefixtures("tree")
def test_bundle_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dist" / "bundle.tar"
    assert refused(path, capsys, monkeypatch) == f"{path}: No such file or directory"


@pytest.mark.usefixtures("tree")
def test_nothing_is_written_beside_the_folder_of_a_bundle(tmp_path: Path) -> None:
    name = "wheels/../../../escaped"

    def add(content: dict[str, bytes]) -> None:
        content[name] = WHEEL
        manifest(files={f"wheels/{NAME}": "", name: ""})(content)

    path = changed(bundle.make(tmp_path / "dist"), add)
    with bundle.unpacked(path) as folder:
        assert [file.name for file in (folder / "wheels").iterdir()] == [NAME]
    assert not list(tmp_path.rglob("escaped"))


def test_bundle_is_for_set_up_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert phases.main(["demo", "--bundle", str(tmp_path / "bundle.tar")]) == 2
    assert capsys.readouterr().err == "--bundle brings what 'setup' needs, not 'demo': leave that out\n"


def test_machine_with_a_bundle_needs_java_and_no_maven() -> None:
    programs = packages.programs(BUNDLE)
    assert {"java", "ssh"} <= programs
    assert "mvn" not in programs
    assert set(OWN_HOSTS.jars) <= set(BUNDLE.jars)


@pytest.mark.parametrize("uv_works", [True, False])
def test_packages_come_from_the_bundle_alone(
    uv_works: bool, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PROJECT", tree)
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    (tmp_path / "venv").mkdir()
    called: list[list[str]] = []

    def run(command: list[str], *_rest: object, **_options: object) -> None:
        called.append(command)
        if command[0].endswith("uv") and not uv_works:
            raise environment.Problem("no uv")

    monkeypatch.setattr(environment.children, "run", run)
    environment.make([BASE], lambda line: None, tmp_path / "wheels")
    locked = [command for command in called if "--require-hashes" in command]
    assert {command[0].rpartition("/")[2] for command in locked} == {"python", "uv"}
    for command in locked:
        place = command.index("--find-links")
        assert command[place - 1 : place + 2] == ["--no-index", "--find-links", str(tmp_path / "wheels")]


@pytest.mark.usefixtures("tree")
def test_cached_jar_that_somebody_changed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bundle.make(tmp_path / "dist")
    jar = jar_folder("set") / "j-1.jar"
    jar.write_bytes(b"another\n")
    monkeypatch.setattr(phases, "BUNDLE", Target(requirements=(), jars=("set",), bundled=True))
    assert phases.main(["--bundle", str(made), "--check"]) == 2
    assert capsys.readouterr().err.startswith(f"jar {jar}: checksum is ")
