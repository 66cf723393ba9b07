"""Runs of trials with a simulated service in the place of hosts, load and Spark: what is left, whatever happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml

from kedge.trials.bottleneck import Bottleneck
from tests.trials import DEFAULTS, outcome
from verify.trials import capacity, compare
from verify.trials.hosts import DeployedHosts
from verify.trials.progress import RunLog
from verify.trials.settings import UNSURE, TrialsError, TrialSettings, read_settings
from verify.trials.trial import TrialResult, TrialSpec, note, outcomes
from verify.trials.warming import Steady

LOAD: dict[str, Any] = {"run_id": "r", "rest": {"topic": "t", "records_per_s": 5000}, "kafka": None}


def plan_of(value: str, why: str = "") -> dict[str, Any]:
    """A plan with one setting of the proxies."""
    setting = {"file": "f", "key": "k", "value": value, "because": why}
    proxies = {"instances": [{"name": "8082", "settings": [setting]}]}
    return {"hosts": {host: {"services": {"kafka_rest": proxies}} for host in ("rest1", "rest2")}}


class Simulated:
    """Hosts that carry so much by condition, and what was done to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float]) -> None:
        self.limits, self.done = limits, list[str]()
        #: Load of each round, and whether it came in small requests; what a record took in each, if sampled.
        self.warmed: list[tuple[float, bool]] = []
        self.took: list[float] = []
        self.limit: Bottleneck | None = Bottleneck("cpu of kafka_rest", "rest1 used 2 of 2 cores")
        self.fails_to_start: set[str] = set()
        #: Variants that start, and take no load.
        self.mute: set[str] = set()
        #: Variants that plan for the proxies what the inventory plans.
        self.alike: set[str] = set()
        #: Numbers of trials that nobody can judge.
        self.unjudged: set[int] = set()
        #: Numbers of trials that have no figure, for they were hopelessly behind.
        self.collapses: set[int] = set()
        self.interrupt_at = 0
        self.differs = ""
        self.random = np.random.default_rng(1)
        self.p99 = {"documented": 20.0, "planned": 10.0}
        monkeypatch.setattr(capacity, "run", self.run)
        monkeypatch.setattr(capacity, "warm", self.warm)
        monkeypatch.setattr(compare, "run", self.run)
        monkeypatch.setattr(compare, "warm", self.warm)
        monkeypatch.setattr(DeployedHosts, "_play", lambda _, *given: self.play(*given))

    def warm(
        self,
        asked: TrialSpec,
        *given: Any,
        small: bool = True,
        round_s: float = 0,
        steady: Steady = lambda _: True,
    ) -> str:
        for _ in range(int(given[-1] / round_s) if round_s else 1):
            self.warmed.append((asked.load, small))
            if steady(self.took.pop(0) if self.took else None):
                break
        return ""

    def play(self, playbook: str, variables: dict[str, Any], more: list[str] | None = None) -> str:
        variant = next((word.partition("=")[2] for word in more or [] if "advice=" in word), "planned")
        self.done.append(" ".join([playbook, variables.get("trials_tasks", ""), variant]))
        if playbook == "verify/trials/variant.yml":
            if variant in self.fails_to_start:
                raise TrialsError(f"{playbook} ended with 2: not ready after 60 s")
            Path(variables["trials_variant_dir"], "load.json").write_text(json.dumps(LOAD))
            plan = plan_of("planned" if variant in self.alike else variant, why=variant)
            Path(variables["trials_variant_dir"], "plan.json").write_text(json.dumps(plan))
        return f"localhost : ok=1 changed={'3' if self.differs else '0'} failed=0"

    def run(self, asked: TrialSpec, run_dir: Path, *_: Any, **__: Any) -> TrialResult:
        if asked.number == self.interrupt_at:
            self.interrupt_at = 0
            raise InterruptedError
        if asked.kind in self.mute:
            raise TrialsError(f"the load of load test {asked.number} cannot begin: no answer")
        folder = run_dir / "trials" / asked.name
        (folder / "report").mkdir(parents=True, exist_ok=True)
        if asked.number in self.collapses:
            why = "ended early: 6.0 s of records were not acknowledged"
            return note(
                folder, outcome(asked.number, passed=False, kind=asked.kind, because=why, audited=False)
            )
        judged = asked.number not in self.unjudged
        passed = judged and asked.load <= self.limits.get(asked.condition, 1e9)
        p99 = float(self.p99.get(asked.kind.partition("#")[0], 10.0) * self.random.lognormal(0, 0.02))
        measured = [
            {"name": "latency", "measured": {"rest": {"ack_p99_ms": p99}}, "anomalies": {}, "verdict": "pass"}
        ]
        document = {"run_id": asked.name, "verdict": "pass", "checks": measured}
        (folder / "report" / "verdicts.json").write_text(json.dumps(document))
        return note(
            folder,
            TrialResult(asked.number, asked.condition, asked.load, asked.kind, passed, "" if passed else "too slow", 50.0,
                    "2026-11-22T10:00:00Z", asked.name, judged, None if passed else self.limit, {"ack_p99_ms": p99}, judged),
        )  # fmt: skip


