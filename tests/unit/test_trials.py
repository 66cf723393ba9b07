"""What trials are asked for, in which order arms come, what bounds a load: without hosts."""

from __future__ import annotations

import fcntl
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence.levels import Levels
from evidence.writing import write_json
from sizing.mirror.variables import MeasuredFlow
from sizing.rest.variables import MeasuredCapacity
from sizing.streams.variables import MeasuredApplication
from spark_checks.compare import compare_all
from spark_checks.faults.synthetic import write_evidence
from tests.awaiting import await_that
from trials import page, trial
from trials.__main__ import main
from trials.arms import blocks_of, named, order_of
from trials.capacity import recommendation, rules_of, warm_up, words
from trials.costs import Limit
from trials.progress import Told
from trials.search import Answer
from trials.settings import Settings, TrialsError, judging, of_load, read_settings, way_of
from trials.site import Site, overlay
from trials.trial import SUSTAINED, Asked, Auditor, Outcome, note, outcomes, warm, write_down
from verify.process import Ending

LOAD: dict[str, Any] = {
    "run_id": "r",
    "cluster": "leaf",
    "bootstrap_servers": "b:9092",
    "kafka": {"topic": "k", "records_per_s": 9000},
    "rest": {"topic": "t", "url": "http://b", "records_per_s": 5000, "records_per_request": 50},
}
SETTINGS: dict[str, Any] = {
    "command": ["ansible-playbook", "-i", "INV"],
    "service": "kafka_rest",
    "instances": {"rest1": ["8082", "8083"], "rest2": ["8082", "8083"]},
}

PROXY = {"distribution": "strimzi", "version": "1.0.0"}


def settings(**more: Any) -> Settings:
    return read_settings(json.dumps({**SETTINGS, **more}))


def outcome(number: int, load: float = 1000, *, passed: bool = True, **more: Any) -> Outcome:
    given = {
        "condition": "healthy",
        "kind": "full",
        "because": "" if passed else "slow",
        "audited": True,
        **more,
    }
    return Outcome(number, given.pop("condition"), load, given.pop("kind"), passed, given.pop("because"), 60.0,
                   "2026-11-22T10:00:00Z", f"{number:03d}", **given)  # fmt: skip


def test_every_second_block_is_the_other_way_round() -> None:
    assert [arm for _, arm in order_of("AB", 2)] == list("ABBABAAB")
    assert [arm for _, arm in order_of("ABC", 1)] == list("ABCCBA")


def test_the_same_arm_twice_has_two_names() -> None:
    assert named(["planned", "planned"]) == ["planned", "planned#2"]
    assert overlay("planned#2") == []
    assert overlay("stock") == ["-e", "advice=stock"]


def test_a_playbook_that_fails_gives_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play = tmp_path / "ansible-playbook"
    said = """
TASK [plan : Map the workload] ****
fatal: [localhost]: FAILED! =>
    changed: false
    msg: |-
        the plan has errors, no host was touched:
          rest1: kafka_rest_heap_mib: 5 is too little

PLAY RECAP ****
localhost : ok=1 failed=1
"""
    play.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit 2\n")
    play.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    site = Site(settings(command=[str(play)]), tmp_path)
    with pytest.raises(
        TrialsError, match=r"ended with 2: the plan has errors.*rest1: kafka_rest_heap_mib: 5"
    ):
        site.deployed()


def test_arms_that_cannot_be_are_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(TrialsError, match="name two at least"):
        named(["planned"])
    with pytest.raises(TrialsError, match="fast is no file, nor planned, stock or documented"):
        named(["planned", "fast"])
    file = tmp_path / "mine.yml"
    file.write_text("kafka_rest_heap_mib: 512\n")
    assert overlay(str(file)) == ["-e", f"@{file}"]


