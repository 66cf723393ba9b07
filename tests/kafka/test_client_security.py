"""A real broker that asks for certificates: Kedge's own clients and services reach it as they are planned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from control.kafka_admin import RefusedError, admin
from local.services.application import SAMPLE_JAR, ApplicationInstance, running_application
from local.services.brokers import Broker, free_ports, running_broker
from local.services.rest_proxies import running_proxy, unpack
from sizing.core.plan import PlannedInstance
from sizing.inventory.security import Security, librdkafka
from sizing.plan import make_plan
from tests.kafka.certificates import make_authority, make_certificate, make_store
from tests.kafka.loads import LoadRun, assert_ledger_is_true
from tests.kafka.modules import run_module
from tests.planned import CLUSTERS, streams
from tests.rest_inventories import rest

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Site:
    """A broker with an open listener, and one that is secured: what a cluster and a service say of it."""

    broker: Broker
    secured: str
    security: dict[str, Any]
    login: dict[str, Any]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a module of Kedge's, as a playbook gives them."""
        seen, secret = librdkafka(Security(**self.security))
        return {"bootstrap_servers": self.secured, "client": seen, "secrets": secret}

    def clusters(self) -> dict[str, Any]:
        cluster = {"bootstrap_servers": self.secured, "security": self.security, "broker_count": 1}
        return {"leaf": CLUSTERS["leaf"] | cluster}


@pytest.fixture(scope="module")
def site(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("mutual")
    ca, store = make_authority(folder), make_store(folder, "broker")
    pairs = {name: make_certificate(folder, name) for name in ("kedge", "service")}
    pair = {name: {"certificate": str(c), "key": str(k)} for name, (c, k) in pairs.items()}
    (port,) = free_ports(1)
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SSL",
        "listener.name.far.ssl.client.auth": "required",
        "listener.name.far.ssl.keystore.type": "PEM",
        "listener.name.far.ssl.keystore.location": str(store),
        "listener.name.far.ssl.truststore.type": "PEM",
        "listener.name.far.ssl.truststore.location": str(ca),
    }
    security = {"protocol": "SSL", "ca": str(ca), "client_tls": pair["kedge"]}
    with running_broker(jars, config=config, far=(port, port)) as broker:
        yield Site(broker, f"127.0.0.1:{port}", security, {"client_tls": pair["service"]})


def written(instance: PlannedInstance, folder: Path, file: str, home: str) -> dict[str, str]:
    """Write the files that a deploy copies; return the settings of a file with their places."""
    found: dict[str, str] = {}
    parts: dict[str, str] = {}
    for setting in instance.settings:
        name = setting.file.rpartition("/")[2]
        if setting.copied:
            parts[name] = parts.get(name, "") + Path(setting.value).read_text()
        elif name == file:
            found[setting.key] = setting.value.replace(home, str(folder))
    for name, text in parts.items():
        (folder / name).write_text(text)
    return found


def test_the_gates_and_the_topics_of_a_deploy_are_reached(site: Site) -> None:
    settings = [{"key": "partitions", "value": "2"}, {"key": "replication.factor", "value": "1"}]
    topic = {"settings": settings}
    made = run_module("kafka_topics_present", {**site.arguments(), "topics": {"gated": topic}})
    assert (made["failed"], made["changed"]) == (False, True), made
    gate = run_module("kafka_group_gate", site.arguments())
    assert not gate["failed"], gate


