from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
import pytest

from kedge.setup import environment, jars, packages, schedule
from kedge.setup.packages import Package
from kedge.setup.paths import PROJECT, cache_root
from kedge.setup.problem import Problem
from kedge.setup.schedule import Say, SetupPart
from kedge.setup.targets import AUDIT, BASE, BENCH, FUZZ, LINT, OWN_HOSTS, S3A, TARGETS, TESTS
from lab.fleet import node_image
from lab.services import prometheus


def phase(
    name: str, made: list[str], wanting: str = "makes it", megabytes: int = 0, after: tuple[str, ...] = ()
) -> SetupPart:
    return SetupPart(name, lambda: wanting, lambda _: made.append(name), [(PROJECT, megabytes)], after)


def failing(name: str, problem: Exception, after: tuple[str, ...] = ()) -> SetupPart:
    def fail(_say: Say) -> None:
        raise problem

    return SetupPart(name, lambda: "fails", fail, after=after)


def test_downloads_are_kept_in_the_home_unless_another_folder_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    for named, root in (("", "/home/anna/.cache/kedge"), ("~/kept", "/home/anna/kept")):
        monkeypatch.setenv("KEDGE_CACHE", named)
        assert cache_root() == Path(root)


def test_only_packages_whose_programs_are_missing_are_wanted() -> None:
    known = [Package("there", (), lambda: True), Package("absent", (), lambda: False)]
    assert packages.missing(known) == ["absent"]


def test_docker_that_answers_takes_the_place_of_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "docker_alone", lambda: True)
    names = {package.name for package in packages.wanted(TARGETS["demo"])}
    assert "podman" not in names
    assert {"mmdebstrap", "openjdk-17-jdk-headless"} <= names


@pytest.mark.process
def test_set_up_needs_nothing_but_python_itself() -> None:
    # Without site-packages, as on a bare machine.
    own = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import kedge.setup.phases, kedge.setup.bundle"
    done = subprocess.run([sys.executable, "-S", "-c", own], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_demo_brings_only_what_the_demo_needs() -> None:
    demo = TARGETS["demo"]
    assert demo == TARGETS["setup"]
    assert demo.requirements == (BASE,)
    assert not demo.link
    assert not demo.sample
    assert not [name for name in demo.jars if name.startswith(("kafka-3", "kafka-streams"))]
    programs = packages.programs(demo)
    assert not programs & {"chromium", "haproxy", "curl", "systemd-analyze", "go"}


def test_own_hosts_need_neither_engine_nor_sandbox() -> None:
    assert not OWN_HOSTS.fleet
    assert not OWN_HOSTS.sandbox
    assert not packages.programs(OWN_HOSTS) & {"podman", "mmdebstrap"}


@pytest.mark.parametrize(
    ("target", "file"), [("test-fast", TESTS), ("lint", LINT), ("bench-clients", BENCH), ("test-demo", TESTS)]
)
def test_other_targets_bring_their_own_packages(target: str, file: str) -> None:
    assert file in TARGETS[target].requirements


def test_every_target_that_sets_up_is_in_the_table() -> None:
    rules = (PROJECT / "Makefile").read_text().split("\n\n")
    names = {rule.split(":")[0] for rule in rules if "\t$(SET_UP" in rule}
    assert names == set(TARGETS)


def test_every_locked_jar_set_is_fetched_for_a_target_and_used_by_something() -> None:
    locked = set(jars.sets())
    assert locked == {name for target in TARGETS.values() for name in target.jars}
    tops = ("inventories", "lab/services", "roles", "kedge", "spark_checks", "tests")
    files = [file for top in tops for file in (PROJECT / top).rglob("*") if file.suffix in (".py", ".yml")]
    text = "".join(file.read_text() for file in files)
    assert {name for name in locked if name not in text} == set()


@pytest.mark.parametrize(
    "file", [BASE, TESTS, LINT, BENCH, AUDIT, FUZZ, "requirements/go.txt", "requirements/build.txt"]
)
def test_lock_names_what_its_source_asks_for_with_checksums(file: str) -> None:
    locked = (PROJECT / file).read_text()
    asked = (PROJECT / file).with_suffix(".in").read_text().splitlines()
    for name in (line.split("==")[0] for line in asked if line and not line.startswith(("#", "-c"))):
        assert f"\n{name}==" in locked
    assert all(
        "\\" in line for line in locked.splitlines() if "==" in line and not line.startswith((" ", "#"))
    )


def test_locks_agree_on_every_version() -> None:
    versions: dict[str, set[str]] = {}
    for file in (PROJECT / "requirements").glob("*.txt"):
        for name, version in environment.locked(file.read_text()):
            versions.setdefault(name, set()).add(version)
    base: dict[str, set[str]] = {}
    for name, version in environment.locked((PROJECT / BASE).read_text()):
        base.setdefault(name, set()).add(version)
    # Some have one version for each line of Python: ansible-core, and numpy, of which generators have the oldest.
    assert not [name for name, found in versions.items() if not found <= base.get(name, {min(found)})]


@pytest.mark.parametrize(("text", "major"), [("javac 17.0.15", 17), ("javac 1.8.0_402", 8), ("", 0)])
def test_version_of_java_is_read(text: str, major: int) -> None:
    assert packages.java_major(text) == major


@pytest.mark.parametrize(
    ("has", "taken"),
    [
        ("openjdk-17-jdk-headless\nopenjdk-21-jdk-headless\n", "openjdk-17-jdk-headless"),
        ("openjdk-25-jdk-headless\nopenjdk-21-jdk-headless\nopenjdk-21-jre\n", "openjdk-21-jdk-headless"),
        ("", "openjdk-17-jdk-headless"),
    ],
)
def test_where_a_distribution_lacks_the_java_its_next_release_is_installed(
    monkeypatch: pytest.MonkeyPatch, has: str, taken: str
) -> None:
    answer = subprocess.CompletedProcess([], 0, has, "")
    monkeypatch.setattr(packages.subprocess, "run", lambda *_, **__: answer)
    assert packages.offered("openjdk-17-jdk-headless") == taken
    assert packages.offered("podman") == "podman"


def test_account_that_may_not_install_gets_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "root_prefix", lambda: None)
    command = "Run: sudo apt-get install -y --no-install-recommends podman maven"
    with pytest.raises(Problem, match=command):
        packages.install(["podman", "maven"])


