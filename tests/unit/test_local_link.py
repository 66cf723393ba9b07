"""The long way between clusters: a real Toxiproxy on loopback, before an echo of our own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.setup.go_program import go_version
from kedge.setup.problem import Problem
from lab.fleet import link, toxiproxy
from lab.fleet.inventory import parse_fleet
from lab.fleet.toxiproxy import Toxiproxy, Way
from lab.services.serving import free_ports

HOST = {"ansible_host": "10.77.9.31", "fleet": {"name": "f", "subnet": "10.77.9.0/24"}}


def listing(fleet_link: Any) -> dict[str, Any]:
    return {"_meta": {"hostvars": {"link1": {**HOST, "fleet_link": fleet_link}}}}


@pytest.fixture
def echo() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer(connection: socket.socket) -> None:
            with connection:
                while said := connection.recv(65536):
                    connection.sendall(said)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.fixture
def way(echo: int) -> Iterator[tuple[Toxiproxy, int]]:
    if reason := toxiproxy.PROGRAM.obstacle():
        pytest.skip(reason)
    port, api = free_ports(2)
    with toxiproxy.running([Way(f"127.0.0.1:{port}", f"127.0.0.1:{echo}")], 60, api) as server:
        yield server, port


def trip_ms(connection: socket.socket) -> float:
    began = time.monotonic()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    return (time.monotonic() - began) * 1000


@pytest.mark.process
@pytest.mark.parametrize("wanted", [60, 200, 1, 0])
def test_an_answer_takes_at_least_the_round_trip_that_is_set(way: tuple[Toxiproxy, int], wanted: int) -> None:
    server, port = way
    server.delay(wanted)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        assert trip_ms(connection) >= wanted
    assert [trip for _, trip, _ in server.state().values()] == [wanted]


@pytest.mark.process
def test_a_round_trip_out_of_range_is_refused_and_changes_nothing(way: tuple[Toxiproxy, int]) -> None:
    server, _ = way
    for wrong in (-1, 201):
        with pytest.raises(Problem, match="say one of 0 to 200"):
            server.delay(wrong)
    assert [trip for _, trip, _ in server.state().values()] == [60]


@pytest.mark.process
def test_a_cut_way_gives_no_answer_until_it_is_mended(way: tuple[Toxiproxy, int]) -> None:
    server, port = way
    with socket.create_connection(("127.0.0.1", port)) as connection:
        trip_ms(connection)
        server.cut()
        connection.sendall(b"x")
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert [cut for _, _, cut in server.state().values()] == [True]
        server.mend()
        connection.settimeout(10)
        # What was sent is lost, so the connection ends: nobody may take it for a whole one.
        assert connection.recv(1) == b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        assert trip_ms(connection) >= 60


@pytest.mark.process
def test_ways_that_are_no_longer_wanted_are_closed(way: tuple[Toxiproxy, int], echo: int) -> None:
    server, port = way
    (other,) = free_ports(1)
    server.lay([Way(f"127.0.0.1:{other}", f"127.0.0.1:{echo}")], 0)
    assert list(server.state()) == [f"127.0.0.1:{other}"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_that_is_not_there_is_named() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Problem, match=f"does not answer at http://127.0.0.1:{port}.*is the link up"):
        Toxiproxy(f"http://127.0.0.1:{port}").delay(60)


def test_the_ways_of_a_link_are_read_from_the_inventory() -> None:
    given = {"round_trip_ms": 60, "ways": {9094: "10.77.9.12:9094"}}
    (node,) = parse_fleet(listing(given), Path("inv")).nodes
    assert node.link is not None
    assert (node.link.round_trip_ms, node.link.ways) == (60, ((9094, "10.77.9.12:9094"),))


@pytest.mark.parametrize(
    "wrong",
    [{}, {"ways": {}}, {"ways": {9094: "agg1"}}, {"ways": {0: "a:1"}}, {"ways": ["a:1"]}, "agg1", None],
)
def test_a_link_without_a_usable_way_is_one_line_with_an_example(wrong: Any) -> None:
    with pytest.raises(Problem, match=r"inventory inv: fleet_link of link1 must have .*9094: 10.77"):
        parse_fleet(listing(wrong), Path("inv"))


def test_another_round_trip_makes_no_node_anew() -> None:
    nodes = [
        parse_fleet(listing({"round_trip_ms": trip, "ways": {1: "a:1"}}), Path("inv")).nodes
        for trip in (0, 60)
    ]
    assert repr(nodes[0]) == repr(nodes[1])


def test_netem_puts_half_of_the_round_trip_on_each_direction() -> None:
    assert "netem delay 30ms" in link.netem_command(60)


def test_a_fleet_without_a_link_is_told_so() -> None:
    facts = {"_meta": {"hostvars": {"rest1": HOST}}}
    with pytest.raises(Problem, match="no host has fleet_link"):
        link.link_nodes(parse_fleet(facts, Path("inv")))


def test_the_go_that_is_too_old_for_toxiproxy_is_told_from_one_that_is_not() -> None:
    assert go_version("go version go1.19.8 linux/amd64") < toxiproxy.PROGRAM.least_go
    assert go_version("go version go1.26.8 linux/amd64") >= toxiproxy.PROGRAM.least_go
    assert go_version("") == (0, 0)
