"""What an answer of a REST proxy says of each record, and what load.json may say."""

from __future__ import annotations

import http.server
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest

from kedge.deploy.load_spec import load_seconds, load_spec
from kedge.evidence.load_options import LoadError, RestLoad, read_load
from tests.answering import Server
from verify.load import parent
from verify.load.actors import lanes, workers
from verify.load.ledger import ACKED, FAILED, UNKNOWN
from verify.load.rest_connections import NoAnswerError, NotSentError, Wire
from verify.load.rest_producers import read_answer


def body(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"offsets": list(entries), "key_schema_id": None}).encode()


def test_entry_with_an_offset_is_acked() -> None:
    (entry,) = read_answer(200, body({"partition": 3, "offset": 9, "error_code": None, "error": None}), 1)
    assert (entry.outcome, entry.partition, entry.offset, entry.error) == (ACKED, 3, 9, None)


def test_error_inside_a_200_fails_that_record_alone() -> None:
    entries = read_answer(
        200,
        body({"partition": 0, "offset": 1}, {"error_code": 50003, "error": "timed out", "partition": None}),
        2,
    )
    assert [entry.outcome for entry in entries] == [ACKED, FAILED]
    assert entries[1].error == "error_code 50003: timed out"


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (503, FAILED),
        (404, FAILED),
        (422, FAILED),
        (429, FAILED),
        (408, UNKNOWN),
        (500, UNKNOWN),
        (502, UNKNOWN),
        (504, UNKNOWN),
    ],
)
def test_other_status_is_failed_only_if_nobody_took_the_request(status: int, outcome: int) -> None:
    entries = read_answer(status, b"why", 3)
    assert [entry.outcome for entry in entries] == [outcome] * 3
    assert entries[0].error == f"HTTP {status}: why"


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"offsets": 1}', body(), body({"partition": 1})])
def test_200_that_says_nothing_of_a_record_leaves_it_unknown(answer: bytes) -> None:
    assert [entry.outcome for entry in read_answer(200, answer, 1)] == [UNKNOWN]


class _Served(http.server.BaseHTTPRequestHandler):
    """Answers, says who it is, and keeps the connection or closes it without a word."""

    protocol_version = "HTTP/1.1"
    says: ClassVar[dict[str, str]] = {}
    mute = False

    def do_POST(self) -> None:
        told = f"{self.headers['Authorization']} {self.path} {self.client_address[1]}".encode()
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.mute:
            self.close_connection = True
            return
        self.send_response(200)
        for name, value in {"Content-Length": str(len(told)), **self.says}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def served() -> Iterator[Server]:
    _Served.says, _Served.mute = {}, False
    with Server(_Served) as server:
        yield server


def wire(port: int) -> Wire:
    url = f"http://127.0.0.1:{port}/behind/"
    rest = RestLoad(topic="t", url=url, records_per_s=1, user="me", password="own", request_timeout_s=5)
    return Wire(rest, "/topics/t", {})


def test_a_connection_is_kept_and_the_instance_is_what_the_balancer_says(served: Server) -> None:
    kept = wire(served.server_port)
    first, second = kept.post(b"x"), kept.post(b"y")
    assert (first.status, first.instance) == (200, None)
    assert first.body == second.body
    assert first.body.startswith(b"Basic bWU6b3du /behind/topics/t ")
    _Served.says = {"X-Served-By": "10.0.0.2:8083", "Connection": "close"}
    assert kept.post(b"x").instance == "10.0.0.2:8083"
    assert kept.post(b"x").body != first.body


def test_only_what_no_connection_came_about_for_was_certainly_not_sent(served: Server) -> None:
    kept = wire(served.server_port)
    _Served.mute = True
    with pytest.raises(NoAnswerError):
        kept.post(b"x")
    served.stop()
    with pytest.raises(NotSentError):
        kept.post(b"x")


def test_a_connection_that_was_closed_while_idle_is_not_used_again(served: Server) -> None:
    kept = wire(served.server_port)
    kept.post(b"x")
    (idle,) = kept._idle
    assert idle.sock is not None
    idle.sock.shutdown(socket.SHUT_RD)  # as if the other side had
    assert kept.post(b"y").status == 200
    assert idle.sock is None


KAFKA = {"topic": "t", "records_per_s": 100, "producers": 2, "consumers": 2, "group": "g"}
REST = {"topic": "u", "url": "http://x", "records_per_s": 100, "producers": 2, "consumers": 3, "group": "h"}
LOAD = {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "x:1", "kafka": KAFKA, "rest": REST}


def write(folder: Path, load: dict[str, Any]) -> Path:
    (folder / "load.json").write_text(json.dumps(load))
    return folder


def test_producers_are_numbered_through_and_share_the_rate(tmp_path: Path) -> None:
    found = lanes(read_load(write(tmp_path, LOAD)))
    assert [(lane.actor, lane.producer, lane.rate, lane.per_request) for lane in found] == [
        ("kafka-producer-0", 0, 50.0, 1),
        ("kafka-producer-1", 1, 50.0, 1),
        ("rest-producer-2", 2, 50.0, 100),
        ("rest-producer-3", 3, 50.0, 100),
    ]


