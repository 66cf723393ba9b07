"""Four REST proxies on two hosts behind a balancer, with 500 requests a second: rolled, and a host killed."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx
import pandas as pd
import pytest
import yaml
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from lab.fleet.engine import find_engine
from tests.awaiting import await_that
from tests.e2e.playing import local_fleet, on_node, play
from tests.kafka.loads import LoadRun, kill_quietly

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = "tests/e2e/inventory_rest"
LEVELS = ROOT / INVENTORY / "group_vars" / "all" / "main.yml"
BALANCER: Final = "http://10.78.10.31:8080"
PAIR: Final = {"certificate": "pem", "key": "key"}
TOPIC: Final = "kedge-verify-rest"
GROUP: Final = "kedge-verify-rest"
BROKER: Final = "10.78.10.11:9092"
#: Base URIs of the proxies before they speak TLS, and since.
INSTANCES: Final = [f"http://10.78.10.{host}:{port}" for host in (21, 22) for port in (8082, 8083)]
INSTANCES_WITH_TLS: Final = [f"https://10.78.10.{host}:{port}" for host in (21, 22) for port in (8182, 8183)]
CONSUMERS: Final = 2
#: Looks in a row at a group without a rebalance.
SETTLED: Final = 5
REQUESTS_PER_S: Final = 500
#: Three checks of 5 s that hang, and as long again for a busy machine.
OUT_US: Final = 30_000_000
JSON: Final = {"Content-Type": "application/vnd.kafka.v2+json"}
BINARY: Final = {"Accept": "application/vnd.kafka.binary.v2+json"}

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(900), pytest.mark.long]


def deploy(*arguments: str) -> str:
    done = play("deploy.yml", *arguments, inventory=INVENTORY)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def deployed() -> Iterator[None]:
    local_fleet("up", INVENTORY)
    try:
        deploy()
        yield
    finally:
        local_fleet("down", INVENTORY)


@pytest.fixture(scope="module")
def certificates(deployed: None) -> Path:
    del deployed
    folder = ROOT / ".cache" / "fleet" / "kedge-e2e-rest" / "certificates"
    done = play("lab/fleet/certificates.yml", "-e", f"certificates={folder}", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def prepared(
    folder: Path,
    requests_per_s: int = REQUESTS_PER_S,
    clients: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> LoadRun:
    """A load of single-record requests that is not yet started; ``clients`` is what they have beside it."""
    rest = {
        "topic": TOPIC,
        "url": BALANCER,
        "records_per_s": requests_per_s,
        "records_per_request": 1,
        "producers": 2,
        "consumers": CONSUMERS,
        "group": GROUP,
        **clients,
    }
    return LoadRun(
        folder,
        {
            "run_id": f"rest-{time.time_ns()}",
            "cluster": "leaf",
            "bootstrap_servers": BROKER,
            "rest": rest,
            "warm_up_s": 3,
            "min_s": 5,
            "max_s": 1200,
            "drain_s": 60,
            **more,
        },
    )


@contextlib.contextmanager
def warm(load: LoadRun) -> Iterator[LoadRun]:
    """Start a load, and end it however the test ends."""
    load.start()
    try:
        load.await_phase("running")
        yield load
    finally:
        kill_quietly(load)


@pytest.fixture
def load(deployed: None, tmp_path: Path) -> Iterator[LoadRun]:
    """A load of single-record requests, warm; what it leaves is judged by ``audited``."""
    del deployed
    with warm(prepared(tmp_path)) as started:
        yield started


def audited(load: LoadRun) -> dict[str, Any]:
    """End the load and have the audit judge it; return the checks by name."""
    load.enough()
    assert load.ended() == 0, load.output.read_text()[-2000:]
    levels = yaml.safe_load(LEVELS.read_text())["service_levels"]
    slo = load.folder / "slo.yml"
    slo.write_text(yaml.safe_dump({**levels, "settings": {"different": None}}))
    out = load.folder / "report"
    command = ["-m", "spark_checks", "--evidence", load.folder / "evidence", "--slo", slo, "--out", out]
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return {check["name"]: check for check in json.loads((out / "verdicts.json").read_text())["checks"]}


def requests(load: LoadRun) -> pd.DataFrame:
    """The requests that left the generator, a record each; a machine that is too busy sends fewer than due."""
    ledger = load.table("ledger")
    return ledger[ledger["sent_us"].notna()]


def stated(
    what: str, sent: pd.DataFrame, capsys: pytest.CaptureFixture[str], due: int = REQUESTS_PER_S
) -> None:
    """Say how many requests a second there were: the ledger tells, and no test is decided by it."""
    by_second = (sent["sent_us"] // 1_000_000).astype("int64").value_counts().sort_index()
    whole = by_second.iloc[1:-1]
    with capsys.disabled():
        print(
            f"\n{what}: {len(sent)} requests in {len(by_second)} s, {whole.mean():.0f} a second of "
            f"{due} due, {whole.min()} in the slowest second"
        )


class Consumers:
    """Consumers of a group of their own, with chosen and with generated names, which poll all the time.

    They go through the balancer only. ``wrong`` collects what no client may ever see: an answer that there is
    no such consumer from another process than the one that made it. ``headers`` go with each request.
    """

    def __init__(self, headers: dict[str, str] | None = None) -> None:
        self._headers = headers or {}
        self.wrong: list[str] = []
        self.answers: dict[int, int] = {}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(6)]

    def __enter__(self) -> Consumers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        made = 0
        with httpx.Client(base_url=BALANCER, timeout=30, headers=self._headers) as client:
            while not self._stop.is_set():
                made += 1
                body = {"format": "binary"} | ({"name": f"mine-{number}-{made}"} if number % 2 else {})
                answer = client.post("/consumers/watched", json=body, headers=JSON)
                if answer.status_code != httpx.codes.OK:
                    continue
                home, name = answer.headers["X-Served-By"], answer.json()["instance_id"]
                self._poll(client, home, f"/consumers/watched/instances/{name}")

    def _poll(self, client: httpx.Client, home: str, path: str) -> None:
        client.post(f"{path}/subscription", json={"topics": ["kedge-ready"]}, headers=JSON)
        while not self._stop.wait(0.2):
            answer = client.get(f"{path}/records", headers=BINARY)
            self.answers[answer.status_code] = self.answers.get(answer.status_code, 0) + 1
            if answer.status_code == httpx.codes.NOT_FOUND:
                by = answer.headers.get("X-Served-By")
                if by != home:
                    self.wrong.append(f"{path} of {home} was answered by {by}: {answer.text}")
                return
        with contextlib.suppress(httpx.HTTPError):
            client.delete(path, headers=JSON)


def leave_a_zombie() -> None:
    """Join the load's group as a client that vanishes: its instance owns partitions, and is asked no more."""
    admin = AdminClient({"bootstrap.servers": BROKER})
    with httpx.Client(base_url=BALANCER, timeout=30) as client:
        # It commits nothing: what it read is the load's consumers' to read again.
        body = {"format": "binary", "auto.commit.enable": "false"}
        base = client.post(f"/consumers/{GROUP}", json=body, headers=JSON).json()["base_uri"]
        client.post(f"{base}/subscription", json={"topics": [TOPIC]}, headers=JSON)

        def settled() -> bool:
            # An instance that is not asked joins no rebalance, which would then wait for it.
            client.get(f"{base}/records", headers=BINARY)
            group = admin.describe_consumer_groups([GROUP])[GROUP].result(timeout=10)
            return group.state == ConsumerGroupState.STABLE and len(group.members) == CONSUMERS + 1

        await_that(
            lambda: all(settled() for _ in range(SETTLED)), "the group has settled with the zombie", 60
        )