def test_blocks_hold_what_was_measured_close_to_each_other() -> None:
    order = order_of(["a", "b"], 2)
    documents = {n: {"trial": n} for n in range(8) if n != 2}
    found = blocks_of("a", "b", order, documents)
    assert [[d["trial"] for d in one] for one, _ in found] == [[0, 3], [5, 6]]
    # The third trial left no audit.
    assert [[d["trial"] for d in two] for _, two in found] == [[1], [4, 7]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"instances": {}}, "no host of the inventory runs kafka_rest"),
        ({"instances": {"rest1": ["8082"]}}, "leave away out of trials_conditions"),
        ({"full_s": -1}, "trials_full_s: Input should be greater than 0"),
        ({"conditions": ["broken"]}, r"trials_conditions\.0"),
    ],
)
def test_settings_that_cannot_be_are_named(change: dict[str, Any], why: str) -> None:
    with pytest.raises(TrialsError, match=why):
        settings(**change)


def test_levels_that_bound_no_latency_are_refused() -> None:
    with pytest.raises(TrialsError, match=r"service_levels\.latency\.rest\.ack_p99_ms is missing"):
        judging(Levels(), "rest", "kafka_rest")
    judging(Levels.model_validate({"latency": {"rest": {"ack_p99_ms": 100}}}), "rest", "kafka_rest")
    with pytest.raises(TrialsError, match=r"mirror\.delay_p99_ms"):
        judging(Levels.model_validate({"latency": {"kafka": {"ack_p99_ms": 100}}}), "kafka", "mirror_maker")


def test_what_goes_past_the_service_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}}\nrebalance: {min_restarts: 4}\n")
    asked = Asked(3, "003", "healthy", 8000.0, 10, "short", tmp_path)
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
    folder = write_down(Asked(1, "001", "healthy", 100.0, 10, "full", tmp_path), tmp_path, "rest", 5)
    levels = json.loads((folder / "slo.yml").read_text())
    assert levels["latency"] == {"rest": {"ack_p99_ms": 50}}


def test_a_good_trial_without_a_restart_passes_its_audit(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    levels = "latency: {rest: {ack_p99_ms: 500}}\nrebalance: {min_restarts: 4, produce_gap_s: 5}\n"
    (tmp_path / "slo.yml").write_text(levels)
    asked = Asked(1, "001", "healthy", 100.0, 18, "full", tmp_path)
    folder = write_down(asked, tmp_path, "rest", 2)
    write_evidence(folder / "evidence", 22_000, restarts=0)
    verdict, because, document = Auditor(tmp_path / "spark.log").audit(folder, report_too=False)
    assert (verdict, because) == ("pass", "")
    assert "rebalance" in {check["name"] for check in document["checks"]}
    # Of a trial that was to have a restart nothing is known without one.
    folder = write_down(replace(asked, condition="restart"), tmp_path, "rest", 2)
    write_evidence(folder / "evidence", 22_000, restarts=0)
    assert Auditor(tmp_path / "spark.log").audit(folder, report_too=False)[0] == "unknown"


def test_warming_up_sends_many_small_requests_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}}\n")
    sent = []

    def loaded(folder: Path, asked: Asked, *_: object, hopeless_s: float) -> str:
        # Cold processes fall behind, and are to catch up.
        assert hopeless_s == math.inf
        sent.append(json.loads((folder / "load.json").read_text()))
        return f"it may fail: {asked.load} is a guess"

    monkeypatch.setattr(trial, "_loaded", loaded)
    warm(Asked(1, "001", "restart", 5000.0, 8, "short", tmp_path), tmp_path, "rest", Ending(), 40)
    asked = Asked(6, "006", "healthy", 20000.0, 30, "full", tmp_path)
    warm(asked, tmp_path, "rest", Ending(), 40, small=False)
    load, own = sent
    assert (load["rest"]["records_per_s"], load["rest"]["records_per_request"]) == (5000, 5)
    assert own["rest"] == LOAD["rest"] | {"records_per_s": 20000}
    assert load["min_s"] == load["max_s"] == 40
    # Late ones do not end it, and what cold processes could not take is not waited for.
    assert (load["late_ms"], load["drain_s"]) == (None, 2)
    assert list((tmp_path / "trials").iterdir()) == []


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: list[dict[str, Any]], restart: int = 0
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
    asked = Asked(1, "001", "restart" if restart else "healthy", 1000.0, 8, "short", tmp_path)
    why = trial._loaded(
        tmp_path, asked, tmp_path / "inventory.yml", Ending(), fleet.restart if restart else None
    )
    return why, fleet


