"""One trial: what it writes down, what warms processes up before it, and what ends it early."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from kedge.evidence.errors import EvidenceError
from kedge.trials.bottleneck import Bottleneck
from spark_checks import job
from spark_checks.job import Auditor
from tests.faults.synthetic import write_evidence
from tests.trials import LOAD, outcome, write_samples
from verify.process import Ending
from verify.trials import trial, warming
from verify.trials.passing import SUSTAINED, judge
from verify.trials.progress import RunLog
from verify.trials.settings import TrialsError, way_of
from verify.trials.trial import TrialSpec, note, outcomes, write_down
from verify.trials.warming import Steady, warm

RUNNING = {"phase": "running"}


def test_what_goes_past_the_service_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}}\nrebalance: {min_restarts: 4}\n")
    asked = TrialSpec(3, "003", "healthy", 8000.0, 10, "short", tmp_path)
    folder = write_down(asked, tmp_path, "rest", 5)
    load, levels = (json.loads((folder / name).read_text()) for name in ("load.json", "slo.yml"))
    assert load["kafka"] is None
    assert load["rest"]["records_per_s"] == 8000
    assert load["run_id"] == "r-3"
    assert (load["min_s"], load["max_s"]) == (15, 15)
    # A request of fifty records, of ten seconds.
    assert levels["throughput"]["rest"]["records_per_s"] == 8000 * SUSTAINED - 5
    assert levels["rebalance"] == {"min_restarts": 0}
    assert levels["latency"]["rest"]["ack_p99_ms"] == 50
    folder = write_down(replace(asked, condition="restart"), tmp_path, "rest", 5)
    assert json.loads((folder / "slo.yml").read_text())["rebalance"] == {"min_restarts": 1}
    with pytest.raises(TrialsError, match=r"verify\.rest is missing"):
        way_of({"kafka": {}}, "kafka_rest")


def test_levels_of_what_a_trial_does_not_send_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}, kafka: {ack_p99_ms: 20}}\n")
    folder = write_down(TrialSpec(1, "001", "healthy", 100.0, 10, "full", tmp_path), tmp_path, "rest", 5)
    levels = json.loads((folder / "slo.yml").read_text())
    assert levels["latency"] == {"rest": {"ack_p99_ms": 50}}


@pytest.mark.slow
def test_a_good_trial_without_a_restart_passes_its_audit(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    levels = "latency: {rest: {ack_p99_ms: 500}}\nrebalance: {min_restarts: 4, produce_gap_s: 5}\n"
    (tmp_path / "slo.yml").write_text(levels)
    asked = TrialSpec(1, "001", "healthy", 100.0, 18, "full", tmp_path)
    folder = write_down(asked, tmp_path, "rest", 2)
    write_evidence(folder / "evidence", 22_000, restarts=0)
    verdict, because, document = judge(Auditor(tmp_path / "spark.log"), folder, report_too=False)
    assert (verdict, because) == ("pass", "")
    assert "rebalance" in {check["name"] for check in document["checks"]}
    # Of a trial that was to have a restart nothing is known without one.
    folder = write_down(replace(asked, condition="restart"), tmp_path, "rest", 2)
    write_evidence(folder / "evidence", 22_000, restarts=0)
    assert judge(Auditor(tmp_path / "spark.log"), folder, report_too=False)[0] == "unknown"


def test_warming_up_sends_many_small_requests_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}}\n")
    sent = []

    def loaded(folder: Path, asked: TrialSpec, *_: object, hopeless_s: float, enough_of: object) -> str:
        # Cold processes fall behind, and are to catch up.
        assert hopeless_s == math.inf
        sent.append(json.loads((folder / "load.json").read_text()))
        return f"it may fail: {asked.load} is a guess"

    monkeypatch.setattr(warming, "send_load", loaded)
    warm(TrialSpec(1, "001", "restart", 5000.0, 8, "short", tmp_path), tmp_path, "rest", Ending(), 40)
    asked = TrialSpec(6, "006", "healthy", 20000.0, 30, "full", tmp_path)
    warm(asked, tmp_path, "rest", Ending(), 40, small=False)
    load, own = sent
    assert (load["rest"]["records_per_s"], load["rest"]["records_per_request"]) == (5000, 5)
    assert own["rest"] == LOAD["rest"] | {"records_per_s": 20000}
    assert load["min_s"] == load["max_s"] == 40
    # Late ones do not end it, and what cold processes could not take is not waited for.
    assert (load["late_ms"], load["drain_s"]) == (None, 2)
    # A mirror would copy it before the records of the next load test.
    (tmp_path / "load.json").write_text(json.dumps(LOAD | {"service": "mirror_maker"}))
    warm(replace(asked, plan=tmp_path), tmp_path, "kafka", Ending(), 40)
    assert sent[-1]["drain_s"] == 40
    assert list((tmp_path / "trials").iterdir()) == []


def test_a_load_that_warms_up_ends_once_its_rounds_are_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "run.json").write_text('{"started_us": 0}')
    # A core, then half of one and a quarter; 1,000 records/s are due, and in the second round twice as many come.
    cores, per_s = [1.0, 0.5, 0.25, 0.25, 0.25, 0.25], [1000, 2000, 1000, 1000, 1000, 1000]
    used, acked = [0.0], [0.0]
    for second in range(60):
        used.append(used[-1] + cores[second // 10])
        acked.append(acked[-1] + per_s[second // 10])
    write_samples(tmp_path, used)
    clock = 0.0
    monkeypatch.setattr(warming, "now_us", lambda: int(clock * 1_000_000))
    took: list[float | None] = []
    ends: list[float] = []

    def load(seconds: float, *, small: bool, round_s: float, steady: Steady) -> str:
        nonlocal clock
        rounds = warming.Rounds(tmp_path, round_s, 1000, lambda us: took.append(us) or steady(us))
        while clock < seconds and not ends:
            clock += 0.3
            # It is written every second, and read up to a second later.
            written = int(clock)
            state = tmp_path / "load.state"
            state.write_text("")
            os.utime(state, (written, written))
            if rounds({"acked": int(acked[written])}):
                ends.append(clock)
        return ""

    warming.warm_up(load, 20, RunLog(), small=False)
    assert took == [pytest.approx(us, rel=0.05) for us in (1000, 250, 250, 250)]
    # The samples of a round come after it.
    assert ends == [pytest.approx(53, abs=0.5)]


class Fleet:
    """A load whose state is told from a list, and a restart that takes some of them."""

    def __init__(self, folder: Path, states: list[dict[str, Any]], restart_takes: int) -> None:
        self.folder, self.states, self.takes = folder, states, restart_takes
        self.returncode: int | None = None
        self.restarted = self.ended_by_us = False
        self.held: list[bool] = []

    def poll(self) -> int | None:
        self.held.append((self.folder / "hold").exists())
        if len(self.states) == 1:
            self.returncode = 0
        return self.returncode

    def state(self, _: Path) -> dict[str, Any]:
        enough = (self.folder / "enough").exists() and self.states[0]["phase"] == "running"
        if enough:
            # The load drains for as long as it is held.
            self.states = [{"phase": "draining"}] * 10 + [{"phase": "done"}]
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def restart(self, _: Path) -> Any:
        self.restarted = True
        return Restarting(self)


class Restarting:
    returncode = 0

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def poll(self) -> int | None:
        self.fleet.takes -= 1
        return 0 if self.fleet.takes <= 0 else None

    def wait(self) -> int:
        return 0


def loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    states: list[dict[str, Any]],
    restart: int = 0,
    **more: Any,
) -> tuple[str, Fleet]:
    fleet = Fleet(tmp_path, states, restart)
    monkeypatch.setattr(trial, "_start", lambda *_: fleet)
    monkeypatch.setattr(trial, "_state", fleet.state)
    monkeypatch.setattr(trial, "_behind", lambda _folder, _asked, state: state.get("behind", 0.0))
    monkeypatch.setattr(trial, "_POLL_S", 0)
    monkeypatch.setattr(trial, "_began", lambda _: True)

    def ended(children: Any, _: float) -> None:
        fleet.ended_by_us = fleet.ended_by_us or fleet.returncode is None

    monkeypatch.setattr(trial, "end_all", ended)
    asked = TrialSpec(1, "001", "restart" if restart else "healthy", 1000.0, 8, "short", tmp_path)
    why = trial.send_load(
        tmp_path, asked, tmp_path / "inventory.yml", Ending(), fleet.restart if restart else None, **more
    )
    return why, fleet


@pytest.mark.parametrize("early", [False, True])
def test_a_good_load_test_passes_unless_its_load_was_ended_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    done = {
        "write_down": tmp_path,
        "send_load": "",
        "_command": None,
        "judge": ("pass", "", {}),
    }
    for name, given in done.items():
        monkeypatch.setattr(trial, name, lambda *_, given=given, **__: given)
    if early:
        (tmp_path / trial.ENOUGH).touch()
    asked = TrialSpec(7, "007", "healthy", 1000.0, 8, "short", tmp_path)
    result = trial.run(asked, tmp_path, "rest", 5, Auditor(tmp_path / "log"), Ending(), None)
    assert (result.passed, result.judged) == (not early, True)
    assert result.because == ("ended early: too many records were late" if early else "")


def test_a_load_that_never_began_says_why_or_where_its_log_is(tmp_path: Path) -> None:
    asked = TrialSpec(7, "007", "healthy", 1000.0, 8, "short", tmp_path)
    with pytest.raises(TrialsError, match=r"load test 7 cannot begin: see .*load\.log"):
        trial._ended(tmp_path, asked)
    (tmp_path / "load.state").write_text(json.dumps({"phase": "failed", "message": "no broker answers"}))
    with pytest.raises(TrialsError, match="cannot begin: no broker answers"):
        trial._ended(tmp_path, asked)


def test_a_load_that_is_hopelessly_behind_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why, fleet = loaded(tmp_path, monkeypatch, [RUNNING, RUNNING | {"behind": 6.0}, RUNNING, RUNNING])
    assert why == "ended early: 6.0 s of records were not acknowledged"
    assert fleet.ended_by_us


def test_a_hopeless_load_stays_for_the_gate_of_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its consumers are the group that the gate waits for."""
    states = [RUNNING, RUNNING | {"behind": 6.0}, *[RUNNING] * 20, {"phase": "done"}]
    why, fleet = loaded(tmp_path, monkeypatch, states, restart=6)
    assert why == "ended early: 6.0 s of records were not acknowledged"
    assert not fleet.ended_by_us
    assert True in fleet.held
    # It goes once the restart is done.
    assert fleet.held[-1] is False
    assert (tmp_path / "stop").exists()


