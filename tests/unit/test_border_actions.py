"""What a host says that it did is a row about itself, and nothing else."""

from __future__ import annotations

import atexit
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plugins.callback import kedge_events

ROW = {
    "service": "kafka_rest",
    "instance": "8082",
    "action": "ready",
    "started_us": 1,
    "ended_us": 2,
    "ok": True,
}


class Heard:
    """The callback, the folder of its run, and what it warned of."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.callback, self.warned = folder, kedge_events.CallbackModule(), list[str]()
        atexit.unregister(self.callback.say_what_goes_on)
        folder.mkdir()
        monkeypatch.setattr(self.callback._display, "warning", self.warned.append)
        monkeypatch.setattr(self.callback._display, "display", lambda said: None)
        self.hears({"ansible_facts": {"kedge_run_dir": str(folder)}}, "localhost", "ansible.builtin.set_fact")

    def hears(
        self,
        outcome: dict[str, Any],
        host: str = "rest1",
        action: str = "kedge_instance",
        *,
        item: bool = False,
    ) -> None:
        result = SimpleNamespace(
            _result=outcome,
            _host=SimpleNamespace(get_name=lambda: host),
            _task=SimpleNamespace(action=action),
        )
        if item:
            self.callback.v2_runner_item_on_ok(result)
        else:
            self.callback.v2_runner_on_ok(result)

    def rows(self) -> list[dict[str, Any]]:
        file = self.folder / "actions.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.delenv("KEDGE_RUN_DIR", raising=False)
    return Heard(tmp_path / "run", monkeypatch)


def test_a_host_reports_for_itself(heard: Heard) -> None:
    heard.hears({"kedge_actions": [ROW]})
    of_loop = {"kedge_actions": [ROW | {"host": "rest1"}]}
    heard.hears(of_loop, item=True)
    assert heard.rows() == [ROW | {"host": "rest1"}] * 2
    # The loop as a whole tells once more what its items told.
    heard.hears({"results": [of_loop, {}]})
    assert len(heard.rows()) == 2
    assert heard.warned == []


@pytest.mark.parametrize(
    "said",
    [
        [ROW | {"host": "rest2"}],
        [ROW | {"service": "another"}],
        [ROW | {"action": "\x1b[31m"}],
        [ROW | {"instance": "../8082"}],
        [ROW | {"instance": "8082\n"}],
        [ROW | {"started_us": "1"}],
        [ROW | {"started_us": float("nan")}],
        [ROW | {"ended_us": 2**63}],
        [ROW | {"ok": "yes"}],
        [ROW | {"more": 1}],
        [{}],
        [ROW] * 1_001,
        "text",
        {"a": 1},
        None,
    ],
)
def test_what_is_no_row_of_its_own_is_left_out_with_a_warning(heard: Heard, said: Any) -> None:
    heard.hears({"kedge_actions": said})
    assert heard.rows() == []
    (warned,) = heard.warned
    assert warned.startswith("rest1: what it did is not in the evidence: ")
    assert warned.isprintable()


@pytest.mark.parametrize(
    ("host", "action"), [("rest1", "kedge_instance"), ("rest1", "set_fact"), ("localhost", "setup")]
)
def test_no_hosts_facts_name_the_folder_of_the_run(
    heard: Heard, tmp_path: Path, host: str, action: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    heard.hears({"ansible_facts": {"kedge_run_dir": str(other)}, "kedge_actions": []}, host, action)
    heard.hears({"kedge_actions": [ROW]})
    assert list(other.iterdir()) == []
    assert len(heard.rows()) == 1
    heard.hears({"ansible_facts": None, "results": "x"})
    heard.hears({"results": ["x", None, 1]})


@pytest.mark.parametrize(
    ("phase", "stopped", "said"),
    [("running", False, True), ("draining", False, True), ("running", True, False), ("done", False, False)],
)
def test_watch_that_outlives_its_playbook_is_told_with_what_judges_it(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, phase: str, stopped: bool, said: bool
) -> None:
    lines = list[str]()
    monkeypatch.setattr(heard.callback._display, "display", lines.append)
    (heard.folder / "watch.state").write_text(json.dumps({"phase": phase}))
    if stopped:
        (heard.folder / "stop").touch()
    heard.callback.say_what_goes_on()
    assert [f"verify.audit --run-dir {heard.folder}" in line for line in lines] == [True] * said


def test_playbook_without_a_watch_says_nothing_of_one(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list[str]()
    monkeypatch.setattr(heard.callback._display, "display", lines.append)
    heard.callback.say_what_goes_on()
    assert lines == []
