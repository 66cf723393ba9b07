"""Each vendor's proxy gets the files and keys that its version reads, and no other."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from kedge.deploy.rendering import render_instance
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import archive_files, read_archives
from kedge.plan.settings import Setting
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.keys import check_rest_keys
from tests.planned import mirrors, streams
from tests.rest_inventories import of_rule, planned, rest

VERSIONS = [
    ("confluent", "7.9.9"),
    ("confluent", "8.0.7"),
    ("confluent", "8.3.1"),
    ("strimzi", "0.33.1"),
    ("strimzi", "1.1.0"),
    ("mapr", "2.0.1"),
    ("mapr", "5.1.2"),
    ("sandbox", "1.0.0"),
]
#: The sandbox serves fleets of this machine alone.
FLEET = {"fleet": {"name": "f"}}
SECURED: dict[str, Any] = {
    "tls": {"certificate": "c.pem", "key": "c.key", "ca": "ca.pem", "clients": "required"},
    "users": {"client": "planted-client"},
    "user": "proxy",
    "password": "planted-proxy",
}
CLUSTER = {
    "version": "4.3.1",
    "bootstrap_servers": "b:9093",
    "security": {"protocol": "SASL_SSL", "ca": "ca.pem", "user": "kedge", "password": "planted-kedge"},
}


def settings(inventory: Inventory) -> tuple[Setting, ...]:
    return make_plan(inventory).services["rest1"]["kafka_rest"][0].settings


def named(inventory: Inventory, *names: str) -> list[str]:
    return [s.key for s in settings(inventory) if s.file.endswith(names)]


@pytest.mark.parametrize(("distribution", "version"), VERSIONS)
def test_every_planned_key_is_one_that_the_version_reads(distribution: str, version: str) -> None:
    workload = {"consumers": 4, "delivery_latency_ms": 100}
    inventory = rest(distribution=distribution, version=version, workload=workload, common=FLEET)
    keys = named(inventory, "kafka-rest.properties", "application.properties")
    assert len(keys) > 5
    assert check_rest_keys(DISTRIBUTIONS[distribution], version, keys, "here") == []


@pytest.mark.parametrize("version", ["7.9.9", "8.3.1"])
def test_every_key_of_a_secured_proxy_is_one_that_the_version_reads(version: str) -> None:
    common = {"kafka_clusters": {"leaf": CLUSTER}}
    keys = named(rest(version=version, common=common, **SECURED), "kafka-rest.properties")
    assert {"ssl.keystore.location", "authentication.method", "client.sasl.jaas.config"} <= set(keys)
    assert check_rest_keys(DISTRIBUTIONS["confluent"], version, keys, "here") == []


def test_the_bridge_logs_in_to_a_secured_cluster() -> None:
    own = {"user": "proxy", "password": "planted-proxy"}
    common = {"kafka_clusters": {"leaf": CLUSTER}}
    keys = named(
        rest(distribution="strimzi", version="1.1.0", common=common, **own), "application.properties"
    )
    assert {"kafka.security.protocol", "kafka.sasl.jaas.config", "kafka.ssl.truststore.location"} <= set(keys)
    assert check_rest_keys(DISTRIBUTIONS["strimzi"], "1.1.0", keys, "here") == []


@pytest.mark.parametrize(
    ("inventory", "rule", "said"),
    [
        (
            rest(distribution="strimzi", version="1.1.0", tls=SECURED["tls"]),
            "rest.tls",
            "what the bridge reads",
        ),
        (
            rest(distribution="mapr", version="5.1.2", users=SECURED["users"]),
            "rest.tls",
            "what the MapR build",
        ),
        (
            rest(distribution="mapr", version="5.1.2", common={"kafka_clusters": {"leaf": CLUSTER}}),
            "rest.tls",
            "takes SASL_SSL",
        ),
        (streams(1, common={"kafka_clusters": {"leaf": CLUSTER}}), "client.login", "streams_app"),
    ],
)
def test_security_that_is_not_planned_is_refused(inventory: Inventory, rule: str, said: str) -> None:
    error = of_rule(make_plan(inventory), rule, "error")[0]
    assert said in f"{error.where} {error.message}"


def test_an_application_with_a_login_of_its_own_is_let_through() -> None:
    own = {"security.protocol": "SASL_SSL"}
    inventory = streams(1, settings=own, common={"kafka_clusters": {"leaf": CLUSTER}})
    assert of_rule(make_plan(inventory), "client.login") == []


OAUTH = {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"}
MM2 = {"kind": "mirror_maker_2", "version": "4.3.1"}


@pytest.mark.parametrize(
    ("inventory", "variable", "cluster"),
    [
        (rest(settings={f"client.{k}": v for k, v in OAUTH.items()}), "kafka_rest_settings", "leaf"),
        (streams(1, settings=OAUTH), "streams_app_settings", "leaf"),
        (mirrors(1, {"producer_settings": OAUTH}), "mirror_maker_flows.metrics.producer_settings", "agg"),
        (
            mirrors(1, {"settings": {"leaf.sasl.mechanism": "AWS_MSK_IAM"}}, **MM2),
            "mirror_maker_flows.metrics.settings",
            "leaf",
        ),
    ],
)
def test_a_login_that_the_gates_cannot_have_is_an_error(
    inventory: Inventory, variable: str, cluster: str
) -> None:
    (error,) = of_rule(make_plan(inventory), "client.mechanism", "error")
    assert error.message.startswith(f"{variable} has ")
    assert f"would not reach cluster {cluster}" in error.message
    spoken = "OAUTHBEARER" in error.message.partition(",")[0]
    assert (
        f"mechanism: OAUTHBEARER and what belongs to it into kafka_clusters.{cluster}" in error.fix
    ) is spoken
    assert ("the security of a listener" in error.fix) is not spoken


SHOWN = {"security.protocol": "SSL", "ssl.keystore.location": "/etc/own.pem"}


@pytest.mark.parametrize(
    ("inventory", "variable", "cluster"),
    [
        (rest(settings={f"client.{k}": v for k, v in SHOWN.items()}), "kafka_rest_settings", "leaf"),
        (streams(1, settings=SHOWN), "streams_app_settings", "leaf"),
        (streams(1, settings={"main.consumer.ssl.keystore.certificate.chain": "x"}), "streams_app_settings", "leaf"),
        (mirrors(1, {"producer_settings": SHOWN}), "mirror_maker_flows.metrics.producer_settings", "agg"),
        (
            mirrors(1, {"settings": {"leaf.consumer.ssl.keystore.location": "/own"}}, **MM2),
            "mirror_maker_flows.metrics.settings",
            "leaf",
        ),
    ],
)  # fmt: skip
def test_a_certificate_that_the_gates_would_not_show_is_an_error(
    inventory: Inventory, variable: str, cluster: str
) -> None:
    (error,) = of_rule(make_plan(inventory), "client.mechanism", "error")
    assert error.message.startswith(f"{variable} has ")
    assert f"show brokers of cluster {cluster} no certificate" in error.message
    assert f"kafka_clusters.{cluster}.security" in error.fix


@pytest.mark.parametrize(
    "inventory",
    [
        rest(settings={"ssl.keystore.location": "/etc/listener.jks"}),
        rest(settings={"schema.registry.ssl.keystore.location": "/etc/registry.jks"}),
        streams(1, settings=SHOWN | {"bootstrap.servers": "leaf:9094"}),
        streams(1, settings=SHOWN, common={"kafka_clusters": {"leaf": CLUSTER}}),
        mirrors(1, {"producer_settings": SHOWN, "target_bootstrap_servers": "agg:9094"}),
    ],
)
def test_a_certificate_that_says_nothing_of_the_gates_is_let_through(inventory: Inventory) -> None:
    assert of_rule(make_plan(inventory), "client.mechanism") == []


@pytest.mark.parametrize(
    "inventory",
    [
        streams(1, settings=OAUTH | {"sasl.mechanism": "SCRAM-SHA-512"}),
        streams(1, settings=OAUTH | {"bootstrap.servers": "leaf:9094"}),
        streams(1, settings=OAUTH | {"sasl.mechanism": "${env:MECHANISM}"}),
        streams(1, settings=OAUTH, common={"kafka_clusters": {"leaf": CLUSTER}}),
        mirrors(1, {"producer_settings": OAUTH, "target_bootstrap_servers": "agg:9094"}),
    ],
)
def test_a_login_beside_one_that_the_gates_have_is_let_through(inventory: Inventory) -> None:
    assert of_rule(make_plan(inventory), "client.mechanism") == []


def test_hosts_that_a_balancer_cannot_treat_alike_are_refused() -> None:
    own = {**SECURED, "tls": {**SECURED["tls"], "clients": "none"}}
    common = {"kafka_clusters": {"leaf": CLUSTER}}
    inventory = rest(2, groups={"rest_balancer": ("lb1",)}, common=common, **own)
    assert of_rule(make_plan(inventory), "balancer.tls", "error") == []
    second = {**inventory.hosts["rest2"], "kafka_rest_users": {"client": "another-one"}}
    unlike = Inventory({**inventory.hosts, "rest2": second}, inventory.groups)
    (error,) = [
        f for f in of_rule(make_plan(unlike), "balancer.tls", "error") if "is not what it is" in f.message
    ]
    assert error.where == "rest2 kafka_rest"


@pytest.mark.parametrize(
    ("distribution", "version", "file", "variable"),
    [
        ("confluent", "7.9.9", "log4j.properties", "KAFKAREST_LOG4J_OPTS"),
        ("confluent", "8.3.1", "log4j2.properties", "KAFKAREST_LOG4J_OPTS"),
        ("strimzi", "0.33.1", "log4j2.properties", "KAFKA_BRIDGE_LOG4J_OPTS"),
        ("mapr", "5.1.2", "log4j.properties", "KAFKAREST_LOG4J_OPTS"),
        ("sandbox", "1.0.0", "log4j2.properties", "KAFKAREST_LOG4J_OPTS"),
    ],
)
def test_the_log_is_bounded_in_the_form_that_the_version_reads(
    distribution: str, version: str, file: str, variable: str
) -> None:
    inventory = rest(distribution=distribution, version=version, log_mib=200, common=FLEET)
    assert planned(inventory, variable).endswith(f"/{file}")
    bounds = {s.key: s.value for s in settings(inventory) if s.file.endswith(f"/{file}")}
    sizes = [v for k, v in bounds.items() if k.endswith((".maxFileSize", ".size.size"))]
    kept = [v for k, v in bounds.items() if k.endswith((".maxBackupIndex", ".strategy.max"))]
    # The one that is written to, and nine before it.
    assert (sizes, kept) == (["20MB"], ["9"])


@pytest.mark.parametrize(
    ("distribution", "version", "key"),
    [
        ("confluent", "8.3.1", "client.metadata.recovery.strategy"),
        ("strimzi", "1.1.0", "kafka.metadata.recovery.strategy"),
    ],
)
def test_a_client_without_a_broker_does_not_begin_anew(distribution: str, version: str, key: str) -> None:
    assert planned(rest(distribution=distribution, version=version), key) == "none"
    assert planned(rest(distribution="confluent", version="7.9.9"), key) == ""


def test_metrics_are_off_until_they_are_asked_for_and_then_on_loopback() -> None:
    assert "-javaagent" not in planned(rest(), "KAFKAREST_OPTS")
    inventory = rest(instances_per_host=2, metrics={"first_port": 9404})
    assert "=127.0.0.1:9405:" in planned(inventory, "KAFKAREST_OPTS", number=1)
    (instance, _) = make_plan(inventory).to_json()["hosts"]["rest1"]["services"]["kafka_rest"]["instances"]
    assert "startDelaySeconds: 0" in render_instance("kafka-rest", instance)["metrics.yaml"]


def test_a_port_of_metrics_that_is_taken_is_an_error() -> None:
    found = of_rule(make_plan(rest(metrics={"first_port": 8082})), "inventory.port", "error")
    assert "8082" in found[0].message
    found = of_rule(
        make_plan(rest(metrics={"first_port": 8083}, instances_per_host=2)), "inventory.port", "error"
    )
    assert "8083" in found[0].message


def test_own_jvm_flags_that_leave_out_what_a_login_needs_are_an_error() -> None:
    inventory = rest(**SECURED, settings={"KAFKAREST_OPTS": "-Done=1"})
    error = of_rule(make_plan(inventory), "rest.options", "error")[0]
    assert "-Djava.security.auth.login.config" in error.message


def test_a_key_that_a_plugin_reads_is_let_through_and_others_are_refused() -> None:
    own = {"settings": {"acme.audit.level": "all", "acme2.x": 1}}
    errors = of_rule(make_plan(rest(**own, plugin_keys=["acme."])), "rest.keys", "error")
    assert [e.message.split()[5] for e in errors] == ["acme2.x"]


def test_a_package_needs_no_archive_and_one_from_a_file_its_checksum() -> None:
    plain = rest(install="package", archive=None, archive_checksum="")
    assert of_rule(make_plan(plain), "inventory.variable", "error") == []
    (error,) = of_rule(
        make_plan(rest(install="package", archive="/a.deb", archive_checksum="")),
        "inventory.variable",
        "error",
    )
    assert "nothing is installed that was not verified" in error.message


def test_an_archive_of_a_url_is_fetched_once_and_held_against_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_CACHE", str(tmp_path / "cache"))
    published = tmp_path / "proxy.tar.gz"
    published.write_bytes(b"of the publisher")
    digest = hashlib.sha256(published.read_bytes()).hexdigest()
    inventory = rest(archive=published.as_uri(), archive_checksum=digest)
    assert read_archives(inventory, SERVICES) == {published.as_uri(): None}
    assert read_archives(inventory, SERVICES, fetch=True) == {published.as_uri(): digest}
    (file,) = archive_files(inventory, SERVICES).values()
    published.write_bytes(b"of somebody else")
    assert read_archives(inventory, SERVICES, fetch=True) == {published.as_uri(): digest}
    # Another checksum is another file, which is fetched, and found to be the wrong one.
    other = rest(archive=published.as_uri(), archive_checksum="ab" * 32)
    plan = make_plan(other, archives=read_archives(other, SERVICES, fetch=True), deploying=True)
    (error,) = of_rule(plan, "inventory.archive", "error")
    assert "kafka_rest_archive_checksum is " + "ab" * 32 in error.message
    assert file.read_bytes() == b"of the publisher"


def test_a_url_that_has_nothing_is_an_error_before_a_host_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_CACHE", str(tmp_path))
    inventory = rest(archive=(tmp_path / "nothing.tar.gz").as_uri())
    plan = make_plan(inventory, archives=read_archives(inventory, SERVICES, fetch=True), deploying=True)
    (error,) = of_rule(plan, "inventory.archive", "error")
    assert "could not be fetched" in error.message
    assert not list((tmp_path / "downloads").iterdir())


def test_the_session_of_a_member_follows_the_stall_that_is_allowed_under_the_distributions_own_key() -> None:
    common = {"service_levels": {"rebalance": {"consume_stall_s": 15}}}
    bridge = rest(distribution="strimzi", version="0.33.1", common=common)
    assert planned(bridge, "kafka.consumer.session.timeout.ms") == planned(
        rest(common=common), "consumer.session.timeout.ms"
    )


def test_only_the_bridge_leaves_its_members_in_their_groups() -> None:
    stay = {name for name, each in DISTRIBUTIONS.items() if not each.leaves_groups}
    assert stay == {"strimzi"}


def test_instances_that_are_not_asked_alike_are_refused_behind_one_balancer() -> None:
    inventory = rest(2, groups={"rest_balancer": ("lb1",)})
    inventory.hosts["rest2"]["kafka_rest_distribution"] = "strimzi"  # type: ignore[index]
    inventory.hosts["rest2"]["kafka_rest_version"] = "0.33.1"  # type: ignore[index]
    (error,) = of_rule(make_plan(inventory), "balancer.health", "error")
    assert "one kafka_rest_distribution" in error.fix


def bridge(**workload: Any) -> Inventory:
    return rest(distribution="strimzi", version="0.33.1", instances_per_host=1, workload=workload)


def test_threads_descriptors_and_memory_of_a_bridge_follow_from_its_connections() -> None:
    def limits(connections: int) -> list[int]:
        inventory = bridge(connections=connections)
        keys = ("TasksMax", "LimitNOFILE", "MemoryMax")
        return [int(planned(inventory, key).removesuffix("M")) for key in keys]

    few, many = limits(10), limits(30_000)
    assert all(more > less for less, more in zip(few, many, strict=True))
    # 600 connections were seen to take 648 threads.
    assert limits(600)[0] >= 2 * 648
    one_producer = rest(workload={"connections": 600}, instances_per_host=1)
    assert planned(one_producer, "TasksMax") == "600"


def test_the_buffer_of_each_producer_of_a_bridge_holds_a_request_and_no_more_than_the_default() -> None:
    def buffer(**workload: Any) -> int:
        return int(planned(bridge(**workload), "kafka.producer.buffer.memory"))

    assert buffer(connections=10) == 4 * 2**20
    assert buffer(connections=10, records_per_request=1000, record_bytes=5000) == 10_000_000
    assert buffer(connections=10, records_per_request=1000, record_bytes=100_000) == 32 * 2**20


def test_a_read_of_a_bridge_answers_5000_records_or_as_many_as_memory_is_counted_for() -> None:
    def polled(**workload: Any) -> int:
        return int(planned(bridge(consumers=4, **workload), "kafka.consumer.max.poll.records"))

    assert polled(record_bytes=100) == 5000
    assert polled(record_bytes=10_000) == 2 * 2**20 // 10_000
    assert polled(record_bytes=10 * 2**20) == 2
    assert "kafka.consumer.max.poll.records" not in named(bridge(consumers=0), "application.properties")


def test_connections_that_nobody_tells_are_asked_for_where_each_has_a_producer() -> None:
    (warning,) = of_rule(make_plan(bridge(records_per_s=1000)), "rest.connections")
    assert "kafka_rest_workload.connections" in warning.message
    assert not of_rule(make_plan(bridge(records_per_s=1000, connections=10)), "rest.connections")
    assert not of_rule(make_plan(rest(workload={"records_per_s": 1000})), "rest.connections")


def test_a_bridge_is_split_where_the_producers_of_its_connections_do_not_fit_into_a_heap() -> None:
    inventory = rest(distribution="strimzi", version="0.33.1", workload={"connections": 20_000})
    plan = make_plan(inventory)
    assert not [f for f in plan.findings if f.severity == "error" and f.rule.startswith("rest.")]
    assert len(plan.services["rest1"]["kafka_rest"]) > 2
