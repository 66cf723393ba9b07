"""Load through REST proxies, and both ways at once, against real proxies and a real broker."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient

from lab.services.rest_proxies import RunningProxy, running_proxy, unpack
from tests.answering import JsonHandler, Server
from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.forwarder import forwarder_in_place_of_haproxy
from tests.kafka.loads import LoadRun, assert_ledger_is_true

pytestmark = pytest.mark.kafka

RATE = 1000


@pytest.fixture
def proxies(
    broker: CrashableBroker, sandbox: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[RunningProxy]]:
    home = unpack(sandbox, tmp_path_factory.mktemp("sandbox"))
    properties = {"bootstrap.servers": broker.bootstrap_servers, "host.name": "127.0.0.1"}
    environment = {"KAFKAREST_HEAP_OPTS": "-Xmx128M"}
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running_proxy(
                    home, tmp_path_factory.mktemp("proxy"), {"id": f"r{n}", **properties}, environment
                )
            )
            for n in range(2)
        ]


@pytest.fixture
def url(proxies: list[RunningProxy]) -> Iterator[str]:
    parts = [urlsplit(proxy.url) for proxy in proxies]
    with forwarder_in_place_of_haproxy([(part.hostname or "", part.port or 0) for part in parts]) as address:
        yield address


def rest(topic: str, url: str, **changes: Any) -> dict[str, Any]:
    part = {"topic": topic, "url": url, "records_per_s": RATE, "records_per_request": 50, "producers": 2}
    return {**part, "consumers": 2, "group": f"rest-{topic}", **changes}


def delivered_places(run: LoadRun) -> set[tuple[int, int]]:
    deliveries = run.table("deliveries")
    return set(zip(deliveries["partition"], deliveries["offset"], strict=True))


def kill_under_load(run: LoadRun, proxy: RunningProxy, counted: str) -> None:
    """Kill a proxy, see that the load counts it (``recreated`` or ``failed``) and goes on, and end the load."""
    run.await_acked(RATE)
    proxy.process.kill()
    await_that(lambda: run.state()[counted] > 0, f"the load counts the killed proxy as {counted}")
    run.await_acked(run.state()["acked"] + 3 * RATE)
    run.enough()
    assert run.ended() == 0, run.output.read_text()


def test_every_record_is_acked_and_delivered_through_rest(
    load_run: Callable[..., LoadRun], broker: CrashableBroker, topic: str, url: str
) -> None:
    run = load_run(rest=rest(topic, url), min_records=3 * RATE).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    ledger, truth = run.table("ledger"), run.in_topic(topic)
    assert_ledger_is_true(ledger, truth)
    assert set(ledger["outcome"]) == {"acked"}
    assert len(run.table("deliveries")) == len(truth) == len(ledger)
    assert delivered_places(run) == set(zip(truth["partition"], truth["offset"], strict=True))

    changes = run.table("assignments")
    assert set(changes[changes["event"] == "assigned"]["partition"]) == {0, 1, 2, 3}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    group = admin.describe_consumer_groups([f"rest-{topic}"])[f"rest-{topic}"].result()
    assert group.members == [], "consumers delete their instances when done"


def test_consumers_go_on_and_outcomes_are_true_when_a_proxy_is_killed(
    load_run: Callable[..., LoadRun], topic: str, url: str, proxies: list[RunningProxy]
) -> None:
    part = rest(topic, url, consumers=4)
    run = load_run(rest=part, drain_s=90).start()
    kill_under_load(run, proxies[0], "recreated")
    ledger, truth = run.table("ledger"), run.in_topic(topic)
    assert_ledger_is_true(ledger, truth)
    assert delivered_places(run) == set(zip(truth["partition"], truth["offset"], strict=True))
    assert "a new instance, because" in (run.folder / "logs" / "rest-consumers.log").read_text()
    changes = run.table("assignments")
    assert "revoked" in set(changes["event"])


def test_what_goes_to_an_instance_directly_fails_with_it_alone(
    load_run: Callable[..., LoadRun], topic: str, url: str, proxies: list[RunningProxy]
) -> None:
    direct = {f"r{n}:8082": proxy.url for n, proxy in enumerate(proxies)}
    run = load_run(rest=rest(topic, url), rest_instances=direct, drain_s=90).start()
    kill_under_load(run, proxies[0], "failed")
    ledger = run.table("ledger")
    assert_ledger_is_true(ledger, run.in_topic(topic))
    own = ledger[ledger["via"] == "rest_instance"]
    outcomes = own.groupby("instance")["outcome"].agg(set)
    assert outcomes["r1:8082"] == {"acked"}
    assert "failed" in outcomes["r0:8082"]
    rates = sorted(p["records_per_s"] for p in run.run_json()["producers"].values())
    assert rates == [0.4, RATE / 2, RATE / 2]


def test_both_ways_at_once_are_kept_apart(
    load_run: Callable[..., LoadRun], broker: CrashableBroker, topic: str, url: str
) -> None:
    other = f"kafka-{topic}"
    broker.create_topic(other, 4)
    part = {"topic": other, "records_per_s": RATE, "producers": 1, "consumers": 1, "group": other}
    run = load_run(rest=rest(topic, url), kafka=part, min_records=2 * RATE).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    ledger = run.table("ledger")
    for via, name in (("kafka", other), ("rest", topic)):
        rows = ledger[ledger["via"] == via]
        assert set(rows["topic"]) == {name}
        assert_ledger_is_true(rows, run.in_topic(name))
    assert set(run.run_json()["groups"]) == {other, f"rest-{topic}"}


class _AnswersLikeAProxyWithoutABroker(JsonHandler, http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.asked()
        self.answer(
            200, {"offsets": [{"partition": None, "offset": None, "error_code": 50003, "error": "timed out"}]}
        )


class _AnswersLikeAProxyThatTakesItsTime(JsonHandler, http.server.BaseHTTPRequestHandler):
    """Every record has an offset, which is told when ``may_answer`` is set."""

    may_answer = threading.Event()

    def do_POST(self) -> None:
        sent = self.asked()["records"]
        self.may_answer.wait(60)
        self.answer(200, {"offsets": [{"partition": 0, "offset": 1}] * len(sent)})


def test_a_request_that_has_left_gets_its_answer_also_after_the_last_was_sent(
    load_run: Callable[..., LoadRun], topic: str
) -> None:
    answers = _AnswersLikeAProxyThatTakesItsTime.may_answer
    answers.set()
    with Server(_AnswersLikeAProxyThatTakesItsTime) as server:
        run = load_run(rest=rest(topic, server.url, consumers=0), drain_s=0).start()
        run.await_acked(RATE)
        answers.clear()
        run.enough()
        run.await_phase("draining")
        answers.set()
        assert run.ended() == 0, run.output.read_text()
    ledger = run.table("ledger")
    assert set(ledger[ledger["sent_us"].notna()]["outcome"]) == {"acked"}


def test_proxy_that_answers_200_with_an_error_inside_is_refused(
    load_run: Callable[..., LoadRun], topic: str
) -> None:
    with Server(_AnswersLikeAProxyWithoutABroker) as server:
        run = load_run(rest=rest(topic, server.url)).start()
        assert run.ended() == 2
    (line,) = run.output.read_text().splitlines()
    assert "does not take a record: error_code 50003: timed out" in line
    assert not run.children()


def test_consumers_that_cannot_begin_say_what_the_proxy_answered(
    load_run: Callable[..., LoadRun], topic: str, url: str
) -> None:
    part = rest(topic, url, dialect={"own_commits": {"format": "no-such"}})
    run = load_run(rest=part).start()
    assert run.ended() == 1
    line = run.state()["message"]
    assert f"no consumer can begin: POST /consumers/rest-{topic}: HTTP 422 error_code 422: Invalid" in line
    assert line in run.output.read_text()


def test_proxy_that_is_not_there_is_said_in_one_line(load_run: Callable[..., LoadRun], topic: str) -> None:
    run = load_run(rest=rest(topic, "http://127.0.0.1:1")).start()
    assert run.ended() == 2
    (line,) = run.output.read_text().splitlines()
    assert line.startswith(f"no REST proxy takes a record at http://127.0.0.1:1/topics/{topic}")
    assert not (Path(run.folder) / "evidence" / "ledger").exists()
