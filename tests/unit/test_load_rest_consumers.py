"""What a consumer through REST makes of answers to its commits, from a double of a proxy."""

from __future__ import annotations

import asyncio
import base64
import http.server
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kedge.evidence.load_options import LoadSpec
from tests.answering import JsonHandler, Server
from verify.load.board import Board, Cell, Head
from verify.load.rest_consumers import ConsumerRefusedError, run
from verify.process import Ending

REBALANCE = {"error_code": 50002, "message": "Kafka error: the consumer is undergoing a rebalance"}
ACTOR = "rest-consumer-0"


class Proxy(Server):
    """Hands out record after record, and answers commits with what ``refusals`` has left, then takes them."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.made = 0
        self.read = 0
        #: What is answered with 200 and no body, once each: the last parts of paths.
        self.emptied: list[str] = []
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        #: What creations are answered with, once each; and what was asked of all others, reads included.
        self.refused_creations: list[tuple[int, dict[str, Any]]] = []
        self.created: list[dict[str, Any]] = []
        #: The proxies that the next instances are made at; here where there is none.
        self.elsewhere: list[Proxy | None] = []
        self.reads: list[str] = []
        #: The read with which the load ends; without it, a commit that is taken ends it.
        self.last_read = 0
        #: What each request came with, the first there is.
        self.logins: list[str | None] = []
        self.refused: list[tuple[int, int]] = []
        self.committed: list[int] = []
        self.board: Board | None = None

    def commit(self, offset: int) -> tuple[int, dict[str, Any]]:
        if self.refusals:
            self.refused.append((offset, self.read))
            return self.refusals.pop(0)
        self.committed.append(offset)
        assert self.board is not None
        self.board.head[Head.END] = 1
        return 200, {}


class Handler(JsonHandler, http.server.BaseHTTPRequestHandler):
    server: Proxy

    def parse_request(self) -> bool:
        """Note with which login something is asked."""
        parsed = super().parse_request()
        self.server.logins.append(self.headers["Authorization"] if parsed else None)
        return parsed

    def is_emptied(self) -> bool:
        """Answer as a kafka-rest that stops, where that is asked for."""
        part = self.path.split("?")[0].rsplit("/", 1)[1]
        if part not in self.server.emptied:
            return False
        self.server.emptied.remove(part)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True

    def do_POST(self) -> None:
        asked = self.asked()
        if self.is_emptied():
            return None
        if self.path.endswith("/offsets"):
            return self.answer(*self.server.commit(asked["offsets"][0]["offset"]))
        if self.path.endswith("/subscription"):
            return self.answer(200, {})
        if self.server.refused_creations:
            return self.answer(*self.server.refused_creations.pop(0))
        self.server.created.append(asked)
        self.server.made += 1
        there = self.server.elsewhere.pop(0) if self.server.elsewhere else None
        host, port = (there or self.server).server_address[:2]
        uri = f"http://{host!s}:{port}/consumers/g/instances/{asked['name']}"
        return self.answer(200, {"instance_id": asked["name"], "base_uri": uri})

    def do_GET(self) -> None:
        if self.is_emptied():
            return
        self.server.reads.append(self.path)
        value = base64.b64encode(b"x" * 40).decode()
        record = {"topic": "t", "partition": 0, "offset": self.server.read, "key": None, "value": value}
        self.server.read += 1
        if self.server.read == self.server.last_read:
            assert self.server.board is not None
            self.server.board.head[Head.END] = 1
        self.answer(200, [record])

    def do_DELETE(self) -> None:
        self.answer(200, {})


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as server:
        yield server


def consume(proxy: Proxy, folder: Path, **part: Any) -> int:
    """Consume until a commit is taken; return how many instances were given up."""
    rest = {"topic": "t", "group": "g", "url": proxy.url, "records_per_s": 1, "producers": 1, "consumers": 1}
    rest |= part
    load = LoadSpec.model_validate(
        {"run_id": "r", "cluster": "leaf", "bootstrap_servers": "x:1", "rest": rest}
    )
    board = proxy.board = Board(folder, [ACTOR], create=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("verify.load.rest_consumers.ROTATE_S", 0.02)  # commits follow a file of deliveries
        asyncio.run(run(load, [ACTOR], board, folder, cast("Ending", False)))
    return int(board.cells(ACTOR)[Cell.RECREATED])


def test_a_commit_that_a_rebalance_refuses_is_no_end_of_the_instance(
    proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.refusals = [(500, REBALANCE)] * 2
    assert consume(proxy, tmp_path) == 0
    assert proxy.made == 1
    # What was read before the refusal may be another member's by now: only what came later is committed.
    _, read = proxy.refused[-1]
    assert proxy.committed[0] >= read
    assert "undergoing a rebalance" in capsys.readouterr().err


def test_a_commit_with_a_stale_member_epoch_is_refused_by_a_rebalance(proxy: Proxy, tmp_path: Path) -> None:
    stale = {"error_code": 50002, "message": "The member epoch is stale."}
    proxy.refusals = [(500, stale)] * 2
    assert consume(proxy, tmp_path) == 0
    _, read = proxy.refused[-1]
    assert proxy.committed[0] >= read


class OtherProxy(Proxy):
    """A second proxy behind the balancer; the load ends with its first commit, or at home."""

    def __init__(self, home: Proxy, *, ends: bool) -> None:
        super().__init__()
        self.home, self.ends = home, ends

    def commit(self, offset: int) -> tuple[int, dict[str, Any]]:
        self.committed.append(offset)
        if self.ends and self.home.board is not None:
            self.home.board.head[Head.END] = 1
        return 200, {}


@pytest.mark.parametrize("come_home", [True, False])
def test_a_consumer_goes_back_to_its_first_proxy_when_asked_to_come_home(
    proxy: Proxy, tmp_path: Path, come_home: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verify.load.rest_consumers._LOOK_S", 0.2)
    # The balancer makes the first instance here, where it is lost with the first read, and the next one there.
    with OtherProxy(proxy, ends=not come_home) as other:
        proxy.elsewhere, proxy.emptied = [None, other], ["records"]
        assert consume(proxy, tmp_path, come_home=come_home) == 1
    assert other.reads
    assert bool(proxy.committed) is come_home
    assert proxy.made == 2 + come_home


def test_a_commit_that_failed_otherwise_is_tried_again(proxy: Proxy, tmp_path: Path) -> None:
    proxy.refusals = [(500, {"error_code": 50003, "message": "The coordinator is not available."})] * 2
    assert consume(proxy, tmp_path) == 0
    assert {offset for offset, _ in proxy.refused} == {proxy.committed[0]}


@pytest.mark.parametrize("part", ["g", "subscription", "records", "offsets"])
def test_a_200_without_a_body_is_no_yes_and_the_instance_is_given_up(
    proxy: Proxy, tmp_path: Path, part: str
) -> None:
    proxy.emptied = [part]
    assert consume(proxy, tmp_path) == 1
    assert not proxy.emptied
    assert proxy.committed


@pytest.mark.parametrize(
    ("refusal", "times"),
    [((404, {"error_code": 40403, "message": "Consumer instance not found."}), 1), ((500, REBALANCE), 3)],
)
def test_an_instance_that_is_gone_or_never_takes_a_commit_is_given_up(
    proxy: Proxy,
    tmp_path: Path,
    refusal: tuple[int, dict[str, Any]],
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("verify.load.rest_consumers._REFUSALS", 3)
    proxy.refusals = [refusal] * times
    assert consume(proxy, tmp_path) == 1
    assert proxy.made == 2


def test_a_consumer_speaks_the_dialect_of_its_proxy(proxy: Proxy, tmp_path: Path) -> None:
    dialect = {"own_commits": {"enable.auto.commit": False}, "commit_adds": 0, "max_bytes": False}
    consume(proxy, tmp_path, dialect=dialect)
    assert proxy.created[0]["enable.auto.commit"] is False
    assert "auto.commit.enable" not in proxy.created[0]
    assert not any("max_bytes" in path for path in proxy.reads)
    # The first commit is of what the first read brought, the record at 0: the next one to read is 1.
    assert proxy.committed[0] == 1


@pytest.mark.parametrize("own", [{"auto.commit.enable": "false"}, {"enable.auto.commit": False}])
def test_with_auto_commit_an_empty_200_has_no_records_and_nothing_is_committed(
    proxy: Proxy, tmp_path: Path, own: dict[str, Any]
) -> None:
    proxy.emptied = ["records"]
    proxy.last_read = 5
    assert consume(proxy, tmp_path, auto_commit=True, dialect={"own_commits": own}) == 0
    assert proxy.emptied == proxy.committed == []
    assert proxy.made == 1, "it reads on at the same instance"
    (key,) = own
    assert proxy.created[0][key] in ("true", True)
    assert type(proxy.created[0][key]) is type(own[key])


def test_a_consumer_speaks_as_to_kafka_rest_unless_told(proxy: Proxy, tmp_path: Path) -> None:
    consume(proxy, tmp_path)
    assert proxy.created[0]["auto.commit.enable"] == "false"
    assert all("max_bytes=1048576" in path for path in proxy.reads)
    assert proxy.committed[0] == 0


def test_a_refusal_that_will_not_pass_ends_the_consumers_with_what_the_proxy_answered(
    proxy: Proxy, tmp_path: Path
) -> None:
    refusal = {"error_code": 400, "message": "Validation error on: /:\n auto.commit.enable is no property"}
    proxy.refused_creations = [(400, refusal)]
    with pytest.raises(ConsumerRefusedError) as raised:
        consume(proxy, tmp_path)
    assert str(raised.value) == (
        "no consumer can begin: POST /consumers/g: HTTP 400 error_code 400: "
        "Validation error on: /: auto.commit.enable is no property"
    )


def test_a_proxy_that_is_away_for_a_moment_is_asked_again(proxy: Proxy, tmp_path: Path) -> None:
    proxy.refused_creations = [(503, {"error_code": 50302, "message": "starting"})]
    assert consume(proxy, tmp_path) == 1
    assert proxy.made == 1