def test_a_client_that_shows_nothing_is_refused_in_one_line(site: Site) -> None:
    client = {"security.protocol": "SSL", "ssl.ca.location": site.security["ca"]}
    with pytest.raises(RefusedError) as refused:
        admin(site.secured, client)
    assert f"the brokers of {site.secured} refuse Kedge's client: " in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_load_writes_and_reads_and_no_file_of_its_run_holds_a_secret(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.broker.create_topic("loaded", 4)
    seen, secret = librdkafka(Security(**site.security))
    monkeypatch.setenv("KEDGE_SECRETS", json.dumps({"clusters": {"leaf": secret}}))
    load = {"topic": "loaded", "group": "loaded", "records_per_s": 1000, "producers": 1, "consumers": 2}
    document = {"run_id": "run-secured", "cluster": "leaf", "warm_up_s": 0.5, "min_s": 1, "max_s": 60}
    reached = {"bootstrap_servers": site.secured, "client": seen}
    run = LoadRun(tmp_path, document | reached | {"kafka": load, "min_records": 2000}).start()
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    run.bootstrap_servers = site.broker.bootstrap_servers
    ledger, truth = run.table("ledger"), run.in_topic("loaded")
    assert_ledger_is_true(ledger, truth)
    assert len(run.table("deliveries")) == len(truth) == len(ledger) >= 2000
    assert run.run_json()["clusters"]["leaf"]["client"] == seen
    private = [secrets for secrets in secret.values() if secrets]
    private += [Path(site.security["client_tls"]["key"]).read_text().splitlines()[1]]
    held = "".join(file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file())
    assert [one for one in private if one in held] == []


def test_a_proxy_with_the_planned_keys_produces(site: Site, sandbox: Path, tmp_path: Path) -> None:
    site.broker.create_topic("proxied", 1)
    common = {"kafka_clusters": site.clusters(), "fleet": {"name": "f"}}
    plan = make_plan(rest(distribution="sandbox", version="1.0.0", common=common, **site.login))
    assert [f.line() for f in plan.findings if f.severity == "error"] == []
    (instance, *_) = plan.services["rest1"]["kafka_rest"]
    planned = written(instance, tmp_path, "kafka-rest.properties", "/etc/kafka-rest/8082")
    wanted = {k: v for k, v in planned.items() if k.startswith("client.") or k in ("id", "bootstrap.servers")}
    assert any(key.startswith("client.ssl.") for key in wanted)
    environment = {s.key: s.value for s in instance.settings if s.key == "KAFKAREST_OPTS"}
    heap = {"KAFKAREST_HEAP_OPTS": "-Xmx128M"}
    home = unpack(sandbox, tmp_path / "sandbox")
    with running_proxy(
        home, tmp_path / "proxy", wanted | {"host.name": "127.0.0.1"}, environment | heap
    ) as proxy:
        answer = httpx.post(
            f"{proxy.url}/topics/proxied",
            json={"records": [{"value": "a2VkZ2U="}]},
            headers={"Content-Type": "application/vnd.kafka.binary.v2+json"},
            timeout=60,
        )
    assert answer.status_code == 200, answer.text
    assert answer.json()["offsets"][0]["offset"] == 0, answer.text


@pytest.mark.skipif(not SAMPLE_JAR.is_file(), reason="the sample is not built: make setup")
def test_an_application_with_the_planned_keys_runs(site: Site, tmp_path: Path) -> None:
    for topic in ("left", "right", "joined"):
        site.broker.create_topic(topic, 1)
    join = {"name": "joins", "kind": "join", "partitions": 1, "window_ms": 600_000}
    common = {"kafka_clusters": site.clusters()}
    plan = make_plan(streams(1, common=common, stores=[join], **site.login))
    assert [f.line() for f in plan.findings if f.severity == "error"] == []
    (instance,) = plan.services["st1"]["streams_app"]
    planned = written(instance, tmp_path, "streams.properties", "/etc/streams-app/joins-0")
    own = {key: value for key, value in planned.items() if key.startswith(("ssl.", "sasl.", "security."))}
    assert own
    environment = {
        "SAMPLE_LEFT": "left",
        "SAMPLE_RIGHT": "right",
        "SAMPLE_OUTPUT": "joined",
        "SAMPLE_JOINS": "1",
        "SAMPLE_WINDOW_MS": "600000",
        "SAMPLE_GRACE_MS": "60000",
    }
    properties: dict[str, str | None] = {**own, "replication.factor": "1"}
    app = ApplicationInstance(instance, properties, environment)
    with running_application(app, site.secured, tmp_path / "app") as running:
        assert running.wait_running()["state"] == "RUNNING"
