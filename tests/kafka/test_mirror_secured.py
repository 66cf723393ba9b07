"""Mirrors with the plan's settings, from an open cluster to one that asks for logins, certificates or tokens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kedge.plan.inventory.security import ALLOWED
from kedge.services.planning import make_plan
from lab.services.brokers import Broker, log_tail, running_broker
from lab.services.mirrors import CLASSIC_JARS, MM2_JARS, has_jars, start_classic, start_mm2
from tests.awaiting import await_that
from tests.kafka.mirror_site import held
from tests.kafka.secured_site import Site, secured_site, written
from tests.planned import instances, mirrors

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300), pytest.mark.long]

RECORDS = 1000


@pytest.fixture(scope="module")
def source(jars: Path) -> Iterator[Broker]:
    if not has_jars(CLASSIC_JARS) or not has_jars(MM2_JARS):
        pytest.skip("the jars are not cached: make setup")
    with running_broker(jars) as running:
        yield running


@pytest.fixture(scope="module", params=["both", "tokens"])
def target(
    request: pytest.FixtureRequest, jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with secured_site(jars, tmp_path_factory.mktemp("target"), request.param) as running:
        yield running


def start(
    source: Broker, target: Site, folder: Path, topic: str, role: dict[str, Any]
) -> subprocess.Popen[bytes]:
    """Start the planned process of a flow of the topic, its files where the test may write."""
    common = {"version": "4.3.1", "broker_count": 1}
    clusters = {
        "leaf": common | {"bootstrap_servers": source.bootstrap_servers},
        "agg": common | {"bootstrap_servers": target.secured, "security": target.security},
    }
    flow = {
        "source": "leaf",
        "target": "agg",
        "topics": [topic],
        "latency_budget_ms": 4000,
        "replication_policy": "identity",
        "largest_topic_partitions": 1,
        **{f"target_{name}": value for name, value in target.login.items()},
    }
    common = {"kafka_clusters": clusters, "advice": "measured"}
    plan = make_plan(mirrors(1, flows={topic: flow}, common=common, **role))
    assert [f.line() for f in plan.findings if f.severity == "error"] == []
    (instance,) = instances(plan, "mirror_maker")["mm1"]
    home = f"/etc/mirror-maker/{instance.name}"
    files = {
        name: written(instance, folder, name, home)
        for name in ("consumer.properties", "producer.properties", "mm2.properties", "environment")
    }
    flags = [flag for flag in files["environment"]["KAFKA_OPTS"].split() if flag.startswith(ALLOWED)]
    assert len(flags) == ("oauth" in target.security)
    if role["kind"] == "classic":
        return start_classic(
            folder, topic, files["consumer.properties"], files["producer.properties"], options=flags
        )
    properties = files["mm2.properties"] | {"listeners": "http://127.0.0.1:0"}
    return start_mm2(folder, properties, "agg", options=flags)


@pytest.mark.parametrize(
    "role",
    [{"kind": "classic", "version": "3.9.2"}, {"kind": "mirror_maker_2", "version": "4.3.1"}],
    ids=lambda role: str(role["kind"]),
)
def test_a_flow_mirrors_into_a_secured_cluster(
    source: Broker, target: Site, tmp_path: Path, role: dict[str, Any]
) -> None:
    topic = f"{role['kind']}-{'tokens' if 'oauth' in target.security else 'both'}".replace("_", "-")
    source.create_topic(topic, 1)
    target.broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, f"record {number}".encode())
    assert producer.flush(30) == 0
    process = start(source, target, tmp_path, topic, role)
    try:
        await_that(
            lambda: process.poll() is not None or held(target.broker.bootstrap_servers, topic) == RECORDS,
            "all is mirrored, or the process ends",
        )
        assert process.poll() is None, log_tail(tmp_path / "log")
        said = (tmp_path / "log").read_text()
        assert target.login["password"] not in said, "the password is in what the process prints"
    finally:
        process.kill()
        process.wait()
