"""The tutorial's commands and files are real: run here as far as no host is needed, by other tests beyond that."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from plugins.callback import kedge_events
from plugins.modules import kedge_host_cleared
from tests.unit.test_docs import ELSEWHERE, ROOT, commands

PAGE = ROOT / "docs" / "tutorial.md"
OWN = [
    "cp -rn inventories/example/. inventories/mine",
    "rm -r inventories/mine/group_vars/mirror_maker inventories/mine/group_vars/streams_app "
    "inventories/mine/group_vars/kafka_broker",
    "rm -r inventories/mine/group_vars/load_generator inventories/mine/group_vars/canary",
    ".venv/bin/kedge plan --inventory inventories/mine",
]
PLAN = OWN[-1]
#: What removes everything from a host of a service.
REMOVAL = {
    unit: [line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
           if block.startswith(f"systemctl disable --now {unit}.target") for line in block.splitlines()]
    for unit in ("kafka-rest", "rest-balancer")
}  # fmt: skip


def files() -> list[tuple[str, str]]:
    """Return the files that the page has the reader write, in order: path and content."""
    blocks = re.findall(r"```yaml\n# (\S+?)(?:, added)?\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return [(path, content) for path, content in blocks]


def run(command: str, mine: Path) -> str:
    """Run a command of the page, with the reader's inventory elsewhere, and return what it printed."""
    argv = shlex.split(
        command.replace("inventories/mine", str(mine)).replace(".venv/bin/python", sys.executable)
    )
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's inventory before anything was changed."""
    folder = tmp_path_factory.mktemp("tutorial") / "mine"
    for command in OWN[:-1]:
        run(command, folder)
    for path, content in files()[:3]:
        place = folder / Path(path).relative_to("inventories/mine")
        assert place.exists(), f"{path} replaces nothing"
        place.write_text(content)
    return folder


def test_every_command_of_the_tutorial_is_run_here_or_elsewhere() -> None:
    removal = {line for lines in REMOVAL.values() for line in lines}
    assert [c for c in commands(PAGE) if c not in ELSEWHERE and c not in removal] == OWN


@pytest.mark.process
@pytest.mark.parametrize("unit", REMOVAL)
def test_the_commands_remove_from_a_host_what_remove_host_would(unit: str, tmp_path: Path) -> None:
    systemd = tmp_path / "etc/systemd/system"
    (systemd / f"{unit}@1.service.d").mkdir(parents=True)
    left = {
        *kedge_host_cleared.places([unit], [unit], tmp_path),
        *(tmp_path / f for f in kedge_host_cleared.KERNEL),
    }
    if unit == "rest-balancer":
        left.remove(tmp_path / "opt/kedge")  # HAProxy is a package
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True) if path.parent != systemd and path.suffix == "" else path.touch()
    for line in [line for line in REMOVAL[unit] if line.startswith("rm ")]:
        subprocess.run(["sh", "-c", line.replace(" /", f" {tmp_path}/")], check=True)
    assert [path for path in left if path.exists()] == []


@pytest.mark.process
def test_the_plan_of_the_tutorial_has_no_error_and_the_reason_that_the_page_shows(mine: Path) -> None:
    assert "\n0 errors, 3 warnings" in run(PLAN, mine)
    printed = run(f"{PLAN} --host rest1", mine)
    shown = re.search(r"\n    (KAFKAREST_HEAP_OPTS=.*?Fetches\])\n", PAGE.read_text(), flags=re.DOTALL)
    assert shown is not None
    for line in shown.group(1).splitlines():
        assert line.strip() in printed


@pytest.mark.process
def test_the_value_that_the_tutorial_changes_is_planned_as_the_reader_s_own(mine: Path) -> None:
    path, added = files()[3]
    place = mine / Path(path).relative_to("inventories/mine")
    before = place.read_text()
    place.write_text(before + added)
    try:
        assert "producer.compression.type=lz4 (yours)" in " ".join(run(f"{PLAN} --host rest1", mine).split())
    finally:
        place.write_text(before)


def shown(first: str) -> list[str]:
    """Return the lines of the page's block of output that begins so."""
    blocks = re.findall(r"(?:^    .*\n)+", PAGE.read_text(), flags=re.MULTILINE)
    return next(textwrap.dedent(block).splitlines() for block in blocks if block[4:].startswith(first))


def test_what_a_deploy_says_of_an_instance_is_the_callback_s(monkeypatch: pytest.MonkeyPatch) -> None:
    callback, said = kedge_events.CallbackModule(), list[str]()
    monkeypatch.setattr(callback._display, "display", said.append)
    row = {"service": "kafka_rest", "action": "ready", "ok": True, "started_us": 1, "ended_us": 40_000_001}
    rows = [{**row, "instance": name} for name in ("8082", "8083")]
    host, task = SimpleNamespace(get_name=lambda: "rest1"), SimpleNamespace(action="kedge_instance")
    callback.v2_runner_on_ok(SimpleNamespace(_result={"kedge_actions": rows}, _host=host, _task=task))
    assert [line.replace("40.0", "N.N").strip() for line in said] == shown("kafka_rest 8082")
