"""What trials are asked for, in which order variants come, what pages show: without hosts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.evidence.levels import Levels
from kedge.trials.bottleneck import Bottleneck
from kedge.trials.figures import compare
from kedge.trials.search import CapacityEstimate
from kedge.trials.variant_order import blocks_of, order_of
from tests.trials import outcome, settings
from verify.trials import page
from verify.trials.capacity import rules_of, words
from verify.trials.compare import named
from verify.trials.hosts import DeployedHosts, overlay
from verify.trials.progress import RunLog
from verify.trials.settings import TrialsError, judging, of_load
from verify.trials.warming import Steady, warm_up


def test_every_second_block_is_the_other_way_round() -> None:
    assert [variant for _, variant in order_of("AB", 2)] == list("ABBABAAB")
    assert [variant for _, variant in order_of("ABC", 1)] == list("ABCCBA")


def test_the_same_arm_twice_has_two_names() -> None:
    assert named(["planned", "planned"]) == ["planned", "planned#2"]
    assert overlay("planned#2") == []
    assert overlay("stock") == ["-e", "advice=stock"]


@pytest.mark.process
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
    site = DeployedHosts(settings(command=[str(play)]), tmp_path)
    with pytest.raises(
        TrialsError, match=r"ended with 2: the plan has errors.*rest1: kafka_rest_heap_mib: 5"
    ):
        site.deployed()


PLAY = """#!/bin/sh
tr '\\0' '\\n' < /proc/$$/cmdline > {folder}/words
tr '\\0' '\\n' < /proc/$$/environ > {folder}/environment
exec {ansible} "$@"
"""
BOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {dest: "{{ place }}", content: "{{ db_pass }} {{ own }}", mode: "0600"}
"""


@pytest.mark.process
def test_variables_of_the_command_line_reach_each_playbook_by_no_file_and_no_list_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ansible = Path(sys.executable).with_name("ansible-playbook")
    (tmp_path / "play").write_text(PLAY.format(folder=tmp_path, ansible=ansible))
    (tmp_path / "play").chmod(0o755)
    (tmp_path / "own.yml").write_text("own: later\n")
    (tmp_path / "deploy.yml").write_text(BOOK)
    variables = [
        json.dumps({"db_pass": "planted", "own": "earlier"}),
        json.dumps({"place": f"{tmp_path}/got"}),
    ]
    monkeypatch.setenv("KEDGE_SECRETS", json.dumps({"rest": {"password": "x"}, "variables": variables}))
    command = [
        str(tmp_path / "play"),
        "-e",
        "@<variables>0",
        "-e",
        f"@{tmp_path}/own.yml",
        "-e",
        "@<variables>1",
    ]
    asked = settings(command=command)
    site = DeployedHosts(asked, tmp_path)
    for _ in range(2):  # each begins at the first letter
        (tmp_path / "got").unlink(missing_ok=True)
        site._play(str(tmp_path / "deploy.yml"), {})
        assert (tmp_path / "got").read_text() == "planted later"
    seen = (tmp_path / "words").read_text() + (tmp_path / "environment").read_text() + asked.model_dump_json()
    assert "planted" not in seen
    assert "planted" not in (tmp_path / "trials" / "playbooks.log").read_text()


@pytest.mark.parametrize("now", [[], ['{"a": 1}', '{"b": 2}']])
def test_a_run_goes_on_with_as_many_variables_as_it_began_with(
    now: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_SECRETS", json.dumps({"variables": now}))
    with pytest.raises(TrialsError, match="give the same -e again"):
        DeployedHosts(settings(command=["ansible-playbook", "-e", "@<variables>0"]), tmp_path)


def test_arms_that_cannot_be_are_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(TrialsError, match="name two variants at least"):
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
        ({"instances": {"rest1": ["8082"]}}, "leave `away` out of trials_conditions"),
        ({"full_s": -1}, "trials_full_s: Input should be greater than 0"),
        ({"conditions": ["broken"]}, r"trials_conditions\.0"),
    ],
)
def test_settings_that_cannot_be_are_named(change: dict[str, Any], why: str) -> None:
    with pytest.raises(TrialsError, match=why):
        settings(**change)


def test_a_comparison_needs_no_second_host() -> None:
    assert settings(what="compare", instances={"rest1": ["8082"]}).hosts == ["rest1"]


