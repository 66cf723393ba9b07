"""The phases of the bench: a case at full speed and at a steady rate, and a leader that is killed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from lab.bench.clients.cases import Config
from lab.bench.clients.driver import Driver, DriverReply
from lab.services.broker_cluster import BrokerNode

#: Kinds of requests that the brokers count.
KINDS: Final = ("Produce", "FetchConsumer", "FetchFollower")
_IN_SYNC_S: Final = 60.0
#: Until after the next leader is there, so that what clients do then is seen as well.
_AFTER_S: Final = 4.0
_TOPIC: Final = {"min.insync.replicas": "2"}


@dataclass(frozen=True)
class Bench:
    """Where and how long; ``steady`` is the records/s of the phases at a rate."""

    nodes: Sequence[BrokerNode]
    driver: Driver
    partitions: int
    record_bytes: int
    warm_up_s: float
    seconds: float
    steady: int

    @property
    def servers(self) -> str:
        """All nodes, so that a client finds one that lives."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def alive(self) -> BrokerNode:
        """Return a node to ask."""
        return next(n for n in self.nodes if n.process is not None and n.process.poll() is None)


def produced(
    bench: Bench, config: Config, topic: str, rate: int = 0, seconds: float | None = None
) -> DriverReply:
    """Produce to a topic of its own, gone afterwards; return the answer, with requests per second."""
    with_topic(bench, topic)
    answer = _counted(bench, "produce", config, topic, rate, seconds)
    _remove(bench, topic)
    return answer


def consumed(
    bench: Bench, config: Config, topic: str, rate: int = 0, seconds: float | None = None
) -> DriverReply:
    """Read a topic that is there; return the answer, with requests per second."""
    own = {"enable.auto.commit": "false", "auto.offset.reset": "earliest", **config}
    return _counted(bench, "consume", own, topic, rate, seconds)


def lost(bench: Bench, config: Config, topic: str, rate: int = 0) -> dict[str, int]:
    """Kill the leader of a topic of one partition while it is written to; return what became of the records.

    ``rate`` in records/s, 0 for as fast as it goes. The killed node is back, and all copies in sync, when
    this returns; the topic is gone.
    """
    with_topic(bench, topic, partitions=1)
    leader = next(n for n in bench.nodes if n.number == _partition(bench, topic).leader)
    bench.driver.order("produce", config=_connected(bench, config), topic=topic, records_per_s=rate,
                       record_bytes=bench.record_bytes, warm_up_s=1, seconds=_AFTER_S, tell=True)  # fmt: skip
    bench.driver.answer()
    leader.kill()
    answer = bench.driver.answer()
    leader.start(wait=False)
    found = bench.driver.do("find", config=_connected(bench, {"enable.auto.commit": "false"}), topic=topic)
    leader.await_answer()
    _await_in_sync(bench, topic)
    _remove(bench, topic)
    return {**{key: answer[key] for key in ("sent", "acked", "failed")}, **found}


def with_topic(bench: Bench, topic: str, partitions: int | None = None) -> None:
    """Have a topic, all its copies in sync."""
    bench.alive().create_topic(topic, partitions or bench.partitions, len(bench.nodes), _TOPIC)
    _await_in_sync(bench, topic)


def _counted(
    bench: Bench, do: str, config: Config, topic: str, rate: int, seconds: float | None
) -> DriverReply:
    pids = [node.pid for node in bench.nodes]
    before, begin = bench.driver.requests(pids), time.monotonic()
    answer = bench.driver.do(
        do, config=_connected(bench, config), topic=topic, records_per_s=rate, broker_pids=pids,
        record_bytes=bench.record_bytes, warm_up_s=bench.warm_up_s, seconds=seconds or bench.seconds,
    )  # fmt: skip
    took = time.monotonic() - begin
    after = bench.driver.requests(pids)
    answer["requests_per_s"] = {k: round((after.get(k, 0) - before.get(k, 0)) / took, 1) for k in KINDS}
    return answer


def _connected(bench: Bench, config: Config) -> Config:
    return {**config, "bootstrap.servers": bench.servers}


def _admin(bench: Bench) -> AdminClient:
    return AdminClient({"bootstrap.servers": bench.servers, "log_level": 0})


def _remove(bench: Bench, topic: str) -> None:
    admin = _admin(bench)  # an answer comes as long as its client lives
    admin.delete_topics([topic])[topic].result(30)


def _partition(bench: Bench, topic: str) -> Any:
    return _admin(bench).list_topics(topic, timeout=10).topics[topic].partitions[0]


def _await_in_sync(bench: Bench, topic: str) -> None:
    deadline = time.monotonic() + _IN_SYNC_S
    admin = _admin(bench)
    while time.monotonic() < deadline:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        if partitions and all(len(p.isrs) == len(bench.nodes) and p.leader >= 0 for p in partitions):
            return
        time.sleep(0.1)
    raise RuntimeError(f"topic {topic} has copies out of sync after {_IN_SYNC_S:.0f} s")
