"""Mirrors with the plan's settings, from an open cluster to one that asks for a certificate and a login."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from local.services.brokers import Broker, free_ports, kafka_jars, log_tail, running_broker
from local.services.mirrors import CLASSIC_JARS, MM2_JARS, has_jars, start_classic, start_mm2
from sizing.plan import make_plan
from tests.awaiting import await_that
from tests.kafka.certificates import make_authority, make_certificate, make_store
from tests.kafka.mirror_site import held
from tests.planned import instances, mirrors

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300), pytest.mark.long]

PASSWORD = "planted-mirror"
RECORDS = 1000


@dataclass
class Ends:
    """An open source and a guarded target, which the test itself may ask by another listener."""

    source: Broker
    target: Broker
    guarded: str
    folder: Path


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    jars = kafka_jars()
    if jars is None or not has_jars(CLASSIC_JARS) or not has_jars(MM2_JARS):
        pytest.skip("the jars are not cached: make setup")
    folder = tmp_path_factory.mktemp("keys")
    ca = make_authority(folder)
    (port,) = free_ports(1)
    guarded = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SASL_SSL",
        "listener.name.far.ssl.keystore.type": "PEM",
        "listener.name.far.ssl.keystore.location": str(make_store(folder, "broker")),
        "listener.name.far.ssl.truststore.type": "PEM",
        "listener.name.far.ssl.truststore.location": str(ca),
        "listener.name.far.ssl.client.auth": "required",
        "listener.name.far.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.far.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_mirror="{PASSWORD}" user_kedge="planted-kedge";'
        ),
    }
    with running_broker(jars) as source, running_broker(jars, config=guarded, far=(port, port)) as target:
        yield Ends(source, target, f"127.0.0.1:{port}", folder)


def start(ends: Ends, folder: Path, topic: str, role: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the planned process of a flow of the topic, its files where the test may write."""
    kedge, mirror = (
        dict(zip(("certificate", "key"), map(str, make_certificate(ends.folder, name)), strict=True))
        for name in ("kedge", "mirror")
    )
    security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "ca": str(ends.folder / "ca.pem")}
    security |= {"client_tls": kedge}
    common = {"version": "4.3.1", "broker_count": 1}
    clusters = {
        "leaf": common | {"bootstrap_servers": ends.source.bootstrap_servers},
        "agg": common
        | {"bootstrap_servers": ends.guarded}
        | {"security": security | {"user": "kedge", "password": "planted-kedge"}},
    }
    flow = {
        "source": "leaf",
        "target": "agg",
        "topics": [topic],
        "latency_budget_ms": 4000,
        "replication_policy": "identity",
        "largest_topic_partitions": 1,
        "target_user": "mirror",
        "target_password": PASSWORD,
        "target_client_tls": mirror,
    }
    common = {"kafka_clusters": clusters, "advice": "measured"}
    plan = make_plan(mirrors(1, flows={topic: flow}, common=common, **role))
    assert [f for f in plan.findings if f.severity == "error"] == []
    (instance,) = instances(plan, "mirror_maker")["mm1"]
    files: dict[str, dict[str, str]] = {}
    for setting in instance.settings:
        name = setting.file.rpartition("/")[2]
        if setting.copied:
            with (folder / name).open("ab") as file:
                file.write(Path(setting.value).read_bytes())
        else:
            there = setting.value.replace(f"/etc/mirror-maker/{instance.name}", str(folder))
            files.setdefault(name, {})[setting.key] = there
    if role["kind"] == "classic":
        return start_classic(folder, topic, files["consumer.properties"], files["producer.properties"])
    return start_mm2(folder, files["mm2.properties"] | {"listeners": "http://127.0.0.1:0"}, "agg")


@pytest.mark.parametrize(
    "role",
    [{"kind": "classic", "version": "3.9.2"}, {"kind": "mirror_maker_2", "version": "4.3.1"}],
    ids=lambda role: str(role["kind"]),
)
def test_a_flow_mirrors_into_a_cluster_that_asks_for_a_certificate_and_a_login(
    ends: Ends, tmp_path: Path, role: dict[str, Any]
) -> None:
    topic = str(role["kind"]).replace("_", "-")
    ends.source.create_topic(topic, 1)
    ends.target.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": ends.source.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, f"record {number}".encode())
    assert producer.flush(30) == 0
    process = start(ends, tmp_path, topic, role)
    try:
        await_that(
            lambda: process.poll() is not None or held(ends.target.bootstrap_servers, topic) == RECORDS,
            "all is mirrored, or the process ends",
        )
        assert process.poll() is None, log_tail(tmp_path / "log")
        assert PASSWORD not in (tmp_path / "log").read_text(), "the password is in what the process prints"
    finally:
        process.kill()
        process.wait()