RUNNING = {"phase": "running"}


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
    one = outcome(1, limit=Limit("generator", "busy"), figures={"ack_p99_ms": 3.0})
    note(tmp_path / "trials" / "001-healthy", one)
    assert outcomes(tmp_path) == [one]


def subject_of(tmp_path: Path, service: str, told: dict[str, str], hosts: list[str]) -> None:
    """Leave what the first trial was of: a service on hosts with eight cores."""
    folder = tmp_path / "trials" / "001" / "evidence"
    folder.mkdir(parents=True)
    subject = {"services": [{"service": service, **told}], "machines": [{"hosts": hosts, "cores": 8}]}
    (folder / "run.json").write_text(json.dumps({"subject": subject}))


def test_the_plan_reads_what_a_search_recommends(tmp_path: Path) -> None:
    subject_of(tmp_path, "kafka_rest", PROXY, ["rest1", "rest2"])
    found = [
        Answer("healthy", 84_000.0, 82_000.0, 88_000.0, 84_000.0, 89_000.0, closed=True),
        Answer("away", 41_000.0, 40_000.0, 43_000.0, 41_000.0, 44_000.0, closed=True),
    ]
    text = recommendation(settings(), tmp_path, "rest", LOAD, found, [outcome(1)])
    value = yaml.safe_load(text)["recommended"]["kafka_rest_measured_capacity"]
    measured = MeasuredCapacity.model_validate(value)
    assert (measured.records_per_s, measured.one_away_records_per_s) == (84_000, 41_000)
    assert (measured.distribution, measured.cores, measured.hosts, measured.instances_per_host) == (
        "strimzi",
        8,
        2,
        2,
    )
    assert measured.records_per_request == 50
    assert "#   healthy: 84,000 records/s (limit 82,000 to 88,000; 84,000 passed; 89,000 failed)" in text


def measured_of(service: str, told: dict[str, str], instances: dict[str, list[str]], load: dict[str, Any],
                tmp_path: Path) -> str:  # fmt: skip
    subject_of(tmp_path, service, told, list(instances))
    found = [Answer("healthy", 84_000.0, 82_000.0, 88_000.0, 84_000.0, 89_000.0, closed=True)]
    asked = of_load(settings(service=service, instances=instances, conditions=["healthy"]), load)
    return recommendation(asked, tmp_path, "kafka", LOAD | load, found, [outcome(1)])


def test_the_plan_reads_what_a_flow_was_measured_to_carry(tmp_path: Path) -> None:
    told = {"distribution": "classic", "version": "3.9.2"}
    hosts = {"mm1": ["metrics-1", "metrics-3", "logs-1"], "mm2": ["metrics-2", "logs-2"]}
    text = measured_of("mirror_maker", told, hosts, {"mirrors": [{"flow": "metrics"}]}, tmp_path)
    value = yaml.safe_load(text)["recommended"]["mirror_maker_measured_capacity"]
    measured = MeasuredFlow.model_validate(value)
    assert (measured.flow, measured.kind, measured.processes, measured.hosts) == ("metrics", "classic", 3, 2)
    assert (measured.records_per_s, measured.version, measured.cores) == (84_000, "3.9.2", 8)


def test_two_flows_that_copy_one_load_are_no_measurement_of_either(tmp_path: Path) -> None:
    flows = {"mirrors": [{"flow": "metrics"}, {"flow": "logs"}]}
    text = measured_of("mirror_maker", {}, {"mm1": ["metrics-1"], "mm2": ["logs-1"]}, flows, tmp_path)
    assert (
        "# Nothing for the plan: logs and metrics took the load, and a measurement is of one flow alone."
        in text
    )
    assert yaml.safe_load(text) == {"recommended": {}}


