"""What a load sends to the hosts that make it, and what of it runs where."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from control import generator_bundle
from control.generator_bundle import BundleError, bundle, key
from evidence.load import Load
from verify.collect.hosts import Access
from verify.load.agent import FOLDER
from verify.load.board import Board
from verify.load.generators import Generator, LoadError, command, portable, spread

KAFKA = {"topic": "t", "records_per_s": 100, "producers": 2, "consumers": 2, "group": "g"}


def load(**more: Any) -> Load:
    given = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "x:1", "kafka": KAFKA}
    return Load.model_validate({**given, **more})


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


def test_the_agent_runs_without_the_rights_of_root_and_gets_no_secret_on_its_command_line() -> None:
    access = Access("load1", "10.0.0.1", 22, "ops", None, None, "yes", become=True)
    assert command(access)[-2:] == [
        "10.0.0.1",
        "env PYTHONPATH=/opt/kedge/load-generator python3 -m verify.load.agent",
    ]


def agent(tmp_path: Path, said: str) -> Generator:
    (tmp_path / "logs").mkdir()
    return Generator("load1", ["sh", "-c", said], ["kafka-producer-0"], tmp_path)


def test_a_host_with_other_code_is_refused(tmp_path: Path) -> None:
    answer = json.dumps({"clock": 1, "code": "another"})
    generator = agent(tmp_path, f"while read line; do echo '{answer}'; done")
    board = Board(tmp_path, ["kafka-producer-0"], create=True)
    with pytest.raises(LoadError, match=r"load1 has another version of the kit: deploy\.yml brings this one"):
        generator.begin({}, board)
    assert generator.workers["kafka-producer-0"].wait(5) == 255


def test_a_host_that_cannot_be_reached_says_why(tmp_path: Path) -> None:
    generator = agent(tmp_path, "echo 'ssh: connect to host load1 port 22: refused' >&2; exit 255")
    with pytest.raises(LoadError, match="load_generator load1 does not begin: ssh: connect to host load1"):
        generator.begin({}, Board(tmp_path, ["kafka-producer-0"], create=True))


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
    with pytest.raises(BundleError, match=rf"its python3 is {python}, and making load needs 3\.11 or later"):
        bundle(python, "x86_64", tmp_path)


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
