"""The steps of a restart: their order, what they are given, and what is left of them after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from kedge.deploy.roll import own_balancer_words, steps_of_roll
from plugins.action.kedge_step import ActionModule, so_far

GATE = {"bootstrap_servers": "leaf1:9092", "client": {"a": 1}, "secrets": {"b": "s"}}
ROUND = {"name": "8082", "port": 8082, "gate": GATE, "release": "new"}
OTHER = ROUND | {"name": "8083", "port": 8083}
ROLL: Mapping[str, Any] = {
    "unit": "kafka-rest",
    "service": "kafka_rest",
    "backend": "rest",
    "planned": [{"name": "8082", "port": 8082}, {"name": "8083", "port": 8083}],
    "rollout": {
        "ready_seconds": 60,
        "gate_seconds": 120,
        "gate_max_lag": 7,
        "start_at_once": 1,
        "replicas_seconds": 9,
    },
    "soak": {"hold_seconds": 30, "worse_percent": 100},
    "back": False,
    "state": "restarted",
    "members_stay": True,
    "balancers": [{"host": "lb1", "drain": 5, "finish": 40}, {"host": "lb2", "drain": 5, "finish": 40}],
    "own_drain": [],
    "own_undrain": [],
    "address": "10.0.0.9",
    "beside": ["rest2"],
    "controls": {},
    "adopts": {},
    "foreign": "",
    "ready": {"8082": {"kind": "http", "url": "http://rest1:8082"}},
    "secrets": {"mark": "s"},
    "replicas": {},
}


def turns(does: Any, *rounds: Any, batch: tuple[str, ...] = ("rest1",), **roll: Any) -> list[list[Any]]:
    found: list[list[Any]] = steps_of_roll({**ROLL, **roll}, list(rounds), does, "rest1", batch)["turns"]
    return found


def labels(steps: list[Any]) -> list[str]:
    return [step["label"] for step in steps]


RESTART = [
    "8082: gate before",
    "8082: drain at lb1",
    "8082: drain at lb2",
    "8082: restart",
    "8082: put back at lb1",
    "8082: put back at lb2",
    "8082: gate after",
]


def test_a_host_that_rolls_alone_does_all_in_one_turn() -> None:
    (steps,) = turns("restart", ROUND, OTHER)
    assert labels(steps) == RESTART + [label.replace("8082", "8083") for label in RESTART]


def test_hosts_that_roll_together_wait_for_each_other_at_their_gates() -> None:
    found = turns("restart", ROUND, OTHER, batch=("rest1", "rest2"))
    assert [labels(steps) for steps in found[:3]] == [RESTART[:1], RESTART[1:-1], RESTART[-1:]]
    assert len(found) == 6


def test_each_step_is_called_where_it_acts() -> None:
    (steps,) = turns("restart", ROUND)
    assert [(step["module"], step["host"]) for step in steps] == [
        ("kafka_group_gate", None),
        ("haproxy_drain", "lb1"),
        ("haproxy_drain", "lb2"),
        ("kedge_instance", None),
        ("haproxy_drain", "lb1"),
        ("haproxy_drain", "lb2"),
        ("kafka_group_gate", None),
    ]


def test_what_steps_find_is_what_later_ones_take() -> None:
    (steps,) = turns("restart", ROUND)
    before, drain, _, restart, *_, after = steps
    assert set(before["finds"]) == {after["takes"]["baseline"], "members"}
    assert drain["takes"] == restart["takes"] == {"members": "members"}
    assert before["arguments"]["members"]
    # Of which nobody knows is what a gate asks for all the same: that the lag is back.
    assert after["arguments"]["baseline"] == {}


def test_the_way_back_waits_for_no_baseline() -> None:
    (steps,) = turns("restart", ROUND, back=True)
    assert labels(steps) == ["8082: find its members", *RESTART[1:]]
    assert steps[-1]["takes"] == {}
    assert steps[-1]["arguments"]["baseline"] == {}


OWN = {"own_drain": ["out", "{port}"], "own_undrain": ["in", "{port}"]}


@pytest.mark.parametrize(
    ("failed", "more"),
    [
        ("8082: drain at lb2", {}),
        # One that did not start is not waited for.
        ("8082: restart", {"seconds": 0}),
        ("8082: put back at lb1", {}),
    ],
)
def test_after_a_failure_the_instance_is_put_back(failed: str, more: dict[str, int]) -> None:
    (steps,) = turns("restart", ROUND, OTHER, **OWN)
    due = {step["label"]: step["after"][failed] for step in steps if failed in step.get("after", {})}
    assert due == {
        "8082: put back at lb1": more,
        "8082: put back at lb2": more,
        "8082: put back at a balancer that is not Kedge's": {},
    }


@pytest.mark.parametrize("failed", ["8082: gate before", "8082: gate after", ""])
def test_an_instance_that_serves_is_not_put_back(failed: str) -> None:
    (steps,) = turns("restart", ROUND, OTHER, **OWN)
    assert not any(failed in step.get("after", {}) for step in steps)


def test_members_are_asked_for_and_taken_only_where_they_stay() -> None:
    (steps,) = turns("restart", ROUND, members_stay=False)
    assert "members" not in steps[0]["arguments"]
    assert not any("members" in step.get("takes", {}) for step in steps)


def test_a_broker_restarts_between_looks_at_its_replicas() -> None:
    one = ROUND | {"gate": {}}
    (steps,) = turns("restart", one, balancers=[], replicas={"bootstrap_servers": "b"}, members_stay=False)
    assert labels(steps) == ["see every replica in sync", "8082: restart", "see every replica in sync"]
    assert steps[0]["arguments"] == {"bootstrap_servers": "b", "seconds": 9}


def test_a_host_leaves_with_all_its_instances_and_returns_with_them() -> None:
    (left,) = turns("leave", ROUND, members_stay=False)
    assert labels(left) == [
        "8082: gate before",
        *(f"{name}: drain at {at}" for at in ("lb1", "lb2") for name in ("8082", "8083")),
        "stop all",
    ]
    assert all(step["arguments"]["whole"] for step in left[1:-1])
    (back,) = turns("return", ROUND)
    assert labels(back) == [
        "see all ready",
        *(f"{name}: put back at {at}" for at in ("lb1", "lb2") for name in ("8082", "8083")),
        "8082: gate after",
    ]
    assert back[-1]["takes"]["baseline"] in left[0]["finds"]
    # What fails at one balancer is done at the other; where one is not ready, none is put back.
    assert set(back[2]["after"]) == {step["label"] for step in back[1:-1]}


def test_the_soak_holds_what_went_first_against_the_others() -> None:
    (steps,) = turns("soak", ROUND)
    assert labels(steps) == [
        "count at lb1",
        "count at lb2",
        "see the groups keep their levels",
        "compare at lb1",
        "compare at lb2",
        "see all run as they were started",
    ]
    assert steps[3]["takes"]["since"] in steps[0]["finds"]
    assert steps[3]["arguments"]["servers"] == ["rest1:8082"]
    assert steps[2]["arguments"] | {"hold": 30, "max_lag": 7, **GATE} == steps[2]["arguments"]


@pytest.mark.parametrize("positions", [{}, {"positions": {"flow": "f"}, "positions_secrets": {"c": "s"}}])
def test_a_gate_asks_with_the_login_that_it_was_given(positions: dict[str, Any]) -> None:
    gate = {**GATE, **positions, "commit_ms": 5000}
    (steps,) = turns("restart", ROUND | {"gate": gate})
    given = {key: steps[0]["arguments"].get(key) for key in gate if key != "commit_ms"}
    assert given == {key: value for key, value in gate.items() if key != "commit_ms"}
    assert steps[0]["arguments"]["baseline_ms"] == 5000


def test_words_of_a_command_name_the_instance() -> None:
    words = own_balancer_words(["lb", "{host}/{address}:{port}", "{other}"], "rest1", "10.0.0.9", 8082)
    assert words == ["lb", "rest1/10.0.0.9:8082", "{other}"]


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ({}, ({}, None)),
        ({"found": {"a": 1}, "failed_step": None}, ({"a": 1}, None)),
        ({"found": {"a": 1}, "failed_step": "8082: restart", "failed": True}, ({"a": 1}, "8082: restart")),
        # A step that was done after a failure does not end it.
        ({"found": {"a": 1}, "failed_step": "8082: restart", "failed": False}, ({"a": 1}, "8082: restart")),
        ({"failed": True, "msg": "no template"}, ({}, "")),
        ({"results": [{"found": {}}, {"found": {"a": 1}, "failed_step": None}]}, ({"a": 1}, None)),
    ],
)
def test_a_step_knows_what_was_found_and_which_failed(before: dict[str, Any], told: Any) -> None:
    assert so_far(before) == told


class Called:
    """The action, whose module answers, or raises, what a test says; it keeps the arguments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | Exception) -> None:
        self.given: list[dict[str, Any]] = []
        monkeypatch.setattr(ActionBase, "run", lambda *_: {})
        monkeypatch.setattr(ActionModule, "_called", lambda _, *called: self._answer(answer, called[1]))

    def _answer(self, answer: dict[str, Any] | Exception, given: dict[str, Any]) -> dict[str, Any]:
        self.given.append(given)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def does(self, before: dict[str, Any], **more: Any) -> dict[str, Any]:
        step = {"label": "8082: restart", "module": "m", "arguments": {"a": 1}, "host": None} | more
        action = object.__new__(ActionModule)
        action._task = SimpleNamespace(args={"step": step, "before": before})
        return action.run(task_vars={"inventory_hostname": "rest1"})