def test_the_plan_reads_what_an_application_was_measured_to_carry(tmp_path: Path) -> None:
    told = {"distribution": "joins", "version": "4.3.1"}
    fed = {"topic": "t", "cluster": "leaf"}
    joins = [{"host": host, "instance": "joins-0"} for host in ("st1", "st2")]
    other = [{"host": "st1", "instance": "other-0"}]
    applications = [
        {"name": "other", "instances": other},
        {"name": "joins", "instances": joins, "input": fed, "output": fed},
    ]
    hosts = {"st1": ["joins-0", "other-0"], "st2": ["joins-0"]}
    text = measured_of("streams_app", told, hosts, {"applications": applications}, tmp_path)
    measured = MeasuredApplication.model_validate(
        yaml.safe_load(text)["recommended"]["streams_app_measured_capacity"]
    )
    assert (measured.name, measured.version, measured.instances_per_host) == ("joins", "4.3.1", 1)
    assert measured.hosts == 2


def test_what_carries_nothing_with_a_host_away_is_told_to_the_plan(tmp_path: Path) -> None:
    subject_of(tmp_path, "kafka_rest", PROXY, ["rest1", "rest2"])
    found = [
        Answer("healthy", 84_000.0, 82_000.0, 88_000.0, 84_000.0, 89_000.0, closed=True),
        Answer("away", None, None, 80.0, None, 80.0, because="no load passed, down to 80 records/s"),
    ]
    text = recommendation(settings(), tmp_path, "rest", LOAD, found, [outcome(1)])
    value = yaml.safe_load(text)["recommended"]["kafka_rest_measured_capacity"]
    assert value["one_away_records_per_s"] == 0
    # Of hosts with different numbers of instances the plan could not tell what one carries.
    uneven = settings(instances={"rest1": ["8082", "8083"], "rest2": ["8082"]})
    text = recommendation(uneven, tmp_path, "rest", LOAD, found, [outcome(1)])
    assert "# Nothing for the plan: the hosts run different numbers of instances." in text


def test_instances_that_the_load_does_not_go_through_are_left_alone() -> None:
    hosts = {"mm1": ["logs-1", "metrics-1"], "mm2": ["metrics-2"], "mm3": ["logs-2"]}
    asked = of_load(settings(service="mirror_maker", instances=hosts), {"mirrors": [{"flow": "metrics"}]})
    assert asked.instances == {"mm1": ["metrics-1"], "mm2": ["metrics-2"]}
    alone = settings(service="mirror_maker", instances={"mm1": ["a-1"], "mm2": ["b-1"]})
    with pytest.raises(TrialsError, match="leave away out"):
        of_load(alone, {"mirrors": [{"flow": "a"}]})
    with pytest.raises(TrialsError, match="no instance of mirror_maker takes the load"):
        of_load(settings(service="mirror_maker", instances=hosts), {"mirrors": []})


@pytest.mark.parametrize(
    ("took", "rounds"),
    [
        ([100, 95], 2),
        ([100, 50, 48], 3),
        ([512, 256, 128, 64, 32, 16, 8, 4, 2], 8),
        ([None, None], 2),
    ],
)
def test_processes_warm_up_until_they_get_no_quicker(took: list[float | None], rounds: int) -> None:
    asked = []

    def warmed(seconds: float) -> float | None:
        asked.append(seconds)
        return took[len(asked) - 1]

    warm_up(warmed, 60, 0.9, Told())
    assert asked == [30] * rounds
    warm_up(warmed, 0, 0.9, Told())
    assert len(asked) == rounds