def begun(folder: Path, **more: Any) -> TrialSettings:
    run = folder / "r"
    (run / "trials").mkdir(parents=True)
    (run / "load.json").write_text(json.dumps(LOAD))
    (run / "plan.json").write_text(json.dumps(plan_of("planned")))
    (run / "slo.yml").write_text("latency: {rest: {ack_p99_ms: 50}}\n")
    given = {**DEFAULTS, "command": ["ansible-playbook"], "service": "kafka_rest", **more}
    return read_settings(json.dumps({"instances": {"rest1": ["8082"], "rest2": ["8082"]}, **given}))


def call(what: Any, settings: TrialSettings, folder: Path) -> int:
    return int(what(settings, folder / "r", None, RunLog()))


def test_a_search_of_three_conditions_leaves_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Simulated(monkeypatch, {"healthy": 40_000, "restart": 30_000, "away": 20_000})
    assert call(capacity.capacity, begun(tmp_path), tmp_path) == 0
    document = json.loads((tmp_path / "r/report/capacity.json").read_text())
    carried = {one["condition"]: one["carries"] for one in document["answers"]}
    assert carried == pytest.approx({"healthy": 38_000, "restart": 28_500, "away": 19_000}, rel=0.06)
    assert all("cpu of kafka_rest" in one["limit"] for one in document["answers"])
    said = capsys.readouterr().out
    assert "trial 1 of 66 at most: healthy, 5,000 records/s, short; ends by about" in said
    assert "Latency over load" in (tmp_path / "r/report/report.html").read_text()
    # Processes may have just begun: before all trials; and the first full one is to find them as later ones do.
    done = outcomes(tmp_path / "r")
    first = next(one for one in done if one.kind == "full").load
    assert site.warmed == [(5000, True), (5000, True), *[(first, False)] * 3]
    # What was used up is told of a full trial: short ones only say where to look.
    full = {f"({one.load:,.0f} records/s failed" for one in done if one.kind == "full" and not one.passed}
    assert all(any(load in one["limit"] for load in full) for one in document["answers"])
    # A host that was away and is back has cold processes: its trials come last.
    at = [one.condition for one in done].index("away")
    assert {one.condition for one in done[at:]} == {"away"}
    # The host that was away is back, and nothing else was touched.
    assert site.done[-1].startswith("verify/trials/host.yml main")
    assert not (tmp_path / "r/trials/changed.json").exists()
    assert site.done[0].startswith("deploy.yml")  # with --check
    assert {one.partition(" ")[0] for one in site.done[1:]} == {"verify/trials/host.yml"}
    # Cores were not read, so nothing goes to the plan.
    assert yaml.safe_load((tmp_path / "r/report/recommendations.yml").read_text()) == {"recommended": {}}


def test_an_interrupted_search_brings_the_host_back_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {"away": 20_000})
    settings = begun(tmp_path, conditions=["away"])
    site.interrupt_at = 4
    with pytest.raises(InterruptedError):
        call(capacity.capacity, settings, tmp_path)
    assert [one.split()[1] for one in site.done] == ["planned", "stop", "main"]
    assert len(outcomes(tmp_path / "r")) == 3
    assert call(capacity.capacity, settings, tmp_path) == 0
    numbers = [one.number for one in outcomes(tmp_path / "r")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_host_that_does_not_come_back_costs_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Simulated(monkeypatch, {"away": 20_000})

    def lost(_: DeployedHosts) -> None:
        raise TrialsError("verify/trials/host.yml ended with 4: unreachable")

    monkeypatch.setattr(DeployedHosts, "put_back", lost)
    with pytest.raises(TrialsError, match="unreachable"):
        call(capacity.capacity, begun(tmp_path, conditions=["away"]), tmp_path)
    assert (tmp_path / "r/report/report.html").exists()


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ("generators", "the generators could do no more: give them more producers"),
        ("brokers", "the brokers could do no more: give them more cores"),
    ],
)
def test_generators_or_brokers_that_are_the_limit_make_it_at_least(
    others: Literal["generators", "brokers"], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {"healthy": 40_000})
    site.limit = Bottleneck("cpu of something", "0.99 of it was used", others)
    call(capacity.capacity, begun(tmp_path, conditions=["healthy"]), tmp_path)
    (one,) = json.loads((tmp_path / "r/report/capacity.json").read_text())["answers"]
    assert one["at_least"]
    assert why in one["because"]