def test_a_rolling_deploy_under_500_requests_a_second_fails_none_and_loses_nothing(
    load: LoadRun, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_a_zombie()
    with Consumers() as consumers:
        wanted = {"kafka_rest_settings": {"producer.linger.ms": 3}, "rest_balancer_consumer_minutes": 11}
        output = deploy("-e", json.dumps(wanted))
    # Four proxies were restarted, and the balancer reloaded before them and after.
    assert len(re.findall(r": restart\)", output)) == 6
    checks = audited(load)
    sent = requests(load)
    stated("rolling deploy of four proxies and their balancer", sent, capsys)
    assert set(sent["outcome"]) == {"acked"}, sent[sent["outcome"] != "acked"]["error"].value_counts()
    assert len(sent) > REQUESTS_PER_S * 5
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]
    # Consumers whose process was restarted are told so by that process, or by the balancer while it is down.
    assert consumers.wrong == []
    assert set(consumers.answers) <= {200, 404, 503}, consumers.answers
    assert consumers.answers[200] > 100
    zombies = checks["zombies"]
    assert zombies["anomalies"]["zombie"]["count"] >= 1, zombies
    assert any(
        "10.78.10.2" in e["member"] and e["partitions"] for e in zombies["anomalies"]["zombie"]["examples"]
    )


def test_another_host_makes_the_load(
    deployed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del deployed
    load = prepared(tmp_path, generators=["load1"])
    keys = ROOT / ".cache" / "fleet" / "kedge-e2e-rest"
    reached = {
        "ansible_host": "10.78.10.41",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": f"{keys}/id_ed25519",
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={keys}/known_hosts",
    }
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"load1": reached}}}))
    load.start("--inventory", str(inventory))
    try:
        load.await_phase("running")
        assert on_node("kedge-e2e-rest", "load1", "pgrep -cf [v]erify.load.worker").strip() == "3"
        load.await_acked(10 * REQUESTS_PER_S)
        checks = audited(load)
    finally:
        kill_quietly(load)
    sent = requests(load)
    stated("a load that another host makes", sent, capsys)
    assert set(sent["outcome"]) == {"acked"}
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]
    assert load.run_json()["generators"].keys() == {"load1"}
    assert on_node("kedge-e2e-rest", "load1", "pgrep -cf [v]erify.load", check=False).strip() == "0"


