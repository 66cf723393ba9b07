"""Faults on real brokers that lose records for good: the audit finds just those, and names them.

What was lost is known apart from the audit: the ledger's acknowledged records against what is in the topic, and
what is in the topic against what the group had written down.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kedge.evidence.load_options import read_load
from kedge.evidence.writing import rows_to_columns, write_json, write_table
from lab.bench.rebalance.trial import name_groups, start_member
from lab.services.broker_cluster import BrokerNode, running_nodes
from lab.services.brokers import end_process
from lab.services.rest_proxies import RunningProxy, launch, running_proxy, unpack
from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.forwarder import forwarder_in_place_of_haproxy
from tests.kafka.loads import ROOT, LoadRun
from verify.load.cluster import committed
from verify.process import now_us

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]

RATE = 2000
ACKS_1: dict[str, Any] = {"acks": 1, "enable.idempotence": False}
#: A dead broker is known as such after this; the group's offsets outlive it.
THREE = {"broker.session.timeout.ms": "3000", "offsets.topic.replication.factor": "3"}
Place = tuple[str, int, int]


def audited(run: LoadRun) -> tuple[str, dict[str, Any]]:
    """Audit a run as a person does; return what was printed and what was found by check. It must have failed."""
    (run.folder / "slo.yml").write_text("rebalance: {min_restarts: 0}\n")
    places = {
        "evidence": run.folder / "evidence",
        "slo": run.folder / "slo.yml",
        "out": run.folder / "report",
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark_checks", *(w for k, v in places.items() for w in (f"--{k}", str(v)))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads((run.folder / "report" / "verdicts.json").read_text())
    assert document["verdict"] == "fail"
    return done.stdout, {check["name"]: check for check in document["checks"]}


def gone(run: LoadRun, *topics: str) -> set[Place]:
    """Where records were acknowledged that are nowhere in these topics."""
    ledger = run.table("ledger")
    acked = ledger[(ledger["outcome"] == "acked") & ledger["topic"].isin(topics)]
    there = {who for topic in topics for who in identities(run.in_topic(topic))}
    rows = zip(
        acked["topic"], acked["partition"].astype(int), acked["offset"].astype(int), identities(acked),
        strict=True,
    )  # fmt: skip
    return {(topic, partition, offset) for topic, partition, offset, who in rows if who not in there}


def identities(rows: Any) -> list[tuple[int, int]]:
    return list(zip(rows["producer"].astype(int), rows["seq"].astype(int), strict=True))


def named(anomaly: dict[str, Any]) -> set[Place]:
    return {(one["topic"], one["partition"], one["offset"]) for one in anomaly["examples"]}


def assert_lost(run: LoadRun, lost: set[Place]) -> None:
    """The audit counts just these as lost, and those that it shows are of them."""
    printed, checks = audited(run)
    anomaly = checks["delivery"]["anomalies"]["lost"]
    assert anomaly["count"] == len(lost)
    shown = named(anomaly)
    assert len(shown) == min(10, len(lost))
    assert shown <= lost
    first = anomaly["examples"][0]
    keys = ("producer", "seq", "topic", "partition", "offset")
    assert "lost: " + ", ".join(f"{key} {first[key]}" for key in keys) in printed
    advice = [one["advice"] for one in checks["delivery"]["recommendations"]]
    assert any("acks=all" in one for one in advice)


def test_records_of_a_torn_log_segment_are_named(
    load_run: Callable[..., LoadRun], broker: CrashableBroker, topic: str
) -> None:
    part = {"topic": topic, "records_per_s": RATE, "group": f"group-{topic}", "producer": ACKS_1}
    run = load_run(kafka=part).start()
    try:
        run.await_acked(2 * RATE)
        broker.kill()
        (segment,) = (broker.folder / "data" / f"{topic}-0").glob("*.log")
        os.truncate(segment, segment.stat().st_size // 2)
    finally:
        broker.start()
    run.await_acked(run.state()["acked"] + RATE)
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    lost = gone(run, topic)
    assert lost
    assert {partition for _, partition, _ in lost} == {0}
    assert_lost(run, lost)


def test_records_that_were_committed_before_they_were_processed_are_named(
    load_run: Callable[..., LoadRun], topic: str
) -> None:
    """The member's work is to write down what it got, every two seconds; its commits do not wait for it."""
    group = "hasty"
    config = {"enable.auto.commit": True, "auto.commit.interval.ms": 50, "session.timeout.ms": 6000}
    run = load_run(kafka={"topic": topic, "records_per_s": RATE, "consumers": 0})
    (run.folder / "members").mkdir()
    write_json(run.folder / "members" / f"{group}.json", config)
    load = read_load(run.folder)

    def position(places: Any) -> int:
        return sum(places.values())

    def processed() -> int:
        written = (run.folder / "evidence" / "deliveries").glob("*.parquet")
        return len(run.table("deliveries")) if list(written) else 0

    members = [start_member(run.folder, group, "hasty-0")]
    try:
        run.start()
        run.await_acked(RATE)

        def caught_ahead() -> bool:
            """Whether it, held still, has committed more than it has written."""
            members[0].send_signal(signal.SIGSTOP)
            if position(committed(load, group, topic, 4)) > processed() > 0:
                return True
            members[0].send_signal(signal.SIGCONT)
            return False

        await_that(caught_ahead, "the member has committed what it has not written")
        members[0].kill()
        members.append(start_member(run.folder, group, "hasty-1"))
        before = processed()
        await_that(lambda: processed() > before, "the next member gets records")
        run.enough()
        assert run.ended() == 0, run.output.read_text()
        truth = run.in_topic(topic)
        await_that(
            lambda: position(committed(load, group, topic, 4)) == len(truth), "the group has read to the end"
        )
    finally:
        members[-1].terminate()
        for member in members:
            member.wait()
    name_groups(run.folder, topic, {group: config})
    got = run.table("deliveries")
    everything = set(zip(truth["partition"].astype(int), truth["offset"].astype(int), strict=True))
    missed = everything - set(zip(got["partition"].astype(int), got["offset"].astype(int), strict=True))
    assert missed

    printed, checks = audited(run)
    found = checks["delivery"]["anomalies"]
    assert "lost" not in found
    assert found["undelivered"]["count"] == len(missed)
    assert named(found["undelivered"]) <= {(topic, *place) for place in missed}
    assert re.search(rf"undelivered: .*group {group}", printed)
    assert any("auto.commit=false" in one["advice"] for one in checks["delivery"]["recommendations"])


