"""Two clusters with a way between them, and real MirrorMaker processes with the plan's settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kedge.services.planning import make_plan
from lab.bench.mirror.cases import planned
from lab.fleet import toxiproxy
from lab.fleet.toxiproxy import Toxiproxy, Way
from lab.services.broker_cluster import BrokerNode, running_nodes
from lab.services.brokers import Broker, kafka_jars, running_broker
from lab.services.mirrors import CLASSIC_JARS, has_jars, start_classic, start_mm2
from lab.services.serving import free_ports
from tests.awaiting import await_that
from tests.kafka.loads import ROOT
from tests.planned import instances, mirrors

PARTITIONS = 4
COMMIT_MS = 2000
_NO_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
Place = tuple[int, int]
PLAN = planned(PARTITIONS, 20, 2, "measured")


@dataclass
class Site:
    """Two clusters, the way between them, and the processes that were started."""

    source: Broker
    target: BrokerNode
    link: Toxiproxy
    link_port: int
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def topics(self, name: str, config: dict[str, str] | None = None, partitions: int = PARTITIONS) -> None:
        """Make a topic on both clusters; ``config`` is the target's."""
        self.source.create_topic(name, partitions, {"max.message.bytes": "2000000"})
        self.target.create_topic(name, partitions, config=config)

    def mirror(
        self, topic: str, number: int = 0, commit_ms: int = COMMIT_MS, **producer: object
    ) -> subprocess.Popen[bytes]:
        """Start a planned process of the topic's flow; more or other settings of its producer by name."""
        own = {key.replace("_", "."): value for key, value in producer.items()}
        process = start_classic(
            self.folder / f"{topic}-{number}",
            topic,
            {
                **PLAN.consumer,
                "bootstrap.servers": self.source.bootstrap_servers,
                "group.id": f"mirror-maker-{topic}",
                "group.instance.id": f"{topic}-{number}",
            },
            {
                **PLAN.producer,
                "linger.ms": 50,
                "bootstrap.servers": f"127.0.0.1:{self.link_port}",
                "client.id": f"{topic}-{number}",
                **own,
            },
            PLAN.heap_mib,
            ["--offset.commit.interval.ms", str(commit_ms)],
        )
        self.processes.append(process)
        return process

    def mirror_2(self, topic: str, number: int = 0, **flow: Any) -> subprocess.Popen[bytes]:
        """Start a planned worker of MirrorMaker 2 for the topic's flow, under the name of its source."""
        properties, heap_mib = planned_worker(topic, flow)
        properties |= {
            "leaf.bootstrap.servers": self.source.bootstrap_servers,
            "agg.bootstrap.servers": f"127.0.0.1:{self.link_port}",
            "listeners": "http://127.0.0.1:0",
        }
        process = start_mm2(self.folder / f"{topic}-{number}", properties, "agg", heap_mib)
        self.processes.append(process)
        return process

    def log(self, topic: str, number: int = 0) -> str:
        """Return what a process printed."""
        return (self.folder / f"{topic}-{number}" / "log").read_text(errors="replace")

    def committed(self, topic: str) -> dict[int, int]:
        """Return what the flow's group has committed of each partition."""
        asker = Consumer(
            {"bootstrap.servers": self.source.bootstrap_servers, "group.id": f"mirror-maker-{topic}"}
        )
        try:
            asked = [TopicPartition(topic, n) for n in range(PARTITIONS)]
            return {p.partition: max(0, p.offset) for p in asker.committed(asked, timeout=10)}
        except KafkaException as error:
            if error.args[0].code() not in _NO_COORDINATOR:
                raise
            # The group is so new that its coordinator is being found.
            return dict.fromkeys(range(PARTITIONS), 0)
        finally:
            asker.close()


