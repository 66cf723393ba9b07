"""A planned broker with users and rights: who may what is done, and everybody else is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kedge.deploy.kafka_admin import logs_in
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.services.rights import rights_of
from lab.services.brokers import log_tail
from lab.services.serving import free_ports
from tests.awaiting import await_that
from tests.kafka.certificates import make_authority, make_certificate
from tests.kafka.modules import run_module
from tests.kafka.planned_broker import planned_broker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
USERS: Final = {name: f"planted-{name}" for name in ("broker", "kedge", "proxy", "verify", "app")}
LOAD: Final = "kedge-verify"


@dataclass(frozen=True)
class Site:
    """A running broker of the plan: where it is, who its users are, and what the deploy would give them."""

    servers: str
    controller: int
    folder: Path
    rights: dict[str, Any]

    def client(self, user: str) -> dict[str, Any]:
        """Return the keys of a client that logs in as a user."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": USERS[user],
            "log_level": 0,
        }

    def admin(self, user: str) -> Any:
        """Return an admin client of a user."""
        return AdminClient({"bootstrap.servers": self.servers, **self.client(user)})

    def create(self, user: str, *topics: str) -> None:
        """Create topics as a user; raises KafkaException."""
        admin = self.admin(user)
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
            made.result(30)

    def module(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run a module as the deploy does, as the kit's own user."""
        client = self.client("kedge")
        secrets = {"sasl.password": client.pop("sasl.password")}
        where = {"bootstrap_servers": self.servers, "client": client, "secrets": secrets}
        told = run_module(name, {**where, **arguments})
        assert "planted" not in told["printed"]
        assert not told["failed"], told
        return told


def planned(folder: Path, port: int) -> tuple[Inventory, dict[str, Any]]:
    """Return the inventory of one broker on loopback and the variables of its cluster."""
    security = {
        "protocol": "SASL_SSL",
        "ca": str(folder / "ca.pem"),
        "user": "kedge",
        "password": USERS["kedge"],
        "users": USERS,
        "rights": {"app": {"topics": ["or*"], "groups": ["app"], "may": "delete"}},
    }
    variables = {
        "ansible_host": "127.0.0.1",
        "host_cores": 2,
        "host_memory_mib": 4096,
        "kafka_broker_port": port,
        "kafka_broker_tls": {"certificate": str(folder / "leaf1.pem"), "key": str(folder / "leaf1.key")},
        "kafka_clusters": {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf", "security": security}},
        "kafka_topics": [{"name": name, "cluster": "leaf", "partitions": 1} for name in (LOAD, "orders")],
        "verify": {
            "cluster": "leaf",
            "service": "kafka_broker",
            "client": {"sasl.username": "verify", "sasl.password": USERS["verify"]},
            "kafka": {"topic": LOAD, "group": LOAD, "records_per_s": 10},
        },
    }
    groups = {"kafka_leaf": ("leaf1",), "kafka_broker": ("leaf1",)}
    return Inventory({"leaf1": variables}, groups), security


@pytest.fixture(scope="module")
def site(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("authorized")
    make_authority(folder)
    for name in ("leaf1", "rest1"):
        make_certificate(folder, name)
    port, controller = free_ports(2)
    inventory, _ = planned(folder, port)
    with planned_broker(inventory, folder, jars, controller) as broker:
        rights = rights_of(inventory, "leaf", clusters(inventory)[0]["leaf"].security)
        found = Site(f"127.0.0.1:{port}", controller, folder, rights)
        await_that(lambda: broker.poll() is not None or answers(found), "the broker takes its own login")
        assert broker.poll() is None, log_tail(folder / "broker.log")
        how = {"users": USERS, "broker_user": "broker", "iterations": 4096}
        added = found.module("kafka_users_present", **how)
        assert added["added"] == ["app", "kedge", "proxy", "verify"], (
            "the storage has the brokers' own user alone"
        )
        assert found.module("kafka_rights_present", rights=rights)["changed"]
        found.create("kedge", LOAD, "orders", "orders-old")
        yield found


def answers(site: Site) -> bool:
    try:
        return logs_in(site.servers, site.client("broker"))
    except ConnectionError:
        return False


def refused(call: Callable[[], Any]) -> int:
    """The code of the error with which a call ends."""
    with pytest.raises(KafkaException) as caught:
        call()
    return int(caught.value.args[0].code())


def produced(site: Site, user: str, topic: str) -> int | None:
    """Send a record as a user; the code of the error, None where the broker took it."""
    seen: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": site.servers, **site.client(user), "message.timeout.ms": 20_000}
    )
    producer.produce(topic, b"record", on_delivery=lambda error, _: seen.append(error))
    producer.flush(30)
    (error,) = seen
    return error.code() if error else None


def consumed(site: Site, user: str, topic: str, group: str) -> int | None:
    """Read a record as a user of a group; the code of the error, None where there was one."""
    keys = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": site.servers, **site.client(user), **keys})
    try:
        consumer.subscribe([topic])
        message = await_that(lambda: consumer.poll(0.2), "a record or an error comes", 60)
        return message.error().code() if message.error() else None
    finally:
        consumer.close()


def test_rights_that_are_there_are_left_and_others_are_taken_away(site: Site) -> None:
    assert not site.module("kafka_rights_present", rights=site.rights)["changed"]
    more = {**site.rights, "proxy": [*site.rights["proxy"], {"resource": "TOPIC", "name": "x", "prefix": False, "operations": ["DELETE"]}]}  # fmt: skip
    assert site.module("kafka_rights_present", rights=more)["added"] == ["User:proxy ALLOW DELETE TOPIC x"]
    back = site.module("kafka_rights_present", rights=site.rights)
    assert (back["added"], back["removed"]) == ([], ["User:proxy ALLOW DELETE TOPIC x"])


def test_the_login_of_the_load_writes_and_reads_its_topics_alone(site: Site) -> None:
    assert produced(site, "verify", LOAD) is None
    assert consumed(site, "verify", LOAD, LOAD) is None
    assert produced(site, "verify", "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(site, "verify", "orders", LOAD) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(site, "verify", LOAD, "another") == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert LOAD in site.admin("verify").list_topics(timeout=20).topics, "and sees the others' names"


def test_a_user_without_rights_of_its_own_works_and_deletes_nothing(site: Site) -> None:
    assert produced(site, "proxy", "orders") is None
    assert consumed(site, "proxy", "orders", "any") is None
    site.create("proxy", "made-by-proxy")
    admin = site.admin("proxy")
    delete = admin.delete_topics(["orders"])["orders"]
    assert refused(lambda: delete.result(30)) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    alter = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("kedge", how, b"taken-over")])
    assert refused(lambda: alter["kedge"].result(30)) == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_who_may_delete_does_so_where_its_rights_are(site: Site) -> None:
    admin = site.admin("app")
    other = admin.delete_topics([LOAD])[LOAD]
    assert refused(lambda: other.result(30)) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin.delete_topics(["orders-old"])["orders-old"].result(30)


@pytest.mark.parametrize(("name", "joins"), [("leaf1", True), ("rest1", False)])
def test_only_a_certificate_of_a_broker_is_one_at_the_controllers(
    site: Site, jars: Path, tmp_path: Path, name: str, joins: bool
) -> None:
    pair = tmp_path / "pair.pem"
    pair.write_text((site.folder / f"{name}.key").read_text() + (site.folder / f"{name}.pem").read_text())
    properties = tmp_path / "client.properties"
    properties.write_text(
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={pair}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={site.folder / 'ca.pem'}\n"
    )
    asked = subprocess.run(
        ["java", "-Xmx128m", "-cp", f"{jars}/*", "org.apache.kafka.tools.MetadataQuorumCommand",
         "--bootstrap-controller", f"127.0.0.1:{site.controller}", "--command-config", str(properties),
         "describe", "--status"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = asked.stdout + asked.stderr
    assert (asked.returncode == 0) is joins, said
    assert ("LeaderId" if joins else "ClusterAuthorizationException") in said
