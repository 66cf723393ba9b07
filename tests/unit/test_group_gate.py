"""What opens the gates of a restart, from what was seen of the groups before and since."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy import group_gate
from kedge.deploy.gate_watch import Watch, serve
from kedge.deploy.group_gate import GateDecision, Groups, Look, Progress, Question, decide
from plugins.action import kafka_group_gate as action
from tests.awaiting import await_that

STABLE = {"g": "STABLE"}


def looks(*states: str, lag: int = 0, since: float = 0.0) -> list[Look]:
    """A look each fifth of a second; an empty state is a cluster that does not answer."""
    found = []
    for number, state in enumerate(states):
        at = since + number / 5
        seen = {"g": state} if state else {}
        found.append(
            Look(at, at + 0.05, seen, dict.fromkeys(seen, lag), None if state else "no broker answers")
        )
    return found


def before(asked: float, **more: Any) -> Question:
    return Question("before", asked, 10, **{"watch_ms": 0, **more})


def after(asked: float, baseline: Mapping[str, int] | None = None, max_lag: int = 0) -> Question:
    return Question("after", asked, 10, baseline or {"g": 0}, max_lag=max_lag)


def test_a_gate_answers_from_what_was_seen_before_it_was_asked_and_one_look_since() -> None:
    seen = looks(*["STABLE"] * 12, lag=7)
    assert decide(before(2.1), seen, {}, 2.3) == GateDecision({"g": 7})
    assert decide(before(2.5), seen, {}, 2.5) is None  # nothing was seen since


def test_a_group_without_a_baseline_is_watched_for_the_time_of_a_commit() -> None:
    seen = looks(*["STABLE"] * 5, lag=7)
    assert decide(before(0.0), seen, {}, 1.0) is None
    assert decide(before(0.0, baseline_ms=500), seen, {}, 1.0) == GateDecision({"g": 7})
    # One that has a baseline is not, and keeps the higher one.
    assert decide(before(0.0), seen, {"g": 9}, 1.0) == GateDecision({"g": 9})
    assert decide(before(0.0), seen, {"other": 9}, 1.0) is None


def test_groups_are_watched_for_their_commits_before_the_first_baseline_stable_or_not() -> None:
    seen = looks(*["PREPARING_REBALANCE"] * 50, *["STABLE"] * 11)
    question = before(0.0, watch_ms=12_100)
    assert decide(question, seen, {}, 12.0) is None
    assert decide(question, seen, {}, 12.2) == GateDecision({"g": 0})
    assert decide(question, seen, {"g": 0}, 12.0) == GateDecision({"g": 0})


def test_a_group_that_was_not_stable_a_moment_ago_keeps_the_gate_closed() -> None:
    seen = [*looks("STABLE", "STABLE", "PREPARING_REBALANCE"), *looks("STABLE", "STABLE", since=0.6)]
    assert decide(before(0.9), seen, {"g": 0}, 1.0) is None
    seen = [*seen, *looks("STABLE", since=1.0)]
    assert decide(before(0.9), seen, {"g": 0}, 1.1) == GateDecision({"g": 0})


def test_what_was_seen_before_an_instance_came_back_opens_no_gate() -> None:
    seen = looks(*["STABLE"] * 12)
    assert decide(after(2.1), seen, {}, 2.3) is None  # one look since
    assert decide(after(1.7), seen, {}, 2.3) == GateDecision({"g": 0})


def test_lag_that_is_not_back_keeps_the_gate_closed_until_time_is_up() -> None:
    seen = looks(*["STABLE"] * 12, lag=201)
    assert decide(after(0.0, {"g": 100}), seen, {}, 5) is None
    closed = decide(after(0.0, {"g": 100}), seen, {}, 11)
    assert closed is not None
    assert closed.wrong == "after 10 s group g is 201 records behind, 200 are allowed"
    assert decide(after(0.0, {"g": 100}, max_lag=300), seen, {}, 5) == GateDecision({"g": 201})


def test_a_group_that_lost_its_members_keeps_the_gate_closed() -> None:
    seen = looks(*["STABLE"] * 5)
    closed = decide(after(0.0, {"g": 0, "gone": 0}), seen, {}, 11)
    assert closed is not None
    assert "group gone had members before and has none now" in str(closed.wrong)


def test_a_cluster_that_does_not_answer_closes_the_gate_at_once() -> None:
    closed = decide(after(0.0), looks("STABLE", "STABLE", ""), {}, 0.5)
    assert closed == GateDecision({}, "no broker answers")


@pytest.mark.parametrize(
    ("states", "holds"),
    [
        (["STABLE"] * 10, True),
        (["STABLE"] * 9 + ["PREPARING_REBALANCE"], False),  # not now
        (
            ["STABLE", "PREPARING_REBALANCE", "STABLE", "STABLE", "STABLE"] * 2,
            True,
        ),  # its own clients come and go
        (["STABLE", "PREPARING_REBALANCE"] * 4 + ["STABLE"] * 2, False),
    ],
)
def test_groups_hold_their_levels_when_they_nearly_always_did_and_do_now(
    states: list[str], holds: bool
) -> None:
    question = Question("hold", 0.0, 2, {"g": 0})
    assert decide(question, looks(*states), {}, 1.9) is None
    held = decide(question, looks(*states), {}, 2.1)
    assert held is not None
    assert (held.wrong is None) is holds, held


def read(*looks: Mapping[str, tuple[int, int]], usual: int = 3) -> Progress:
    """What group g was seen to commit, a look a second; its baseline is taken after so many looks."""
    progress = Progress()
    for at, offsets in enumerate(looks):
        progress.see({"g": offsets}, at)
        if at == usual - 1:
            progress.take_as_usual(["g"], 2)
    return progress


MOVES: Any = [{"t-0": (n, n + 5), "t-1": (n, n + 5)} for n in range(3)]


def test_a_partition_whose_end_grows_and_whose_commit_stands_keeps_the_gate_closed() -> None:
    stood = read(*MOVES, *({"t-0": (2, n + 5), "t-1": (n, n + 5)} for n in range(3, 9)))
    # Asked after the instance came back, when both had records to commit: one was committed since.
    assert stood.stands(until=5) == {"g": ["t-0"]}
    seen = looks(*["STABLE"] * 12, lag=9)
    question = after(0.0, max_lag=1000)
    assert decide(question, seen, {}, 5) == GateDecision({"g": 9})
    assert decide(question, seen, {}, 5, stood.stands(5)) is None
    closed = decide(question, seen, {}, 11, stood.stands(5))
    assert closed is not None
    assert closed.wrong == "after 10 s group g commits no more for t-0, whose end grows"
    held = decide(Question("hold", 0.0, 2, {"g": 9}), seen, {}, 2.1, {"g": ["t-0", "t-1", "t-2"]})
    assert held is not None
    assert held.wrong == "in 2 s group g commits no more for t-0 and 2 more, whose end grows"


@pytest.mark.parametrize(
    "since",
    [
        pytest.param([{"t-0": (2, 7)}] * 4, id="nothing came"),
        pytest.param([{"t-0": (2, 9)}, {"t-0": (9, 9)}, {"t-0": (9, 9)}], id="all was committed"),
        pytest.param([{"t-0": (2, 9)}, {"t-0": (8, 9)}, {"t-0": (8, 12)}], id="something was committed"),
        pytest.param([{"t-0": (2, 7)}, {"t-0": (2, 7)}, {"t-0": (2, 9)}], id="it came after the question"),
        pytest.param([{"t-0": (2, 9)}, {}], id="its group left the topic"),
        pytest.param(
            [{"t-0": (2, 9), "new-0": (1, 2)}, {"t-0": (9, 9), "new-0": (1, 9)}], id="new to the group"
        ),
    ],
)
def test_what_a_group_may_leave_uncommitted(since: Any) -> None:
    assert read(*MOVES, *since).stands(until=3) == {}


def test_the_marker_of_a_transaction_is_nothing_that_a_group_has_to_commit() -> None:
    ended = [{"t-0": (9, 9)}, {"t-0": (9, 10)}, {"t-0": (9, 10)}]
    assert read(*MOVES, *ended).stands(until=9) == {}
    assert read(*MOVES, *ended, {"t-0": (9, 11)}).stands(until=9) == {"g": ["t-0"]}


def test_a_group_that_commits_rarely_is_not_waited_for() -> None:
    rare = [{"t-0": (1, 5)}, {"t-0": (2, 6)}, {"t-0": (2, 7)}]
    # The rebalance of a restart commits, and then it stands for an hour.
    assert read(*rare, {"t-0": (6, 9)}, *({"t-0": (6, n)} for n in range(10, 20))).stands(until=6) == {}


def test_a_watch_holds_against_a_group_only_what_was_there_when_it_was_asked() -> None:
    looked = iter([*MOVES, *({"t-0": (2, end)} for end in range(8, 20))])
    watch = Watch(lambda: Groups(dict(STABLE), {"g": 5}, {"g": next(looked)}))

    def wrong(kind: str, asked: float) -> str | None:
        for _ in range(3):
            watch.look()
        return watch.ask(Question(kind, asked, 0, baseline_ms=0, max_lag=9, watch_ms=0)).wrong

    assert wrong("before", time.monotonic()) is None
    assert wrong("after", time.monotonic()) is None
    assert "commits no more for t-0" in str(wrong("after", time.monotonic()))


class Cluster:
    """Groups as a test has them; counts how often somebody looked."""

    def __init__(self) -> None:
        self.states: dict[str, str] = dict(STABLE)
        self.looked = 0

    def __call__(self) -> Groups:
        self.looked += 1
        return Groups(dict(self.states), {"g": 0}, members=[("g", "name")])


def test_gates_ask_over_a_socket_that_only_its_owner_may_use(tmp_path: Path) -> None:
    cluster = Cluster()
    watch = Watch(cluster)
    path = tmp_path / "gate.sock"
    listening = serve(path, watch)
    assert path.stat().st_mode & 0o777 == 0o600
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            with connection.makefile("rw") as stream:
                stream.write(
                    json.dumps({"kind": "before", "seconds": 10, "baseline_ms": 0, "watch_ms": 0}) + "\n"
                )
                stream.flush()
                answer = _while_looking(watch, stream.readline)
    finally:
        listening.close()
    assert json.loads(answer) == {"lags": {"g": 0}, "wrong": None, "members": [["g", "name"]]}


def test_whoever_asked_may_be_gone_before_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    earlier = set(threading.enumerate())
    watch = Watch(Cluster())
    listening = serve(tmp_path / "gate.sock", watch)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "gate.sock"))
            connection.sendall(b'{"kind": "before", "seconds": 10, "baseline_ms": 0, "watch_ms": 0}\n')
            answering = _await_answering(earlier)
        deadline = time.monotonic() + 30
        while answering.is_alive() and time.monotonic() < deadline:
            watch.look()
    finally:
        listening.close()
    assert not answering.is_alive()
    assert raised == []


def test_whoever_connected_may_be_gone_before_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    earlier = set(threading.enumerate())
    listening = serve(tmp_path / "gate.sock", Watch(Cluster()))
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "gate.sock"))
            connection.sendall(b'{"kind": "bef')
            answering = _await_answering(earlier)
        answering.join(30)
    finally:
        listening.close()
    assert not answering.is_alive()
    assert raised == []


def _await_answering(earlier: Collection[threading.Thread]) -> threading.Thread:
    """Wait for the thread of an answer that was not there earlier."""

    def found() -> list[threading.Thread]:
        new = (one for one in threading.enumerate() if one not in earlier and "(answer)" in one.name)
        return [one for one in new if one.is_alive()]

    return await_that(found, "a thread answers")[0]


def _while_looking(watch: Watch, ask: Callable[[], str]) -> str:
    """Have the watch look until the answer is there."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        deadline = time.monotonic() + 30
        while not asked.done() and time.monotonic() < deadline:
            watch.look()
        return asked.result(1)


def test_a_watch_that_died_is_started_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[socket.socket] = []

    def start(_: object, path: Path) -> None:
        started.append(serve(path, Watch(Cluster())))

    monkeypatch.setattr(action, "_start", start)
    path = tmp_path / "gate.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))  # its file stays, and nobody listens
    question = {"kind": "before", "seconds": 10, "baseline_ms": 0, "watch_ms": 0}
    for _ in range(2):  # one that answers is not started again
        with action._connected({}, path) as connection, connection.makefile("rw") as stream:
            stream.write(json.dumps(question) + "\n")
            stream.flush()
    (listening,) = started
    listening.close()


def test_a_broker_that_answers_too_late_closes_the_gate_and_ends_no_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(group_gate, "admin", late)
    watch = Watch(group_gate.Looker({"bootstrap_servers": "leaf1:9092"}))
    watch.look()
    assert watch.ask(Question("before", 0.0, 5)).wrong == "leaf1:9092: no answer within 15 s"
