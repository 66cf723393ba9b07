"""What a load sends to the hosts that make it, and what of it runs where."""

from __future__ import annotations

import base64
import json
import os
import shutil
import site
import subprocess
import sys
import tarfile
from pathlib import Path

import psutil
import pytest

from kedge.deploy import generator_bundle
from kedge.deploy.generator_bundle import CODE, LOCK, ROOT, BundleError, bundle, code, key
from tests.awaiting import await_that
from tests.hostile_agent import NAME, OVER, Agents, answering, load
from verify.collect.hosts import Access
from verify.load.agent import FOLDER
from verify.load.generator_hosts import LoadError, command, part_of, portable, secrets_of, spread


def test_processes_go_round_the_hosts_and_the_watcher_stays() -> None:
    assert spread(load(generators=["a", "b", "c"])) == {
        "a": ["kafka-consumer-0", "kafka-producer-1"],
        "b": ["kafka-consumer-1"],
        "c": ["kafka-producer-0"],
    }
    assert spread(load()) == {}


def test_files_that_the_load_names_go_along(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("certificate")
    document = {
        "client": {"ssl.ca.location": str(ca), "ssl.crl.location": "/not/there", "linger.ms": 5},
        "rest": {"ca": str(ca), "topic": "ca"},
    }
    files: dict[str, str] = {}
    sent = portable(document, files)
    assert sent["client"] == {
        "ssl.ca.location": f"{FOLDER}/0-ca.pem",
        "ssl.crl.location": "/not/there",
        "linger.ms": 5,
    }
    assert sent["rest"] == {"ca": f"{FOLDER}/1-ca.pem", "topic": "ca"}
    assert base64.b64decode(files["0-ca.pem"]) == b"certificate"


SECRETS = {
    "clusters": {"leaf": {"sasl.password": "of-leaf"}, "agg": {"sasl.password": "of-agg"}},
    "kafka": {"producer": {"ssl.key.password": "of-key"}},
    "rest": {"password": "of-rest"},
}


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        (["kafka-producer-0", "kafka-consumer-1"], {"of-leaf", "of-key"}),
        (["rest-producer-2", "rest-consumers"], {"of-rest"}),
        (["kafka-consumer-0", "rest-consumers"], {"of-leaf", "of-key", "of-rest"}),
        ([], set()),
    ],
)
def test_a_host_gets_the_logins_of_its_own_processes_alone(names: list[str], needed: set[str]) -> None:
    given = json.dumps(secrets_of(SECRETS, "leaf", names))
    assert {word for word in ("of-leaf", "of-agg", "of-key", "of-rest") if word in given} == needed


def test_a_host_hears_of_no_cluster_that_it_does_not_load() -> None:
    document = {
        "run_id": "r",
        "client": {"sasl.username": "verify"},
        "kafka": {"topic": "t", "producer": {"ssl.key.location": "k.pem"}},
        "rest": {"topic": "s"},
        "clusters": {"agg": {"client": {"ssl.ca.location": "agg.pem"}}},
        "mirrors": [{"flow": "f"}],
        "applications": [{"name": "a"}],
    }
    both = part_of(document, ["kafka-producer-0", "rest-consumers"])
    assert both == {key: document[key] for key in ("run_id", "client", "kafka", "rest")}
    through_proxies = part_of(document, ["rest-consumers"])
    assert (through_proxies["client"], through_proxies["kafka"]["producer"]) == ({}, {})
    assert "agg" not in json.dumps([both, through_proxies])