def test_instances_are_sent_to_in_turn_by_a_producer_of_their_own(tmp_path: Path) -> None:
    instances = {"r2:8082": "http://r2:8082", "r1:8082": "https://r1:8082", "2001:db8::1:8082": "http://x"}
    load = read_load(write(tmp_path, LOAD | {"rest_instances": instances}))
    (lane,) = [lane for lane in lanes(load) if lane.via == "rest_instance"]
    assert (lane.actor, lane.producer, lane.per_request) == ("rest-producer-4", 4, 1)
    assert lane.rate == pytest.approx(0.6)
    assert sum(lane.rate for lane in lanes(load) if lane.via == "rest") == LOAD["rest"]["records_per_s"]
    assert "rest-producer-4" in workers(load)


def test_every_actor_has_one_process(tmp_path: Path) -> None:
    assert workers(read_load(write(tmp_path, LOAD))) == {
        "watch": ["watch", "group-kafka", "group-rest"],
        "kafka-consumer-0": ["kafka-consumer-0"],
        "kafka-consumer-1": ["kafka-consumer-1"],
        "rest-consumers": ["rest-consumer-0", "rest-consumer-1", "rest-consumer-2"],
        "kafka-producer-0": ["kafka-producer-0"],
        "kafka-producer-1": ["kafka-producer-1"],
        "rest-producer-2": ["rest-producer-2"],
        "rest-producer-3": ["rest-producer-3"],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kafka": None, "rest": None}, "nothing to load"),
        ({"kafka": {**KAFKA, "records_per_s": 0}}, r"kafka\.records_per_s"),
        ({"kafka": {**KAFKA, "record_bytes": 20}}, r"kafka\.record_bytes"),
        ({"kafka": {**KAFKA, "recrods": 20}}, r"kafka\.recrods"),
        ({"rest": {**REST, "topic": "t"}}, "share the topic"),
        ({"rest": {**REST, "group": "g"}}, "share a consumer group"),
    ],
)
def test_load_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        read_load(write(tmp_path, {**LOAD, **change}))
    assert "\n" not in str(caught.value)


def test_missing_and_broken_load_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"load\.json cannot be read"):
        read_load(tmp_path)
    (tmp_path / "load.json").write_text("{")
    with pytest.raises(LoadError, match="not JSON"):
        read_load(tmp_path)


def planned(*dialects: dict[str, Any]) -> dict[str, Any]:
    """Return a plan with a proxy of each dialect."""
    instances = [
        {"name": str(n), "settings": [], "software": {"dialect": d, "tls": False}}
        for n, d in enumerate(dialects)
    ]
    hosts = {"r1": {"services": {"kafka_rest": {"instances": instances}}}}
    return {"hosts": hosts, "clusters": {"leaf": {"bootstrap_servers": "l:1"}}}


REST = {"topic": "t", "url": "http://x:1", "records_per_s": 1}


def test_a_load_speaks_the_dialect_of_the_planned_proxies() -> None:
    found = load_spec(
        {"cluster": "leaf", "rest": REST}, planned({"commit_adds": 0}, {"commit_adds": 0}), "r", []
    )
    assert RestLoad.model_validate(found["rest"]).dialect.commit_adds == 0
    found = load_spec({"cluster": "leaf", "rest": REST}, planned({}), "r")
    assert RestLoad.model_validate(found["rest"]).dialect.commit_adds == 1


def test_a_load_that_goes_to_other_proxies_speaks_their_dialect() -> None:
    asked = {"cluster": "leaf", "rest": REST | {"dialect": {"commit_adds": 1}}}
    found = load_spec(asked, planned({"commit_adds": 0}, {}), "r")
    assert RestLoad.model_validate(found["rest"]).dialect.commit_adds == 1


def test_proxies_of_several_dialects_are_refused_as_the_target_of_one_load() -> None:
    with pytest.raises(ValueError, match="of several dialects are planned"):
        load_spec({"cluster": "leaf", "rest": REST}, planned({"commit_adds": 0}, {}), "r")


def test_a_load_is_waited_for_as_long_as_its_own_limits_let_it_take() -> None:
    assert load_seconds({}, "running") == 5 + 90
    assert load_seconds({"warm_up_s": 20}, "running") == 20 + 90
    assert load_seconds({"rest": None}, "done") == 300 + 30 + 30 + 200
    given = {"max_s": 60, "drain_s": 10, "rest": {"request_timeout_s": 5}}
    assert load_seconds(given, "done") == 60 + 10 + 5 + 200


@pytest.mark.parametrize(
    ("via", "said"), [("rest", "g lacks 1 after 0 s: refused; see"), ("kafka", "g lacks 1 after 0 s; see")]
)
def test_a_group_that_is_not_complete_in_time_is_named_with_what_its_process_said_last(
    monkeypatch: pytest.MonkeyPatch, via: str, said: str
) -> None:
    monkeypatch.setattr(parent, "_READY_S", 0)
    monkeypatch.setattr(parent, "workers", lambda _: {})
    monkeypatch.setattr(parent.cluster, "group_lacks", lambda *_: "g lacks 1")
    one: Any = SimpleNamespace(
        _load=SimpleNamespace(groups=lambda: {"g": (via, "t", 1)}),
        _loaded=lambda _: SimpleNamespace(partitions=1),
        _await=lambda *_: None,
        _last_line=lambda _: "refused",
        _dir=Path("run"),
    )
    with pytest.raises(LoadError, match=said):
        parent._Run._await_ready(one, Mock())
