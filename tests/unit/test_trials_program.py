"""The program that the playbooks call: what it refuses, what it says before it begins, whom it waits for."""

from __future__ import annotations

import fcntl
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.evidence.writing import write_json
from tests.awaiting import await_that
from tests.trials import LOAD, SETTINGS
from verify.trials.__main__ import main


def checked(monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], what: str, *more: str) -> int:
    """Have the program say what it would do with a document on its standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(document)))
    return main([what, "--check", *more])


def test_a_run_of_the_other_playbook_is_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "trials.json", {**SETTINGS, "what": "compare"})
    assert main(["capacity", "--run-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().out
    assert f"resume={tmp_path.name} is a run of compare.yml, which capacity.yml cannot go on with" in said


@pytest.mark.process
def test_a_run_waits_for_another_that_still_puts_the_hosts_back(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    write_json(run / "trials.json", {**SETTINGS, "what": "capacity"})
    with (run.parent / ".trials.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [sys.executable, "-m", "verify.trials", "capacity", "--run-dir", str(run)],
            stderr=subprocess.DEVNULL,
        )
        log = run / "trials.log"
        await_that(lambda: log.exists() and "waits for another run" in log.read_text(), "it waits")
        assert waiting.poll() is None
    # It goes on, and finds that it has no load.
    assert waiting.wait(60) != 0


def test_check_says_what_would_be_done_and_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slo = {"latency": {"rest": {"ack_p99_ms": 50}}}
    document = {"settings": {**SETTINGS, "arms": ["planned", "documented"]}, "load": LOAD, "slo": slo}
    assert checked(monkeypatch, document, "capacity") == 0
    said = capsys.readouterr().out
    assert "from 5,000 records/s" in said
    assert "at most 30 short load tests of 8 s and 36 full ones of 30 s" in said
    assert "stops the instances of rest2" in said
    assert checked(monkeypatch, document, "compare") == 0
    assert "planned documented documented planned" in capsys.readouterr().out
    assert checked(monkeypatch, {**document, "slo": {}}, "capacity") == 2
    said = capsys.readouterr().out
    assert said.startswith("error: service_levels.latency.rest.ack_p99_ms is missing")
    assert said.count("\n") == 1


def test_a_run_does_not_go_on_with_another_plan_load_or_levels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "r"
    for folder in (run, run / "now"):
        folder.mkdir()
        (folder / "plan.json").write_text(json.dumps({"hosts": {"rest1": {}}}))
        (folder / "load.json").write_text(json.dumps(LOAD | {"run_id": folder.name}))
        (folder / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}}\n")
    (run / "trials.json").write_text(json.dumps(SETTINGS | {"what": "compare"}))
    begun = ["compare", "--run-dir", str(run)]
    # The same: what ends it comes later.
    assert main(begun) == 2
    assert "name two variants at least" in capsys.readouterr().out
    (run / "now" / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 80}}\n")
    assert main(begun) == 2
    assert "resume=r: service_levels of the inventory changed since the run began" in capsys.readouterr().out


def test_what_is_wrong_is_said_before_a_run_has_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"settings": SETTINGS | {"arms": ["planned"]}, "load": LOAD, "slo": {}}
    assert checked(monkeypatch, asked, "compare", "--quiet") == 2
    assert "error: name two variants at least" in capsys.readouterr().out
    asked["settings"] = SETTINGS | {"arms": ["planned", "stock"]}
    assert checked(monkeypatch, asked, "compare", "--quiet") == 0
    assert capsys.readouterr().out == ""