def planned_worker(topic: str, flow: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return mm2.properties and the heap (MiB) of a planned worker of the flow TOPIC."""
    spec = {
        "topics": [topic],
        "latency_budget_ms": 2 * COMMIT_MS,
        "replication_policy": "identity",
        "largest_topic_partitions": PARTITIONS,
    }
    one = {
        name: {"version": "4.3.1", "bootstrap_servers": "x:1", "broker_count": 1} for name in ("leaf", "agg")
    }
    common = {"kafka_clusters": one, "advice": "measured"}
    ends = {"source": "leaf", "target": "agg"}
    role = {"kind": "mirror_maker_2", "version": "4.3.1", "common": common}
    plan = make_plan(mirrors(1, flows={topic: ends | spec | flow}, **role))
    (instance,) = instances(plan, "mirror_maker")["mm1"]
    settings = {s.key: s.value for s in instance.settings if s.file.endswith("mm2.properties")}
    heap = next(s.value for s in instance.settings if s.key == "KAFKA_HEAP_OPTS")
    return dict(settings), int(heap.rpartition("-Xmx")[2].removesuffix("m"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    jars = kafka_jars()
    if jars is None or not has_jars(CLASSIC_JARS):
        pytest.skip("the jars are not cached: make setup")
    if reason := toxiproxy.PROGRAM.obstacle():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("faults")
    far, link_port, api = free_ports(3)
    ways = [Way(f"127.0.0.1:{link_port}", f"127.0.0.1:{far}")]
    with (
        running_broker(jars) as source,
        running_nodes(jars, folder, far=(far, link_port)) as (target,),
        toxiproxy.running(ways, 20, api) as link,
    ):
        made = Site(source, target, link, link_port, folder)
        try:
            yield made
        finally:
            for process in made.processes:
                process.kill()
                process.wait()


class Writer:
    """Writes numbered records to a topic of the source, some thousand a second, until it is told to end."""

    def __init__(self, site: Site, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": site.source.bootstrap_servers, "linger.ms": 5})
        self._topic = topic
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.written = 0

    def _run(self) -> None:
        while not self._end.wait(0.01):
            for number in range(self.written, self.written + 40):
                self._producer.produce(self._topic, f"record {number}".encode(), f"key {number % 97}")
            self.written += 40
            self._producer.poll(0)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        assert self._producer.flush(30) == 0


def read(bootstrap_servers: str, topic: str) -> dict[bytes, list[Place]]:
    """Return where each value of a topic is, in the order of its places."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "truth", "enable.partition.eof": True}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: dict[bytes, list[Place]] = {}
        at_end: set[int] = set()
        while len(at_end) < len(partitions):
            for message in consumer.consume(10_000, 1):
                if message.error() is not None:
                    at_end.add(message.partition())
                else:
                    found.setdefault(message.value(), []).append((message.partition(), message.offset()))
        return found
    finally:
        consumer.close()


def missing(site: Site, topic: str) -> set[bytes]:
    ours = read(site.source.bootstrap_servers, topic).keys()
    return set(ours - read(site.target.bootstrap_servers, topic).keys())


def held(bootstrap_servers: str, topic: str) -> int:
    return sum(len(places) for places in read(bootstrap_servers, topic).values())


def copies(site: Site, topic: str) -> set[int]:
    """Return how often the records of a topic are in the target."""
    return {len(places) for places in read(site.target.bootstrap_servers, topic).values()}


def in_order(site: Site, topic: str) -> bool:
    """Whether records of one source partition keep their order where they meet in the target."""
    source = {value: places[0] for value, places in read(site.source.bootstrap_servers, topic).items()}
    seen: dict[tuple[int, int], int] = {}
    where = [(p[0], value) for value, p in read(site.target.bootstrap_servers, topic).items()]
    for (partition, _), value in sorted(where):
        home, offset = source[value]
        if offset < seen.get((home, partition), -1):
            return False
        seen[home, partition] = offset
    return True


def await_all(site: Site, topic: str) -> None:
    await_that(lambda: not missing(site, topic), f"all of {topic} is mirrored")


def audited(site: Site, flows: Mapping[str, int], folder: Path) -> tuple[int, dict[str, Any]]:
    """Let the audit compare the flows' topics on both clusters, as after a run.

    Args:
        site: whose clusters it reads.
        flows: the partitions of the topic that each flow is named after.
        folder: takes the evidence and the report.

    Returns:
        The audit's exit status, and what its mirror check found.
    """
    clusters = {"leaf": site.source.bootstrap_servers, "agg": site.target.bootstrap_servers}
    document: dict[str, Any] = {
        "run_id": "mirrors",
        "started_us": 0,
        "ended_us": 1,
        "measured_until_us": 1,
        "clusters": {name: {"bootstrap_servers": where} for name, where in clusters.items()},
        "topics": [
            {
                "cluster": cluster,
                "topic": flow,
                "partitions": count,
                "start_offsets": {str(n): 0 for n in range(count)},
            }
            for flow, count in flows.items()
            for cluster in clusters
        ],
        "mirrors": [
            {
                "flow": flow,
                "source": {"cluster": "leaf", "topic": flow},
                "target": {"cluster": "agg", "topic": flow},
            }
            for flow in flows
        ],
    }
    (folder / "evidence").mkdir()
    (folder / "evidence" / "run.json").write_text(json.dumps(document))
    (folder / "slo.yml").write_text("mirror: {}\n")
    command = ["--evidence", str(folder / "evidence"), "--slo", str(folder / "slo.yml")]
    done = subprocess.run(
        [sys.executable, "-m", "spark_checks", *command, "--out", str(folder / "report")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    report = folder / "report" / "verdicts.json"
    assert report.exists(), done.stdout + done.stderr
    (found,) = json.loads(report.read_text())["checks"]
    return done.returncode, found