def test_levels_that_bound_no_latency_are_refused() -> None:
    with pytest.raises(TrialsError, match=r"service_levels\.latency\.rest\.ack_p99_ms is missing"):
        judging(Levels(), "kafka_rest")
    judging(Levels.model_validate({"latency": {"rest": {"ack_p99_ms": 100}}}), "kafka_rest")
    with pytest.raises(TrialsError, match=r"mirror\.delay_p99_ms"):
        judging(Levels.model_validate({"latency": {"kafka": {"ack_p99_ms": 100}}}), "mirror_maker")


def test_instances_that_the_load_does_not_go_through_are_left_alone() -> None:
    hosts = {"mm1": ["logs-1", "metrics-1"], "mm2": ["metrics-2"], "mm3": ["logs-2"]}
    asked = of_load(settings(service="mirror_maker", instances=hosts), {"mirrors": [{"flow": "metrics"}]})
    assert asked.instances == {"mm1": ["metrics-1"], "mm2": ["metrics-2"]}
    alone = settings(service="mirror_maker", instances={"mm1": ["a-1"], "mm2": ["b-1"]})
    with pytest.raises(TrialsError, match="leave `away` out"):
        of_load(alone, {"mirrors": [{"flow": "a"}]})
    with pytest.raises(TrialsError, match="no instance of mirror_maker takes the load"):
        of_load(settings(service="mirror_maker", instances=hosts), {"mirrors": []})


@pytest.mark.parametrize(
    ("took", "number"),
    [
        ([100, 96, 97], 3),
        ([100, 50, 48, 49], 4),
        # One round that is no quicker than the one before says little.
        ([392, 434, 350, 349, 348], 5),
        ([512, 256, 128, 64, 32, 16, 8, 4, 2], 8),
        ([None, None, None], 3),
    ],
)
def test_processes_warm_up_until_they_get_no_quicker(took: list[float | None], number: int) -> None:
    rounds = []

    def load(seconds: float, *, small: bool, round_s: float, steady: Steady) -> str:
        assert not small
        for one in took[: int(seconds / round_s)]:
            rounds.append(round_s)
            if steady(one):
                break
        return ""

    warm_up(load, 60, RunLog(), small=False)
    assert rounds == [30] * number
    warm_up(load, 0, RunLog(), small=False)
    assert len(rounds) == number


def test_a_load_that_fails_while_it_warms_up_is_named_and_begun_once_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = ["the load failed: its producer ended", "", "never"]
    warm_up(lambda *_, **__: said.pop(0), 60, RunLog(), small=False)
    assert said == ["never"]
    assert "warming up: the load failed: its producer ended" in capsys.readouterr().out


def test_an_answer_that_is_not_sure_says_why() -> None:
    assert (
        words(CapacityEstimate("healthy", None, None, 100.0, None, 100.0, because="no load passed"))
        == "healthy: no load passed"
    )
    assert "at least 5,000" in words(
        CapacityEstimate("away", 5e3, 5e3, None, 5e3, None, True, True, "no load failed")
    )


def test_a_search_begins_at_the_load_of_verify_and_takes_the_mildest_condition_first() -> None:
    rules = rules_of(settings(conditions=["away", "healthy"]), 5000)
    assert rules.conditions == ("healthy", "away")
    assert rules.start == 5000


def test_the_pages_show_every_trial_and_load_nothing(tmp_path: Path) -> None:
    done = [
        outcome(1, figures={"ack_p99_ms": 12.0}),
        outcome(2, 9000, passed=False, limit=Bottleneck("generator", "busy")),
    ]
    text = page.of_capacity(tmp_path, settings(), [("healthy: 1,000 records/s", "generator: busy")], done)
    assert "healthy: 1,000 records/s" in text
    assert "slow; generator: busy" in text
    assert "src=" not in text.replace("srcdoc", "").split("<script>")[0]

    def document(p99: float) -> dict[str, Any]:
        return {"checks": [{"name": "latency", "measured": {"rest": {"ack_p99_ms": p99}}, "anomalies": {}}]}

    blocks = [([document(10), document(11)], [document(20), document(21)])] * 4
    found = compare({"b": blocks})
    text = page.of_comparison(
        tmp_path, settings(), ["a", "b"], found, {"b": "sure"}, ["b: 1 trials failed"], done
    )
    assert "latency.rest.ack_p99_ms" in text
    assert ">worse<" in text