@pytest.mark.process
def test_a_host_is_sent_the_login_of_the_load_and_no_other(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_SECRETS", json.dumps(SECRETS))
    heard = agents.folder / "heard"
    generator = agents.begun(f'{answering(code())}; read line; echo "$line" > {heard}; cat > {heard}.more')
    await_that(lambda: heard.exists() and heard.read_text().endswith("\n"), "it is sent what to run")
    assert "of-leaf" in heard.read_text()
    assert not [word for word in ("of-agg", "of-rest") if word in heard.read_text()]
    generator.kill()
    assert generator.workers[NAME].wait(20) == 255


def test_a_file_that_cannot_go_along_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        LoadError, match=r"ssl\.ca\.location is .*, which cannot go to .*: Is a directory; name a"
    ):
        portable({"client": {"ssl.ca.location": str(tmp_path)}}, {})


def test_the_agent_runs_without_the_rights_of_root_and_gets_no_secret_on_its_command_line() -> None:
    access = Access("load1", "10.0.0.1", 22, "ops", None, None, "yes", become=True)
    assert command(access)[-2:] == ["10.0.0.1", "/opt/kedge/load-agent"]


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    folder = tmp_path / "run"
    folder.mkdir()
    return Agents(folder)


@pytest.mark.process
def test_a_host_with_other_code_is_refused(agents: Agents) -> None:
    with pytest.raises(LoadError, match=r"load1 has another version of the kit: deploy\.yml brings this one"):
        agents.begun(answering("another"))
    assert agents.log() == "load_generator load1 is lost: it did not begin\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "echo 'ssh: connect to host load1 port 22: refused' >&2; exit 255",
            "ssh: connect to host load1 port",
        ),
        ("echo Welcome; sleep 60", "it says 'Welcome'"),
        ("echo Warning: a new host >&2; echo Welcome; sleep 60", "it says 'Welcome'; it said last: Warning"),
        ("echo 'sh: 1: /opt/kedge/load-agent: not found' >&2", "not found; deploy.yml brings it there"),
    ],
)
def test_a_host_that_does_not_answer_says_why(agents: Agents, said: str, why: str) -> None:
    with pytest.raises(LoadError, match=f"load_generator load1 does not begin: .*{why}"):
        agents.begun(said)


@pytest.mark.process
def test_evidence_that_does_not_come_whole_is_a_host_that_is_lost(agents: Agents) -> None:
    generator = agents.begun(f"{answering(code())}; echo '{json.dumps(OVER)}'; echo no archive")
    assert generator.workers[NAME].wait(20) == 255
    assert agents.log().startswith("load_generator load1 is lost: what it sent cannot be taken: ")