def type_of_group() -> str:
    """What kind of group the brokers say that the load's consumers are in; nothing where they know none."""
    admin = AdminClient({"bootstrap.servers": BROKER})
    listed = admin.list_consumer_groups().result(timeout=10)
    return next((str(one.type.name) for one in listed.valid if one.group_id == GROUP), "")


def test_a_running_group_moves_to_the_other_protocol_and_back_and_loses_nothing(
    load: LoadRun, capsys: pytest.CaptureFixture[str]
) -> None:
    await_that(lambda: type_of_group() == "CONSUMER", "the group is of the consumer protocol")
    deploy("-e", json.dumps({"kafka_rest_settings": {"consumer.group.protocol": "classic"}}))
    await_that(lambda: type_of_group() == "CLASSIC", "the group is a classic one")
    deploy()
    await_that(lambda: type_of_group() == "CONSUMER", "the group is of the consumer protocol again")
    checks = audited(load)
    sent = requests(load)
    stated("a group that moves to the classic protocol and back", sent, capsys)
    received = load.table("deliveries").sort_values("received_us").groupby("partition")["received_us"]
    with capsys.disabled():
        print(f"longest silence of a partition: {received.diff().max() / 1e6:.1f} s")
    assert set(sent["outcome"]) == {"acked"}, sent[sent["outcome"] != "acked"]["error"].value_counts()
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]


def test_tls_is_refused_at_a_port_in_use_and_turned_on_at_another_without_a_failed_request(
    certificates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = {what: f"{certificates}/{{{{ inventory_hostname }}}}.{end}" for what, end in PAIR.items()}
    tls = {"kafka_rest_tls": {**pair, "ca": f"{certificates}/ca.pem"}}
    refused = play("deploy.yml", "-e", json.dumps(tls), inventory=INVENTORY)
    assert refused.returncode != 0
    said = " ".join(refused.stdout.split())
    assert "rest1 kafka_rest@8082" in said
    assert "speaks TLS at a port in use (kafka_rest_tls)" in said
    assert "No host was touched" in said
    # The balancer goes on without TLS, so that its clients keep their URL: consumers go to their instances.
    wanted = {**tls, "kafka_rest_first_port": 8182, "kafka_rest_consumers_via": "instance"}
    clients = {"ca": f"{certificates}/ca.pem", "proxies": [*INSTANCES, *INSTANCES_WITH_TLS]}
    with warm(prepared(tmp_path, clients=clients)) as load, Consumers() as consumers:
        deploy("-e", json.dumps(wanted))
        moved = load.state()["acked"]
        load.await_acked(moved + REQUESTS_PER_S)
        checks = audited(load)
    sent = requests(load)
    stated("four proxies that give way to four with TLS", sent, capsys)
    assert set(sent["outcome"]) == {"acked"}, sent[sent["outcome"] != "acked"]["error"].value_counts()
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]
    assert {instance.rpartition(":")[2] for instance in sent["instance"]} == {"8082", "8083", "8182", "8183"}
    # Whose process is gone for good is told so by another one, and makes a new instance there.
    assert set(consumers.answers) <= {200, 404, 503}, consumers.answers
    # What is no longer planned has been drained, stopped and taken away, and back it goes the same way.
    gone = "systemctl is-active kafka-rest@8082; ls /etc/kafka-rest /var/lib/kedge/kafka-rest"
    assert on_node("kedge-e2e-rest", "rest1", gone, check=False).split() == [
        "inactive",
        *("/etc/kafka-rest:", "8182", "8183"),
        *("/var/lib/kedge/kafka-rest:", "8182", "8183", "kit-version"),
    ]
    deploy()
    with httpx.Client(base_url=BALANCER, timeout=30) as client:
        assert client.get("/topics").status_code == httpx.codes.OK


def test_a_host_killed_under_load_costs_no_acknowledged_record(load: LoadRun) -> None:
    killed_us = time.time_ns() // 1000
    before = load.state()
    find_engine().run("kill", "kedge-e2e-rest-rest2")
    load.await_acked(before["acked"] + 5 * REQUESTS_PER_S)
    await_that(lambda: load.state()["recreated"] > before["recreated"], "consumers were made elsewhere")
    checks = audited(load)
    assert checks["delivery"]["anomalies"].get("lost", {"count": 0})["count"] == 0
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]
    sent = requests(load)
    missed = sent[sent["outcome"] != "acked"]
    # What was in flight on the host is not known to have arrived; once it is out, every request succeeds.
    assert (missed["sent_us"] < killed_us + OUT_US).all(), missed["error"].value_counts()
    assert len(missed) < REQUESTS_PER_S
    local_fleet("up", INVENTORY)
    deploy()
    assert deploy().count("changed=0") == 6  # each host, and the control machine