@pytest.fixture(scope="module")
def nodes(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[BrokerNode]]:
    with running_nodes(jars, tmp_path_factory.mktemp("nodes"), 3, config=THREE) as running:
        yield running


class Proxies:
    """REST proxies that acknowledge what one replica has, and what was done to them."""

    def __init__(self, home: Path, folder: Path, servers: str, count: int) -> None:
        self._home, self._folder = home, folder
        common = {"bootstrap.servers": servers, "host.name": "127.0.0.1", "producer.acks": "1"}
        self._properties = [
            {**common, "producer.enable.idempotence": "false", "id": f"r{n}"} for n in range(count)
        ]
        self.running: list[RunningProxy] = []
        self.actions: list[dict[str, Any]] = []

    def start(self, stack: ExitStack) -> None:
        heap = {"KAFKAREST_HEAP_OPTS": "-Xmx128M"}
        for number, properties in enumerate(self._properties):
            folder = self._folder / f"proxy-{number}"
            self.running.append(stack.enter_context(running_proxy(self._home, folder, properties, heap)))

    def restart(self, number: int, stack: ExitStack) -> None:
        """Stop one in order and start it again, as a rolling restart does."""
        before, times = self.running[number], [now_us()]
        end_process(before.process)
        times.append(now_us())
        properties = {**self._properties[number], "listeners": before.url}
        folder = self._folder / f"proxy-{number}-again"
        proxy = launch(self._home, folder, properties, {"KAFKAREST_HEAP_OPTS": "-Xmx128M"})
        stack.callback(end_process, proxy.process)
        self.running[number] = proxy
        times.append(now_us())
        address = urlsplit(proxy.url)
        await_that(lambda: _listens(address.hostname, address.port), f"{proxy.url} answers")
        times.append(now_us())
        self.note("kafka_rest", proxy.url, ("stop", "start", "ready"), times)

    def note(self, service: str, instance: str, what: Sequence[str], times: Sequence[int]) -> None:
        for action, begin, end in zip(what, times, times[1:], strict=False):
            who = {"host": "127.0.0.1", "service": service, "instance": instance, "ok": True}
            self.actions.append(who | {"action": action, "started_us": begin, "ended_us": end})