@pytest.mark.process
def test_a_host_is_told_again_and_again_that_somebody_leads(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verify.load.generator_hosts.REPEAT_S", 0.05)
    heard = agents.folder / "heard"
    generator = agents.begun(f"{answering(code())}; while read line; do echo x >> {heard}; done")
    await_that(lambda: heard.exists() and len(heard.read_text()) > 10, "it hears")
    generator.kill()
    assert generator.workers[NAME].wait(20) == 255


@pytest.mark.process
@pytest.mark.parametrize("end", ["silence", "term", "input"])
def test_an_agent_ends_with_who_leads_it_and_leaves_nothing(tmp_path: Path, end: str) -> None:
    script = (
        f"import verify.load.agent as a; a.SILENCE_S = {1 if end == 'silence' else 60}; a.leave(a.main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        wanted = {
            "load": load().model_dump_json(),
            "files": {"0-key.pem": base64.b64encode(b"secret").decode()},
            "secrets": {},
            "ahead_us": 0,
            "workers": [NAME],
        }
        process.stdin.write(json.dumps(wanted) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        (worker,) = psutil.Process(process.pid).children()
        assert list(tmp_path.glob("kedge-load-*/0-key.pem"))
        if end == "term":
            process.terminate()
        elif end == "input":
            process.stdin.close()
        process.stdout.read()
        assert process.wait(30) != 0
    assert not worker.is_running()
    assert not list(tmp_path.glob("kedge-load-*"))


@pytest.mark.process
def test_the_bundle_has_all_of_the_kit_that_the_processes_import_and_the_lock_the_rest(
    tmp_path: Path,
) -> None:
    for name in CODE:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    locked = {
        line.partition("==")[0].replace("-", "_") for line in LOCK.read_text().splitlines() if "==" in line
    }
    # What else is installed here hosts do not have. Beside an editable kit its data are there under its name.
    others = _installed() - locked - set(CODE)
    script = f"""
import sys
class Only:
    def find_spec(self, name, path=None, target=None):
        if path is None and name in {others!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Only())
import verify.load.agent, verify.load.worker
print(verify.__path__[0])
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "verify")]


def _installed() -> set[str]:
    places = (Path(place) for place in site.getsitepackages())
    return {one.name.partition(".")[0] for place in places for one in place.iterdir()}


def test_the_lock_has_no_conditions_which_pip_would_judge_by_its_own_python() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if "==" in line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if ";" in line] == []


def test_what_is_bundled_can_be_read_by_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(_python: str, _machine: str, packages: Path, _lock: Path) -> None:
        (packages / "some").mkdir(parents=True, mode=0o700)
        (packages / "some" / "package.py").touch(mode=0o600)

    monkeypatch.setattr(generator_bundle, "_install", install)
    with tarfile.open(bundle("3.11", "x86_64", tmp_path)) as archive:
        members = {one.name: one for one in archive}
    assert {"some/package.py", "verify/load/agent.py", "verify/load"} <= members.keys()
    assert {one.mode for one in members.values()} == {0o755, 0o644}
    assert {(one.uid, one.gid) for one in members.values()} == {(0, 0)}


def test_a_canarys_bundle_has_the_audit_with_its_templates_and_programs_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_python: str, _machine: str, packages: Path, lock: Path) -> None:
        assert lock == generator_bundle.CANARY_LOCK
        packages.mkdir()
        (packages / "spark-submit").touch(mode=0o700)

    monkeypatch.setattr(generator_bundle, "_install", install)
    with tarfile.open(bundle("3.11", "x86_64", tmp_path, canary=True)) as archive:
        members = {one.name: one.mode for one in archive}
    assert members["spark-submit"] == 0o755
    assert {"verify/process.py", "spark_checks/job.py"} <= members.keys()
    assert any(name.startswith("spark_checks/") and name.endswith(".j2") for name in members)
    assert key("3.11", "x86_64", canary=True) != key("3.11", "x86_64")


def test_a_bundle_is_named_after_its_code_and_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = key("3.11", "x86_64")
    assert key("3.12", "x86_64") != before
    assert key("3.11", "aarch64") != before
    lock = tmp_path / "generator.txt"
    lock.write_text(generator_bundle.LOCK.read_text() + "\n# changed\n")
    monkeypatch.setattr(generator_bundle, "LOCK", lock)
    assert key("3.11", "x86_64") != before


@pytest.mark.parametrize("python", ["3.9", "2.7", "none"])
def test_a_python_that_is_too_old_is_named(python: str, tmp_path: Path) -> None:
    with pytest.raises(
        BundleError,
        match=rf"its Python is {python}, and making load needs 3\.11 or later: name one in load_generator_python",
    ):
        bundle(python, "x86_64", tmp_path)


@pytest.mark.parametrize("machine", ["../../x", "x86_64; id", "", "--target=/", "x" * 33])
def test_what_a_host_calls_its_machine_is_a_word_or_refused(machine: str, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="its machine is"):
        bundle("3.11", machine, tmp_path)
    with pytest.raises(BundleError, match="its Python is"):
        bundle("3." + "9" * 5_000, "x86_64", tmp_path)


@pytest.mark.process
def test_packages_that_cannot_be_had_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "generator.txt"
    lock.write_text("no-such-package==1.0 --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setattr(generator_bundle, "LOCK", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        BundleError, match=r"pip finds no packages for Python 3\.11 on x86_64: ERROR: .*no-such"
    ):
        bundle("3.11", "x86_64", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
