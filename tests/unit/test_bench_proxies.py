"""The bench of proxies that stop under groups: what its consumers do, and what is told of a group."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from lab.bench.rebalance.proxies import _Watched
from lab.bench.rest.restarts import Group, stamped
from tests.answering import JsonHandler, Server
from tests.awaiting import await_that
from verify.watch.ownership import GroupSample

PARTITION = ("t", 0)


class ProxyInPlaceOfAReal(JsonHandler, BaseHTTPRequestHandler):
    """A proxy whose reads give the same two records for ever."""

    value = ""

    def do_POST(self) -> None:
        self.server.asked.append(("POST", self.path, body := self.asked()))  # type: ignore[attr-defined]
        mood: set[str] = self.server.mood  # type: ignore[attr-defined]
        refused = "cold" in mood or ("refuse" in mood and self.path.endswith("/offsets"))
        assert body is not None
        self.answer(500 if refused else 200, {"instance_id": "i"})

    def do_GET(self) -> None:
        self.answer(200, [{"partition": 0, "offset": offset, "value": self.value} for offset in (1, 2)])

    def do_DELETE(self) -> None:
        self.server.asked.append(("DELETE", self.path, None))  # type: ignore[attr-defined]
        self.answer(204, None)


@pytest.fixture
def proxies() -> Iterator[list[Any]]:
    servers = [Server(ProxyInPlaceOfAReal) for _ in range(2)]
    for server in servers:
        server.asked, server.mood = [], set()  # type: ignore[attr-defined]
    yield servers
    for server in servers:
        server.stop()


def urls(servers: list[Any]) -> tuple[str, ...]:
    return tuple(server.url for server in servers)


def test_consumers_leave_a_drained_proxy_without_a_word_and_go_to_the_other(proxies: list[Any]) -> None:
    first, second = proxies
    with Group(urls(proxies), "t", 1, commit_s=0) as group:
        await_that(lambda: group.redelivered > 0, "it reads from the first")
        assert not second.asked
        group.shut = frozenset(urls(proxies)[:1])
        await_that(lambda: len(second.asked) > 1, "it makes itself an instance at the second")
    assert "DELETE" not in {method for method, _, _ in first.asked}
    assert "DELETE" in {method for method, _, _ in second.asked}
    assert group.homes == {0: urls(proxies)[1]}


def test_the_first_instance_is_made_at_its_own_proxy_however_often_that_refuses(proxies: list[Any]) -> None:
    first, second = proxies
    first.mood.add("cold")
    with Group(urls(proxies), "t", 1, commit_s=0) as group:
        await_that(lambda: len(first.asked) > 1, "it asks again")
        first.mood.clear()
        await_that(lambda: group.homes, "it has one")
    assert group.homes == {0: urls(proxies)[0]}
    assert not second.asked


def test_consumers_tell_how_long_a_record_took(proxies: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    written = time.monotonic()
    monkeypatch.setattr(ProxyInPlaceOfAReal, "value", base64.b64encode(stamped(100)).decode())
    with Group(urls(proxies), "t", 1, timed=True) as group:
        await_that(lambda: len(group.took_ms) > 1, "it has read")
    first, *_, last = group.took_ms
    assert 0 < first <= last < (time.monotonic() - written) * 1000


def test_a_commit_that_a_rebalance_refuses_does_not_end_a_consumer(proxies: list[Any]) -> None:
    first, _ = proxies
    first.mood.add("refuse")

    def commits() -> list[Any]:
        return [body for method, path, body in first.asked if path.endswith("/offsets")]

    with Group(urls(proxies), "t", 1, commit_s=0) as group:
        await_that(lambda: len(commits()) > 2, "it goes on committing")
        assert group.reads(1, 5.0)
    assert commits()[0] == {"offsets": [{"topic": "t", "partition": 0, "offset": 2}]}
    made = [path for method, path, _ in first.asked if path == f"/consumers/{group.name}"]
    assert len(made) == 1


def test_a_partition_is_alone_from_the_sample_that_had_an_owner_to_the_next_one() -> None:
    def sample(state: str, members: dict[str, set[Any]]) -> GroupSample:
        return GroupSample(state, "range", False, {name: frozenset(owned) for name, owned in members.items()})

    watched = _Watched(2)
    watched.tell(sample("Stable", {"a": {PARTITION}}), 1_000_000)
    watched.forget()
    watched.tell(sample("PreparingRebalance", {"a": set()}), 2_000_000)
    assert watched.worst_s() == 1
    watched.tell(sample("Stable", {"b": {PARTITION}}), 4_500_000)
    watched.tell(sample("Stable", {"b": {PARTITION}}), 9_000_000)
    assert watched.worst_s() == 3.5