def test_a_run_of_the_other_playbook_is_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "trials.json", {**SETTINGS, "what": "compare"})
    assert main(["capacity", "--run-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().out
    assert f"resume={tmp_path.name} is a run of compare.yml, which capacity.yml cannot go on with" in said


def test_a_run_waits_for_another_that_still_puts_the_hosts_back(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "r"
    run.mkdir(parents=True)
    write_json(run / "trials.json", {**SETTINGS, "what": "capacity"})
    with (run.parent / ".trials.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [sys.executable, "-m", "trials", "capacity", "--run-dir", str(run)], stderr=subprocess.DEVNULL
        )
        log = run / "trials.log"
        await_that(lambda: log.exists() and "waits for another run" in log.read_text(), "it waits")
        assert waiting.poll() is None
    # It goes on, and finds that it has no load.
    assert waiting.wait(60) != 0


def test_an_answer_that_is_not_sure_says_why() -> None:
    assert (
        words(Answer("healthy", None, None, 100.0, None, 100.0, because="no load passed"))
        == "healthy: no load passed"
    )
    assert "at least 5,000" in words(Answer("away", 5e3, 5e3, None, 5e3, None, True, True, "no load failed"))


def test_check_says_what_would_be_done_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    slo = {"latency": {"rest": {"ack_p99_ms": 50}}}
    document = {"settings": {**SETTINGS, "arms": ["planned", "documented"]}, "load": LOAD, "slo": slo}
    assert main(["capacity", "--check", json.dumps(document)]) == 0
    said = capsys.readouterr().out
    assert "from 5,000 records/s" in said
    assert "at most 30 short trials of 8 s and 36 full ones of 30 s" in said
    assert "stops the instances of rest2" in said
    assert main(["compare", "--check", json.dumps(document)]) == 0
    assert "planned documented documented planned" in capsys.readouterr().out
    assert main(["capacity", "--check", json.dumps({**document, "slo": {}})]) == 2
    said = capsys.readouterr().out
    assert said.startswith("error: service_levels.latency.rest.ack_p99_ms is missing")
    assert said.count("\n") == 1


def test_a_search_begins_at_the_load_of_verify_and_takes_the_mildest_condition_first() -> None:
    rules = rules_of(settings(conditions=["away", "healthy"]), 5000)
    assert rules.conditions == ("healthy", "away")
    assert rules.start == 5000


def test_the_pages_show_every_trial_and_load_nothing(tmp_path: Path) -> None:
    done = [
        outcome(1, figures={"ack_p99_ms": 12.0}),
        outcome(2, 9000, passed=False, limit=Limit("generator", "busy")),
    ]
    text = page.of_capacity(tmp_path, settings(), [("healthy: 1,000 records/s", "generator: busy")], done)
    assert "healthy: 1,000 records/s" in text
    assert "slow; generator: busy" in text
    assert "src=" not in text.replace("srcdoc", "").split("<script>")[0]

    def document(p99: float) -> dict[str, Any]:
        return {"checks": [{"name": "latency", "measured": {"rest": {"ack_p99_ms": p99}}, "anomalies": {}}]}

    blocks = [([document(10), document(11)], [document(20), document(21)])] * 4
    found = compare_all({"b": blocks})
    text = page.of_comparison(
        tmp_path, settings(), ["a", "b"], found, {"b": "sure"}, ["b: 1 trials failed"], done
    )
    assert "latency.rest.ack_p99_ms" in text
    assert ">worse<" in text


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
    assert "arms: name two at least" in capsys.readouterr().out
    (run / "now" / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 80}}\n")
    assert main(begun) == 2
    assert "resume=r: service_levels of the inventory changed since the run began" in capsys.readouterr().out


def test_what_is_wrong_is_said_before_a_run_has_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"settings": SETTINGS | {"arms": ["planned"]}, "load": LOAD, "slo": {}}
    assert main(["compare", "--check", json.dumps(asked), "--quiet"]) == 2
    assert "error: arms: name two at least" in capsys.readouterr().out
    asked["settings"] = SETTINGS | {"arms": ["planned", "stock"]}
    assert main(["compare", "--check", json.dumps(asked), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