def test_machine_without_apt_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match=r"missing: podman; this machine has no apt-get"):
        packages.install(["podman"])


@pytest.mark.parametrize("lists", ["there", "missing"])
def test_prometheus_is_unpacked_and_never_installed(
    lists: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_CACHE", str(tmp_path))
    monkeypatch.setattr(prometheus.shutil, "which", lambda name: "" if name.startswith("prom") else name)
    ran: list[str] = []

    def run(command: list[str], *_rest: object, **_options: object) -> None:
        ran.append(next(word for word in command if word in ("download", "update", "-x")))
        if ran == ["download"] and lists == "missing":
            raise Problem("E: Unable to locate package prometheus")
        if ran[-1] == "download":
            (Path(command[2]) / "prometheus_2.deb").touch()
        if ran[-1] == "-x":
            for name in ("prometheus", "promtool"):
                (Path(command[3]) / "usr" / "bin").mkdir(parents=True, exist_ok=True)
                (Path(command[3]) / "usr" / "bin" / name).touch()

    monkeypatch.setattr(prometheus.children, "run", run)
    assert prometheus.wanting()
    prometheus.fetch()
    assert ran == [*(["download", "update"] * (lists == "missing")), "download", "-x"]
    assert prometheus.wanting() == ""


def test_phases_that_miss_nothing_are_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    schedule.run([phase("one", made, wanting=""), phase("two", made)])
    assert made == ["two"]
    assert "two: makes it" in capsys.readouterr().out


def test_nothing_is_made_where_space_lacks() -> None:
    made: list[str] = []
    with pytest.raises(Problem, match=r"no space.*\(large\)"):
        schedule.run([phase("small", made), phase("large", made, megabytes=1_000_000_000)])
    assert made == []


def test_phases_that_do_not_wait_for_one_another_are_made_at_once() -> None:
    both = threading.Barrier(2, timeout=20)
    meeting = [SetupPart(name, lambda: "meets", lambda _: both.wait() and None) for name in ("one", "two")]
    schedule.run(meeting)


def test_phase_comes_after_those_that_it_names() -> None:
    made: list[str] = []
    schedule.run(
        [
            phase("last", made, after=("middle",)),
            phase("middle", made, after=("first",)),
            phase("first", made),
        ]
    )
    assert made == ["first", "middle", "last"]


def test_phase_that_is_there_already_is_not_waited_for() -> None:
    made: list[str] = []
    schedule.run([phase("there", made, wanting=""), phase("next", made, after=("there",))])
    assert made == ["next"]


def test_failed_phase_ends_only_what_comes_after_it() -> None:
    made: list[str] = []
    wrong = failing("wrong", Problem("it is wrong"))
    with pytest.raises(Problem, match=r"^wrong: it is wrong$"):
        schedule.run(
            [
                wrong,
                phase("after", made, after=("wrong",)),
                phase("later", made, after=("after",)),
                phase("other", made),
            ]
        )
    assert made == ["other"]


def test_full_disk_is_a_problem_with_its_phase_and_place() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/some/place")
    with pytest.raises(Problem, match=r"^jars: .*No space left on device: '/some/place'"):
        schedule.run([failing("jars", full)])


def test_installation_counts_until_its_lock_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / BASE).write_text("a==1\nb==2\n")
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
    assert environment.wanting([BASE]).startswith("installs 2 locked Python packages")
    monkeypatch.setattr(environment.children, "run", lambda *command, **options: None)
    (tmp_path / "venv").mkdir()
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "uv.txt").write_text("uv==1\n")
    environment.make([BASE], lambda line: None)
    assert environment.wanting([BASE]) == ""
    (tmp_path / BASE).write_text("a==1\nb==3\n")
    assert environment.wanting([BASE])