def test_arms_take_turns_and_what_was_planned_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Simulated(monkeypatch, {})
    assert call(compare.compare_variants, begun(tmp_path, arms=["documented", "planned"]), tmp_path) == 0
    deployed = [one.split()[-1] for one in site.done if one.startswith("verify/trials/variant.yml")]
    assert deployed[:4] == ["documented", "planned", "planned", "documented"]
    # Who follows itself is restarted: fresh processes in each trial.
    assert sum(one.startswith("rolling_restart.yml") for one in site.done) == 4
    assert site.done[-1] == "deploy.yml  planned"
    document = json.loads((tmp_path / "r/report/comparison.json").read_text())
    (figure,) = document["figures"]["planned"]
    assert (figure["name"], figure["change"]) == ("latency.rest.ack_p99_ms", "better")
    assert figure["difference"]["low"] < -0.5 < figure["difference"]["high"]
    assert "better         latency.rest.ack_p99_ms" in capsys.readouterr().out


def test_equal_arms_are_restarted_for_every_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Simulated(monkeypatch, {})
    call(compare.compare_variants, begun(tmp_path, arms=["planned", "planned"], blocks=1), tmp_path)
    assert sum(one.startswith("rolling_restart.yml") for one in site.done) == 4


@pytest.mark.parametrize(
    ("took", "rounds"), [([200, 100, 60, 59, 58], 4), ([2.0 ** (20 - n) for n in range(10)], 8), ([], 3)]
)
def test_each_variant_warms_up_by_the_load_that_is_compared_until_it_is_steady_or_a_bound_is_met(
    took: list[float], rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    site.took = list(took)
    site.interrupt_at = 1
    with pytest.raises(InterruptedError):
        call(compare.compare_variants, begun(tmp_path, arms=["documented", "planned"], blocks=1), tmp_path)
    assert site.warmed == [(5000, True), *[(5000, False)] * rounds]


def test_an_arm_that_leaves_the_proxies_alone_has_them_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    site.alike = {"documented"}
    call(compare.compare_variants, begun(tmp_path, arms=["planned", "documented"], blocks=1), tmp_path)
    assert sum(one.startswith("rolling_restart.yml") for one in site.done) == 4


def test_a_trial_that_nobody_can_judge_is_run_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Simulated(monkeypatch, {})
    site.unjudged = {2, 4, 5}
    call(compare.compare_variants, begun(tmp_path, arms=["documented", "planned"], blocks=1), tmp_path)
    done = outcomes(tmp_path / "r")
    assert [one.kind for one in done] == [
        *("documented", "planned", "planned"),
        # Twice: counts as failed.
        *("planned", "planned", "documented"),
    ]
    document = json.loads((tmp_path / "r/report/comparison.json").read_text())
    assert document["failed"] == {"documented": 0, "planned": 1}
    (figure,) = document["figures"]["planned"]
    assert (len(figure["before"]), len(figure["after"])) == (2, 1)
    said = capsys.readouterr().out
    assert said.count("could not be judged, runs once more") == 2
    assert said.count("could not be judged, counts as failed") == 1
    without = "planned: 1 load test failed, 1 of them without figures"
    assert without in said
    assert without in (tmp_path / "r/report/report.html").read_text()


def test_a_search_does_not_learn_from_a_trial_that_nobody_could_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {"healthy": 40_000})
    call(capacity.capacity, begun(tmp_path, conditions=["healthy"]), tmp_path)
    site.unjudged = {1, 5, 9}
    call(capacity.capacity, begun(tmp_path / "again", conditions=["healthy"]), tmp_path / "again")
    first, second = outcomes(tmp_path / "r"), outcomes(tmp_path / "again" / "r")
    assert [(one.load, one.passed) for one in second if one.judged] == [
        (one.load, one.passed) for one in first
    ]
    assert len(second) == len(first) + 3


