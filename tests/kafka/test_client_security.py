"""Real brokers that ask for certificates or for tokens: Kedge's own clients and services reach them as planned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kedge.deploy.kafka_admin import RefusedError, admin, logs_in
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.security import Security, librdkafka
from kedge.services.planning import make_plan
from lab.services.application import SAMPLE_JAR, ApplicationInstance, running_application
from lab.services.brokers import log_tail
from lab.services.rest_proxies import running_proxy, unpack
from lab.services.serving import free_ports
from tests.awaiting import await_that
from tests.kafka.certificates import make_authority, make_certificate
from tests.kafka.loads import LoadRun, assert_ledger_is_true
from tests.kafka.modules import run_module
from tests.kafka.planned_broker import planned_broker
from tests.kafka.secured_site import WAYS, Site, secured_site, written
from tests.planned import streams
from tests.rest_inventories import rest

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=WAYS)
def site(
    request: pytest.FixtureRequest, jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with secured_site(jars, tmp_path_factory.mktemp("secured"), request.param) as running:
        yield running


def test_the_gates_and_the_topics_of_a_deploy_are_reached(site: Site) -> None:
    settings = [{"key": "partitions", "value": "2"}, {"key": "replication.factor", "value": "1"}]
    topic = {"settings": settings}
    made = run_module("kafka_topics_present", {**site.arguments(), "topics": {"gated": topic}})
    assert (made["failed"], made["changed"]) == (False, True), made
    gate = run_module("kafka_group_gate", site.arguments())
    assert not gate["failed"], gate


def test_a_client_that_shows_nothing_or_a_wrong_secret_is_refused_in_one_line(site: Site) -> None:
    seen, secret = librdkafka(Security(**site.security))
    wrong = dict.fromkeys(secret, "planted-wrong")
    client = {key: value for key, value in seen.items() if "certificate" not in key and "ssl.key" not in key}
    with pytest.raises(RefusedError) as refused:
        admin(site.secured, client | wrong)
    said = (
        "Kedge's client gets no token for {}: "
        if "oauth" in site.security
        else "the brokers of {} refuse Kedge's client: "
    )
    assert said.format(site.secured) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "planted" not in str(refused.value)


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
    private = [*secret.values()]
    if pair := site.security.get("client_tls"):
        private.append(Path(pair["key"]).read_text().splitlines()[1])
    assert private
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
    assert any(key.startswith("client.s") for key in wanted)
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


def test_a_planned_broker_takes_certificates_and_nobody_without_one(jars: Path, tmp_path: Path) -> None:
    ca = make_authority(tmp_path)
    leaf, kedge = (
        dict(zip(("certificate", "key"), map(str, make_certificate(tmp_path, name)), strict=True))
        for name in ("leaf1", "kedge")
    )
    security: dict[str, Any] = {"protocol": "SSL", "ca": str(ca), "client_tls": kedge}
    port, controller = free_ports(2)
    variables = {
        "ansible_host": "127.0.0.1",
        "host_cores": 2,
        "host_memory_mib": 4096,
        "kafka_broker_port": port,
        "kafka_broker_tls": leaf,
        "kafka_clusters": {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf", "security": security}},
        "kafka_topics": [{"name": "t", "cluster": "leaf", "partitions": 1}],
    }
    groups = {"kafka_leaf": ("leaf1",), "kafka_broker": ("leaf1",)}
    servers, (client, _) = f"127.0.0.1:{port}", librdkafka(Security(**security))
    shown_nothing = {key: client[key] for key in ("security.protocol", "ssl.ca.location")}
    with planned_broker(Inventory({"leaf1": variables}, groups), tmp_path, jars, controller) as broker:

        def answers() -> bool:
            try:
                return logs_in(servers, client)
            except ConnectionError:
                return False

        await_that(lambda: broker.poll() is not None or answers(), "the broker takes Kedge's certificate")
        assert broker.poll() is None, log_tail(tmp_path / "broker.log")
        with pytest.raises(RefusedError):
            admin(servers, shown_nothing)