def test_a_load_that_is_enough_for_who_asked_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [{"phase": "starting"}, RUNNING, RUNNING | {"acked": 7}, *[RUNNING] * 20, {"phase": "done"}]
    why, fleet = loaded(tmp_path, monkeypatch, states, enough_of=lambda state: state.get("acked") == 7)
    assert why == ""
    assert (tmp_path / "enough").exists()
    assert not fleet.ended_by_us


def test_a_load_with_too_many_late_records_ends_in_order_and_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [RUNNING | {"late": 88}, RUNNING | {"late": 89}, *[RUNNING] * 20, {"phase": "done"}]
    why, fleet = loaded(tmp_path, monkeypatch, late)
    assert why == ""
    assert (tmp_path / "enough").exists()
    assert not fleet.ended_by_us


def test_a_trial_that_was_interrupted_left_nothing(tmp_path: Path) -> None:
    for name in ("001-healthy", "002-healthy"):
        (tmp_path / "trials" / name).mkdir(parents=True)
    one = outcome(1, limit=Bottleneck("generator", "busy"), figures={"ack_p99_ms": 3.0})
    note(tmp_path / "trials" / "001-healthy", one)
    assert outcomes(tmp_path) == [one]


def test_an_audit_whose_java_ends_is_run_once_more_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slo.yml").write_text("{}")
    started: list[object] = []

    def breaks(*_: object) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    def start(*_: object, **__: object) -> object:
        started.append(object())
        return started[-1]

    monkeypatch.setattr(job, "audit", breaks)
    monkeypatch.setattr(job.session, "start", start)
    monkeypatch.setattr(job.session, "alive", lambda _: False)
    monkeypatch.setattr(job.session, "stop", lambda _: None)
    auditor = Auditor(tmp_path / "spark.log")
    with pytest.raises(EvidenceError, match=r"Spark's Java ended twice during the audit.*spark\.log"):
        judge(auditor, tmp_path, report_too=False)
    assert len(started) == 2