def test_an_arm_that_does_not_start_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    site.fails_to_start = {"stock"}
    call(
        compare.compare_variants, begun(tmp_path, arms=["documented", "stock", "planned"], blocks=1), tmp_path
    )
    # It is not tried again.
    assert sum("variant.yml" in one and "stock" in one for one in site.done) == 1
    document = json.loads((tmp_path / "r/report/comparison.json").read_text())
    assert document["failed"] == document["collapsed"] == {"documented": 0, "stock": 2, "planned": 0}
    assert "planned" in document["figures"]
    # One block cannot show it; four can.
    assert {one["change"] for one in document["figures"]["stock"]} == {"same"}
    assert site.done[-1] == "deploy.yml  planned"


def test_a_variant_that_collapses_is_worse_whatever_its_other_load_tests_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Simulated(monkeypatch, {})
    site.collapses = {3, 5, 8, 10, 11, 13, 16}
    call(compare.compare_variants, begun(tmp_path, arms=["documented", "planned"]), tmp_path)
    document = json.loads((tmp_path / "r/report/comparison.json").read_text())
    assert document["collapsed"] == {"documented": 0, "planned": 7}
    changed = {one["name"]: one["change"] for one in document["figures"]["planned"]}
    # The one that did not was twice as quick.
    assert changed == {"load_tests.collapsed": "worse", "latency.rest.ack_p99_ms": "same"}
    said = "planned: 7 load tests failed, 7 of them collapsed"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "r/report/report.html").read_text()


def test_an_arm_whose_file_was_changed_meanwhile_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    settings = begun(tmp_path, arms=["documented", "planned"], blocks=1)
    site.interrupt_at = 2
    with pytest.raises(InterruptedError):
        call(compare.compare_variants, settings, tmp_path)
    # Planned for the proxies what the inventory plans, and now it does.
    site.alike = {"documented"}
    with pytest.raises(TrialsError, match="variant documented is not what it was in its earlier load tests"):
        call(compare.compare_variants, settings, tmp_path)
    assert site.done[-1] == "deploy.yml  planned"


def test_an_arm_that_takes_no_load_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    site.mute = {"stock"}
    call(
        compare.compare_variants, begun(tmp_path, arms=["documented", "stock", "planned"], blocks=1), tmp_path
    )
    document = json.loads((tmp_path / "r/report/comparison.json").read_text())
    assert document["failed"] == {"documented": 0, "stock": 2, "planned": 0}
    assert "planned" in document["figures"]


@pytest.mark.parametrize(("blocks", "restarts", "fewest"), [(2, False, 4), (4, False, 0), (3, True, 4)])
def test_blocks_that_could_show_nothing_are_named_before_they_are_run(
    tmp_path: Path, blocks: int, restarts: bool, fewest: int
) -> None:
    settings = begun(tmp_path, arms=["documented", "planned"], blocks=blocks, restarts=restarts)
    said = " ".join(compare.describe(settings, LOAD))
    assert (f"too few blocks ({blocks}) to show any difference" in said) == bool(fewest)
    assert (f"trials_blocks={fewest}" in said) == bool(fewest)


def test_arms_of_which_none_starts_are_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Simulated(monkeypatch, {})
    site.fails_to_start = {"stock", "planned"}
    assert (
        call(compare.compare_variants, begun(tmp_path, arms=["stock", "planned"], blocks=1), tmp_path)
        == UNSURE
    )
    said = capsys.readouterr().out
    assert (
        "failed: the variant does not start: verify/trials/variant.yml ended with 2: not ready after 60 s"
        in said
    )
    assert "nothing to compare: stock or another variant needs a load test that was audited" in said
    assert (tmp_path / "r/report/report.html").exists()


def test_an_interrupted_comparison_puts_back_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    settings = begun(tmp_path, arms=["documented", "planned"], blocks=1)
    site.interrupt_at = 3
    with pytest.raises(InterruptedError):
        call(compare.compare_variants, settings, tmp_path)
    assert site.done[-1] == "deploy.yml  planned"
    assert len(outcomes(tmp_path / "r")) == 2
    call(compare.compare_variants, settings, tmp_path)
    assert [one.kind for one in outcomes(tmp_path / "r")] == [
        "documented",
        "planned",
        "planned",
        "documented",
    ]


def test_hosts_that_run_something_else_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Simulated(monkeypatch, {})
    site.differs = "yes"
    with pytest.raises(TrialsError, match=r"3 tasks of deploy\.yml would change something"):
        call(compare.compare_variants, begun(tmp_path, arms=["documented", "planned"]), tmp_path)
    with pytest.raises(TrialsError, match="deploy it first"):
        call(capacity.capacity, begun(tmp_path / "capacity"), tmp_path / "capacity")
    assert site.done == ["deploy.yml  planned"] * 2