FAILED = {"found": {}, "failed_step": "8082: drain at lb1", "failed": True}


def test_a_step_takes_what_was_found_and_tells_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    called = Called(monkeypatch, {"lags": {"g": 7}, "changed": True})
    before = {"found": {"members": ["m"]}, "failed_step": None}
    told = called.does(before, takes={"members": "members", "b": "not found"}, finds={"lags": "lags"})
    assert called.given == [{"a": 1, "members": ["m"]}]
    assert told["found"] == {"members": ["m"], "lags": {"g": 7}}
    assert (told["changed"], told["failed_step"]) == (True, None)


def test_after_a_failure_only_that_is_done_which_is_due_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    called = Called(monkeypatch, {"changed": True})
    assert called.does(FAILED)["skipped"]
    assert called.does(FAILED, after={"8083: drain at lb1": {}})["skipped"]
    assert called.given == []
    told = called.does(FAILED, after={"8082: drain at lb1": {"seconds": 0}})
    assert called.given == [{"a": 1, "seconds": 0}]
    assert told["failed_step"] == "8082: drain at lb1"


@pytest.mark.parametrize(
    ("raised", "host", "failed", "said"),
    [
        (AnsibleError("Missing sudo password"), None, "8082: restart", "Missing sudo password"),
        (AnsibleConnectionFailure("no route"), "lb1", "8082: restart", "lb1 does not answer: no route"),
        # Nothing is put back on a host that is gone.
        (AnsibleConnectionFailure("no route"), None, "", "rest1 does not answer: no route. Run"),
    ],
)
def test_what_is_raised_is_a_failure_of_the_step(
    raised: Exception, host: str | None, failed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Called(monkeypatch, raised).does({}, host=host)
    assert told["failed"]
    assert told["failed_step"] == failed
    assert told["gone"] == isinstance(raised, AnsibleConnectionFailure)
    assert said in told["msg"]


def test_a_host_says_nothing_of_other_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    lie = {"failed": True, "failed_step": None, "gone": True, "found": {"members": ["x"]}, "results": [{}]}
    told = Called(monkeypatch, lie).does({})
    assert told == {"failed": True, "failed_step": "8082: restart", "found": {}, "gone": False}
