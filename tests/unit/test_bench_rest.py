"""The bench of REST proxies: what it counts, and what its report says; the fleet is not needed for that."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.inventory.reading import read_inventory
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from lab.bench.rebalance.proxies import _Watched
from lab.bench.rest.__main__ import PARTS, main
from lab.bench.rest.cases import Produce, variants
from lab.bench.rest.drive import ProxyRefusedError, produce
from lab.bench.rest.fleet import FleetError, Proxies, proxies
from lab.bench.rest.real import costs
from lab.bench.rest.restarts import Group
from tests.answering import JsonHandler, Server
from verify.watch.ownership import GroupSample

OFFSET: dict[str, Any] = {"partition": 0, "offset": 1, "error_code": None}


class Proxy(JsonHandler, BaseHTTPRequestHandler):
    """Stands in for a REST proxy that takes every record, or none where ``entry`` says so."""

    entry = OFFSET
    produced = 0

    def do_POST(self) -> None:
        body = self.asked()
        if self.path.startswith("/topics/"):
            Proxy.produced += 1
            self.answer(200, {"offsets": [Proxy.entry] * len(body["records"])})
        else:  # a consumer that is made, or subscribes
            self.answer(200, {"instance_id": "i"})

    def do_GET(self) -> None:
        if self.path.startswith("/topics/"):
            return self.answer(200, {"partitions": [{"partition": 0}]})
        return self.answer(200, [{"partition": 0, "value": "eA=="}])

    def do_DELETE(self) -> None:
        self.answer(200, {})


@pytest.fixture
def url() -> Iterator[str]:
    Proxy.entry = OFFSET
    with Server(Proxy) as server:
        yield server.url


@pytest.mark.process
def test_what_a_connection_sends_first_does_not_count(url: str) -> None:
    Proxy.produced = 0
    found = produce([url], "t", Produce(1, clients=1), 20, 0.2, uncounted_s=0.6)
    # A client that waits for a core may send little of what does not count.
    assert 0 < found["records_per_s"] * 0.2 < Proxy.produced * 0.9


@pytest.mark.process
def test_an_error_inside_a_200_ends_the_measurement(url: str) -> None:
    Proxy.entry = {"partition": None, "offset": None, "error_code": 50003}
    with pytest.raises(ProxyRefusedError, match="50003"):
        produce([url], "t", Produce(1, clients=1), 20, 10)


@pytest.mark.slow  # the whole bench, on a double of a proxy
def test_each_part_has_its_figures_and_one_that_fails_costs_no_other(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed: list[str] = []
    fleet = Proxies("sandbox", "1.0.0", (("h", "kafka-rest@1", url),), session_s=0.1)

    def deploy(_: Path, extra: Mapping[str, Any]) -> Proxies:
        deployed.append(json.dumps(extra))
        if "kafka_rest_instances_per_host" in extra:
            raise FleetError("deploy.yml failed: because")
        return fleet

    monkeypatch.setattr("lab.bench.rest.__main__.proxies", lambda *_: fleet)
    monkeypatch.setattr("lab.bench.rest.__main__.deployed", deploy)
    monkeypatch.setattr("lab.bench.rest.__main__.put_back", contextlib.nullcontext)
    monkeypatch.setattr("lab.bench.rest.__main__.end", lambda *_: None)
    monkeypatch.setattr("lab.bench.rest.__main__._AFTER_TERM_S", 0.1)
    short = ["--repetitions", "1", "--seconds", "0.5", "--warm-up", "0.5", "--out", str(tmp_path)]
    parts = ["split", "advice", "restarts"]
    assert main(["--inventory", "anywhere", "--parts", *parts, *short]) == 1
    assert "split: deploy.yml failed: because" in capsys.readouterr().err
    figures = json.loads((tmp_path / "results.json").read_text())["figures"]
    assert set(figures) == {"advice", "advice, one consumer", "restarts"}
    assert set(figures["advice"]) == {"stock", "documented", "measured"}
    assert figures["advice, one consumer"]["measured"]["mb_per_s"][0] > 0
    assert set(figures["restarts"]) == {"TERM", "KILL"}
    # One that failed, the inventory's own for what is to be read, three of the advice, the own for restarts.
    assert len(deployed) == 6
    assert "## advice, one consumer" in (tmp_path / "report.md").read_text()
    # Other parts stay, unless they were measured otherwise.
    assert main(["--inventory", "anywhere", "--parts", "restarts", *short]) == 0
    again = json.loads((tmp_path / "results.json").read_text())["figures"]
    assert again["advice"] == figures["advice"]
    assert again["restarts"] != figures["restarts"]
    assert main(["--inventory", "anywhere", "--parts", "restarts", *short, "--repetitions", "2"]) == 0
    assert set(json.loads((tmp_path / "results.json").read_text())["figures"]) == {"restarts"}


def test_silence_is_that_of_all_and_that_of_the_worst_partition() -> None:
    group = Group(("http://h:1",), "t", 0)
    group.got = {0: [1.0, 2.0, 9.0], 1: [1.5, 4.0, 6.0]}
    assert group.longest_silence(1.0, 10.0) == (3.0, 7.0)


# Where groups speak the consumer protocol, the brokers have the session and the proxies' plan says nothing of it.
@pytest.mark.parametrize(
    ("distribution", "version", "session_s"), [("confluent", "8.3.1", 45), ("strimzi", "0.33.1", 10)]
)
def test_each_case_can_be_deployed(distribution: str, version: str, session_s: float) -> None:
    local = Path(__file__).resolve().parents[2] / "inventories/local"
    of = {"kafka_rest_distribution": distribution, "kafka_rest_version": version}
    of |= {"kafka_rest_archive": "/a.tar.gz", "kafka_rest_archive_checksum": "a1" * 32}
    cases = [variant for part in PARTS[1:-1] for variant in variants(part, distribution)]
    assert len(cases) >= 11
    for case in cases:
        plan = make_plan(read_inventory(local, SERVICES, [json.dumps({**of, **case.extra})]))
        assert [one.message for one in plan.findings if one.severity == "error"] == [], case.name
    assert proxies(local, of).session_s == session_s


@pytest.mark.parametrize(("distribution", "version"), [("confluent", "8.3.1"), ("strimzi", "0.33.1")])
def test_the_forms_of_advice_are_those_of_the_plan(distribution: str, version: str) -> None:
    local = Path(__file__).resolve().parents[2] / "inventories/local"
    of = {"kafka_rest_distribution": distribution, "kafka_rest_version": version}
    of |= {"kafka_rest_archive": "/a.tar.gz", "kafka_rest_archive_checksum": "a1" * 32}
    inventory = read_inventory(local, SERVICES, [json.dumps(of)])
    for case in variants("advice", distribution):
        deployed = make_plan(read_inventory(local, SERVICES, [json.dumps({**of, **case.extra})]))
        assert deployed.services == make_plan(inventory, case.name).services, case.name  # type: ignore[arg-type]


def test_costs_of_a_request_a_record_and_a_byte_are_found_from_their_sums() -> None:
    sizes = [(1, 100), (100, 100), (100, 10_000), (1_000, 1_000)]
    took = {(n, bytes_): 400 + 5.4 * n + 6.4 * n * bytes_ / 1000 for n, bytes_ in sizes}
    assert costs(took) == {"request_us": 400, "record_us": 5.4, "byte_ns": 6.4, "farthest": 1}
    took[100, 100] *= 2
    assert costs(took)["farthest"] > 1.2


def test_a_partition_is_alone_from_the_sample_that_had_an_owner_to_the_next_one() -> None:
    def sample(state: str, members: dict[str, set[Any]]) -> GroupSample:
        return GroupSample(state, "range", False, {name: frozenset(owned) for name, owned in members.items()})

    watched = _Watched(2)
    watched.tell(sample("Stable", {"a": {("t", 0)}}), 1_000_000)
    watched.forget()
    watched.tell(sample("PreparingRebalance", {"a": set()}), 2_000_000)
    assert watched.worst_s() == 1
    watched.tell(sample("Stable", {"b": {("t", 0)}}), 4_500_000)
    watched.tell(sample("Stable", {"b": {("t", 0)}}), 9_000_000)
    assert watched.worst_s() == 3.5
