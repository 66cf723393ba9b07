"""What needs copies: acks against a leader that is killed, what replication adds, and a measurement with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from lab.bench.clients.cases import losses, producers
from lab.bench.clients.driver import Driver, running_driver
from lab.bench.clients.phases import Bench, consumed, lost, produced, with_topic
from lab.services.broker_cluster import BrokerNode, running_nodes
from tests.awaiting import await_that
from tests.kafka.loads import ROOT
from tests.kafka.modules import run_module
from verify.limits import main as limits

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
QUICK = {"broker.session.timeout.ms": "3000"}
#: More than what copies ask their leader in one request each, less than what a broker's sockets take.
UNREAD_BYTES = 20_000


@pytest.fixture(scope="module")
def nodes(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[BrokerNode]]:
    with running_nodes(jars, tmp_path_factory.mktemp("nodes"), 3, config=QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def bench(nodes: Sequence[BrokerNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with running_driver(nodes[0].jars, tmp_path_factory.mktemp("driver")) as driver:
        assert isinstance(driver, Driver)
        yield Bench(nodes, driver, 3, 200, warm_up_s=0.5, seconds=1, steady=500)


def test_a_phase_says_rates_latencies_requests_and_cpu(bench: Bench) -> None:
    answer = produced(bench, producers(3)["balanced"], "phase", rate=500)
    assert answer["records"] > 0
    assert answer["failed"] == 0
    assert answer["requests_per_s"]["Produce"] > 0
    assert answer["brokers_cpu_s"] > 0
    assert 0 < answer["latency_ms"]["p50"] <= answer["latency_ms"]["p99"] <= answer["latency_ms"]["p99.9"]


def test_a_consumers_latency_runs_from_when_a_record_was_to_be_sent(bench: Bench) -> None:
    with_topic(bench, "read")
    late = {"fetch.min.bytes": "1000000", "fetch.max.wait.ms": "400"}
    consumed(bench, late, "read", rate=500)  # a JVM that has read before
    # Half of them wait longer than half of 400 ms, on whatever machine: no faster one can make it less.
    assert consumed(bench, late, "read", rate=500)["latency_ms"]["p50"] > 100


def test_what_all_copies_acknowledged_outlives_the_leader(bench: Bench) -> None:
    found = lost(bench, losses(1)["acks=all"], "killed-all", 2000)
    assert found["acked"] > 0
    assert (found["lost"], found["doubled"]) == (0, 0)


def test_what_nobody_acknowledged_is_lost_with_the_leader(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = BrokerNode.kill

    def hang_and_die(node: BrokerNode) -> None:
        """Die with records in its sockets: one that is killed between two reads has nothing to lose."""
        os.kill(node.pid, signal.SIGSTOP)
        await_that(lambda: unread_bytes(node) > UNREAD_BYTES, "records wait in the leader's sockets")
        kill(node)

    monkeypatch.setattr(BrokerNode, "kill", hang_and_die)
    assert lost(bench, losses(1)["acks=0"], "killed-0", 2000)["lost"] > 0


def unread_bytes(node: BrokerNode) -> int:
    """Return what waits in the sockets of a node's port, of the kernel's table (man 5 proc_net)."""
    port = f"{int(node.bootstrap_servers.rpartition(':')[2]):04X}"
    tables = (Path(f"/proc/net/{name}").read_text().splitlines() for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1].endswith(f":{port}"))


def test_the_latency_of_replication_is_expected_and_measured(
    nodes: Sequence[BrokerNode], bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = nodes[0].bootstrap_servers
    nodes[0].create_topic("copied", 3, copies=3)
    limits(["--bootstrap-servers", servers, "--cluster", "leaf", "--measure", "--format", "json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    expected = rows["ms that replication is expected to add"]["found"]
    assert 0 < expected < 1
    assert rows["ms that replication was measured to add"]["found"] > expected
    assert "3 copies" in rows["ms that replication was measured to add"]["because"]


@pytest.mark.long
def test_a_measurement_with_copies_says_what_they_cost(nodes: Sequence[BrokerNode], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "verify.measure", "--cluster", "leaf", "--replication", "3"]
    command += ["--bootstrap-servers", nodes[0].bootstrap_servers, "--partitions", "1", "--repetitions", "1"]
    # Long enough that three brokers that others keep from a processor still take something in the window.
    command += ["--seconds", "4", "--warm-up", "1", "--runs", str(tmp_path), "--out", str(tmp_path / "r.yml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "the leader alone (acks=1): done" in done.stderr
    recommended = yaml.safe_load((tmp_path / "r.yml").read_text())["recommended"]
    assert "kafka_partition_rates" in recommended, done.stdout
    (rates,) = recommended["kafka_partition_rates"]
    assert rates["replication"] == 3


def test_the_gate_of_a_rolling_restart_stays_closed_until_every_copy_is_back(
    nodes: Sequence[BrokerNode],
) -> None:
    nodes[0].create_topic("gated", 3, copies=3)
    gate = {"bootstrap_servers": nodes[0].bootstrap_servers, "brokers": 3, "seconds": 60}
    assert not run_module("kafka_replicas_gate", gate)["failed"]
    client = AdminClient({"bootstrap.servers": nodes[0].bootstrap_servers})
    nodes[2].kill()
    try:
        await_that(lambda: len(client.list_topics(timeout=10).brokers) == 2, "the killed broker is missed")
        for brokers, said in (
            (3, "2 of 3 brokers are there"),
            (2, "partitions are under-replicated, such as "),
        ):
            told = run_module("kafka_replicas_gate", {**gate, "brokers": brokers, "seconds": 0})
            assert told["failed"]
            assert said in told["msg"]
    finally:
        nodes[2].start()
    assert not run_module("kafka_replicas_gate", gate)["failed"]
