"""The commands of the page on adoption are real: those on files are run here, those on hosts by the tests named."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kedge.cli import main
from tests.unit.test_docs import ELSEWHERE, ROOT, commands
from tests.unit.test_host_review import rest, written
from tests.unit.test_review import COMPOSE, CONSUMER, MIRROR, PRODUCER

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "adopt.md"
#: What a reader has gathered, under the names of the page.
FILES = {
    "kafka-rest.properties": "id=a\nlisteners=http://0.0.0.0:8082\nproducer.acks=1\n",
    "kafka-rest.service": "[Service]\nExecStart=/usr/bin/kafka-rest-start /etc/kafka-rest/kafka-rest.properties\n",
    "docker-compose.yml": COMPOSE,
    "consumer.properties": CONSUMER,
    "producer.properties": PRODUCER,
    "mirror.sh": MIRROR,
}
REVIEWS = [command for command in commands(PAGE) if "kedge review " in command]
PLAN = ".venv/bin/kedge plan -i inventories/found/inventory"
_PLAYED = ".venv/bin/ansible-playbook -i HOSTS -i inventories/found/inventory"


def _server(state: str) -> str:
    """Return the command of the page for a server of the balancer."""
    called = _PLAYED.replace("ansible-playbook", "ansible rest_balancer")
    return f'{called} -m haproxy_drain -a "server=rest/HOST:8082 {state}"'


#: Commands that are no review, and where they are run.
OTHERS = {
    PLAN: "below",
    f"{_PLAYED} plan.yml": "tests/e2e/test_review.py",
    f"{_PLAYED} deploy.yml --limit localhost,HOST -e deploy_clusters=true": "tests/e2e/test_adopt.py",
    _server("state=drain drain_seconds=10 seconds=60"): "tests/unit/test_runbook.py, by the same module",
    "systemctl disable --now kafka-rest@8082": "on a host",
    "systemctl enable --now confluent-kafka-rest.service": "on a host",
    _server("state=ready"): "tests/unit/test_runbook.py, of all servers",
    f"{_PLAYED} deploy.yml": "tests/e2e/test_adopt.py",
}


Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command of the page in a folder; return its status, and what it prints."""

    def run(command: str) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_every_command_of_the_page_is_run_here_or_elsewhere() -> None:
    assert [c for c in commands(PAGE) if c not in {*REVIEWS, *ELSEWHERE}] == list(OTHERS)
    assert re.findall(r"`(?:python|ansible-playbook) -\S+ [^`]+`", PAGE.read_text()) == []


@pytest.mark.parametrize("command", REVIEWS)
def test_a_review_of_the_page_finds_what_is_wrong_with_its_files(
    tmp_path: Path, run: Run, command: str
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    status, said, err = run(command)
    assert (status, err) == (1, "")
    assert re.search(r"^  error .*acks", said, re.MULTILINE)


def test_the_inventory_that_was_found_is_planned_by_the_command_of_the_page(tmp_path: Path, run: Run) -> None:
    written(tmp_path / "inventories" / "found", rest1=[rest()])
    status, said, err = run(PLAN)
    assert (status, err) == (0, "")
    assert "0 errors" in said
    assert "consumer.request.max.bytes=33554432" in run(f"{PLAN} --all")[1]