def test_interrupted_installation_is_done_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / BASE).write_text("a==1\n")
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    monkeypatch.setattr(environment, "VENV", tmp_path / "venv")

    def interrupted(command: list[str], *_rest: object, **_options: object) -> None:
        if "install" in command:
            raise KeyboardInterrupt

    monkeypatch.setattr(environment.children, "run", interrupted)
    (tmp_path / "venv").mkdir()
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "uv.txt").write_text("uv==1\n")
    with pytest.raises(KeyboardInterrupt):
        environment.make([BASE], lambda line: None)
    assert environment.wanting([BASE])


def test_uv_is_told_what_pip_is_configured_with_and_the_environment_wins() -> None:
    told = environment.uv_settings(
        [
            ":env:.index-url='https://environment/simple'",
            "global.index-url='https://file/simple'",
            "global.extra-index-url='\\nhttps://one\\nhttps://two'",
            "install.find-links='/wheels /more'",
            "global.no-color='1'",
        ]
    )
    assert told == {
        "UV_DEFAULT_INDEX": "https://environment/simple",
        "UV_INDEX": "https://one https://two",
        "UV_FIND_LINKS": "/wheels,/more",
    }


def test_machines_own_sources_serve_the_nodes_suite_alone() -> None:
    targets = [
        "Debian bookworm http://mirror/debian/ bookworm main",
        "Debian bookworm http://mirror/debian/ bookworm contrib",
        "Debian bookworm-security http://mirror/security/ bookworm-security main",
        "Debian trixie http://mirror/debian/ trixie main",
        "Node nodistro https://node/ nodistro main",
    ]
    assert node_image.debian_sources(targets) == [
        "deb http://mirror/debian/ bookworm main contrib",
        "deb http://mirror/security/ bookworm-security main",
    ]


def test_machine_of_another_distribution_lends_no_sources() -> None:
    assert node_image.debian_sources(["Ubuntu noble http://mirror/ubuntu/ noble main"]) == []


def test_image_follows_its_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "packages").write_text("systemd\n")
    monkeypatch.setattr(node_image, "RECIPE", tmp_path)
    before = node_image.recipe_key()
    assert node_image.recipe_key() == before
    (tmp_path / "packages").write_text("systemd\nhaproxy\n")
    assert node_image.recipe_key() != before


@pytest.mark.process
def test_a_bare_image_is_another_of_its_own_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = node_image.image_name(), node_image.root_file()
    monkeypatch.setenv(node_image.CHOICE, "trixie")
    assert not {node_image.image_name(), node_image.root_file()} & {*prepared}
    command = node_image._bootstrap_command(Path("root.tar"))
    assert "--include=openssh-server,python3,systemd,systemd-sysv" in command
    assert command[command.index("root.tar") - 1] == "trixie"
    assert not [part for part in command if "bookworm" in part]
    monkeypatch.setenv(node_image.CHOICE, "bare")
    with pytest.raises(Problem, match="KEDGE_NODE_IMAGE=bare: write prepared, bookworm, trixie"):
        node_image.image_name()


@pytest.mark.process
def test_set_up_that_is_complete_says_so_and_changes_nothing() -> None:
    command = [sys.executable, "-m", "kedge.setup", "--check", "--without-fleet"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.splitlines()[-1].startswith("set-up is ")


def test_sparks_connector_for_object_stores_is_of_sparks_hadoop() -> None:
    (bundled,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert f"hadoop-aws-{bundled.stem.removeprefix('hadoop-client-api-')}" == S3A