def test_a_rolling_restart_with_a_killed_leader_and_acks_1_names_the_lost_records(
    nodes: Sequence[BrokerNode], sandbox: Path, tmp_path: Path
) -> None:
    """Both ways at once. The followers are held still, so that what is acknowledged meanwhile dies with the leader."""
    servers = ",".join(node.bootstrap_servers for node in nodes)
    leader, *followers = nodes
    admin = AdminClient({"bootstrap.servers": servers})
    copies = [[node.number for node in nodes]] * 2
    topics = ("by-kafka", "by-rest")
    for name, made in admin.create_topics(
        [NewTopic(t, len(copies), replica_assignment=copies) for t in topics]
    ).items():
        made.result(30)
        assert name in topics
    with ExitStack() as stack:
        proxies = Proxies(unpack(sandbox, tmp_path), tmp_path, servers, 4)
        proxies.start(stack)
        addresses = [urlsplit(proxy.url) for proxy in proxies.running]
        url = stack.enter_context(
            forwarder_in_place_of_haproxy([(str(one.hostname), int(one.port or 0)) for one in addresses])
        )
        kafka = {"topic": "by-kafka", "records_per_s": RATE, "group": "by-kafka", "producer": ACKS_1}
        rest = {"topic": "by-rest", "url": url, "records_per_s": RATE / 4, "records_per_request": 50}
        load = {"run_id": "killed-leader", "cluster": "leaf", "bootstrap_servers": servers}
        run = LoadRun(
            tmp_path,
            {**load, "warm_up_s": 1, "min_s": 1, "max_s": 120, "drain_s": 60, "kafka": kafka}
            | {"rest": {**rest, "consumers": 0}},
        ).start()
        run.await_acked(2 * RATE)
        for number in (0, 1):
            proxies.restart(number, stack)
        for node in followers:
            os.kill(node.pid, signal.SIGSTOP)
        try:
            run.await_acked(run.state()["acked"] + RATE)
            times = [now_us()]
            leader.kill()
            times.append(now_us())
        finally:
            for node in followers:
                os.kill(node.pid, signal.SIGCONT)
        run.await_acked(run.state()["acked"] + 2 * RATE)
        times.append(now_us())
        leader.start()
        times.append(now_us())
        proxies.note("kafka", leader.bootstrap_servers, ("kill", "start", "ready"), times)
        for number in (2, 3):
            proxies.restart(number, stack)
        run.enough()
        assert run.ended() == 0, run.output.read_text()
    columns = rows_to_columns("actions", proxies.actions)
    write_table(run.folder / "evidence", "actions", "test", columns)
    lost = gone(run, *topics)
    assert {topic for topic, _, _ in lost} == set(topics)
    assert_lost(run, lost)
    checks = json.loads((run.folder / "report" / "verdicts.json").read_text())["checks"]
    (rebalance,) = (check for check in checks if check["name"] == "rebalance")
    assert [row["service"] for row in rebalance["measured"]["by_restart"]] == [
        *("kafka_rest", "kafka_rest", "kafka", "kafka_rest", "kafka_rest")
    ]


def _listens(host: str | None, port: int | None) -> bool:
    with socket.socket() as one:
        return one.connect_ex((host or "", port or 0)) == 0
