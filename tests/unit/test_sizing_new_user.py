"""What somebody does wrong with a first inventory of their own is said before a host is touched."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.archives import look_at_classes, read_archives
from kedge.plan.inventory.checks import check_example_names
from kedge.plan.inventory.reading import read_inventory
from kedge.plan.text import text
from kedge.services.planning import make_plan
from kedge.services.registry import SERVICES
from tests.planned import CLUSTERS, METRICS, mirrors, of_topics, streams
from tests.rest_inventories import rest


def errors(inventory: Inventory, rule: str = "") -> list[Finding]:
    return [f for f in make_plan(inventory).findings if f.severity == "error" and f.rule.startswith(rule)]


def regrouped(groups: Mapping[str, tuple[str, ...]], **common: Any) -> Inventory:
    return Inventory(rest(2, common=common).hosts, groups)


def test_an_inventory_without_hosts_is_an_error() -> None:
    (error,) = errors(Inventory({}, {}))
    assert "has no host in any group that Kedge deploys: kafka_rest, kafka_broker" in error.message


def test_an_inventory_without_a_group_of_a_service_is_an_error() -> None:
    (error,) = errors(regrouped({"proxies": ("rest1", "rest2")}), "inventory.group")
    assert "has no host in any group" in error.message


def test_a_misspelt_group_of_a_service_is_an_error() -> None:
    for name in ("kafka_rests", "kafka-rest", "kafka_rset", "Kafka_Rest"):
        (error,) = errors(regrouped({name: ("rest1",), "load_generator": ("rest2",)}), "inventory.group")
        assert name in error.message
        assert error.fix == "did you mean kafka_rest?"


def test_a_group_within_a_service_or_of_brokers_may_have_a_name_like_it() -> None:
    assert not errors(regrouped({"kafka_rest1": ("rest1",), "kafka_rest": ("rest1", "rest2")}))
    clusters = {"leaf": {"version": "4.3.1", "brokers": "kafka_test"}}
    inventory = regrouped({"kafka_test": ("rest1",), "kafka_broker": ("rest1",)}, kafka_clusters=clusters)
    assert not errors(inventory, "inventory.group")


def test_a_host_to_which_nothing_is_deployed_is_a_note() -> None:
    findings = make_plan(regrouped({"kafka_rest": ("rest1",)})).findings
    (note,) = [f for f in findings if f.rule == "inventory.host"]
    assert (note.severity, note.where) == ("note", "rest2")


VERIFY: dict[str, Any] = {
    "cluster": "leaf",
    "min_s": 40,
    "kafka": {"topic": "load", "records_per_s": 1000, "group": "a"},
    "rest": {"topic": "load-rest", "records_per_s": 1000, "group": "b", "url": "http://lb:8080"},
}
TOPICS = [{"name": name, "cluster": "leaf", "partitions": 6} for name in ("load", "load-rest")]


def verified(change: Mapping[str, Any] | None = None, topics: Any = TOPICS, **common: Any) -> list[Finding]:
    return errors(rest(1, common={"verify": VERIFY | (change or {}), "kafka_topics": topics, **common}))


def through(url: str, **login: str) -> dict[str, Any]:
    return {"rest": VERIFY["rest"] | {"url": url} | login}


@pytest.mark.parametrize(
    ("levels", "name", "said"),
    [
        ({"throughputs": {}}, "service_levels.throughputs", "did you mean service_levels.throughput?"),
        ({"latency": {"rest": {"ack_p999_ms": "low"}}}, "service_levels.latency.rest.ack_p999_ms", "number"),
        (
            {"delivery": {"losts": 0}},
            "service_levels.delivery.losts",
            "did you mean service_levels.delivery.lost?",
        ),
        ({"latency": {"kafka": 5}}, "service_levels.latency.kafka", "mapping"),
        ({"latency": {"rest": {"ack_p95_ms": 9, "ack_p99_ms": 8.5}}}, "service_levels.latency.rest.ack_p99_ms", "higher"),
        ({"latency": {"kafka": {"delivery_p50_ms": 9, "delivery_max_ms": 8}}}, "service_levels.latency.kafka.delivery_max_ms", "higher"),
        ({"mirror": {"delay_p50_ms": 900, "delay_p99_ms": 90, "delay_max_ms": 1000}}, "service_levels.mirror.delay_p99_ms", "higher"),
        ([0], "service_levels", "write a mapping"),
    ],
)  # fmt: skip
def test_wrong_service_levels_are_errors(levels: Any, name: str, said: str) -> None:
    client = {"name": "a", "cluster": "leaf", "library": "java", "version": "4.3.1", "profile": "balanced"}
    common = {"service_levels": levels, "kafka_topics": TOPICS, "kafka_clients": [client]}
    (error,) = errors(rest(1, common=common))
    assert error.where == f"all: {name}"
    assert said in error.fix


@pytest.mark.parametrize(
    ("watch", "name", "said"),
    [
        ({"before_s": 20}, "verify.watch.before_s", "not known after less than 60 s"),
        ({"interval_s": 3}, "verify.watch.interval_s", "traffic.produce_gap_s"),
        ({"interval_s": 2}, "", ""),
    ],
)
@pytest.mark.parametrize("load", [VERIFY, {}], ids=["beside a load", "alone"])
def test_times_of_a_watch_that_judge_nothing_are_told_before_it_begins(
    watch: dict[str, Any], name: str, said: str, load: dict[str, Any]
) -> None:
    common = {
        "verify": {**load, "watch": watch},
        "kafka_topics": TOPICS,
        "service_levels": {"traffic": {"delivery_gap_s": 20, "produce_gap_s": 4}},
    }
    found = [one for one in make_plan(rest(1, common=common)).findings if "verify.watch" in one.where]
    assert [(one.severity, one.where) for one in found] == ([("warning", f"all: {name}")] if name else [])
    assert all(said in one.message for one in found)


def test_a_load_that_is_right_and_one_that_is_left_out_are_no_errors() -> None:
    assert not verified()
    assert not errors(rest(1))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"cluster": "leef"}, "verify.cluster"),
        ({"min": 3}, "verify.min"),
        ({"min_s": "long"}, "verify.min_s"),
        ({"bootstrap_servers": "leaf:9092"}, "verify.bootstrap_servers"),
        ({"kafka": {"topic": "lod", "records_per_s": 1}}, "verify.kafka.topic"),
        ({"kafka": {"topic": "load", "record_per_s": 1, "records_per_s": 1}}, "verify.kafka.record_per_s"),
        ({"kafka": {"topic": "load", "records_per_s": 1, "group": "b"}}, "verify.rest.group"),
        (
            {
                "kafka": {
                    "topic": "load",
                    "records_per_s": 1,
                    "consumer": {"group.protocol": "consumer", "session.timeout.ms": 6000},
                }
            },
            "verify.kafka.consumer.session.timeout.ms",
        ),
        ({"kafka": None, "rest": None}, "verify"),
        ({"rest": {"topic": "load-rest", "records_per_s": 1}}, "verify.rest.url"),
        ({"service": "all"}, "verify.service"),
        ({"service": "mirror_maker"}, "verify.service"),
        ({"min_s": 400, "max_s": 300}, "verify.max_s"),
        ({"min_s": 400}, "verify.min_s"),
        ({"min_s": 1, "max_s": 5}, "verify.warm_up_s"),
        ({"min_records": 10_000_000}, "verify.min_records"),
        (through("balancer:8080"), "verify.rest.url"),
        (through("http://"), "verify.rest.url"),
        (through("http://lb:80800"), "verify.rest.url"),
        (through("http://lb 8080"), "verify.rest.url"),
        (through("kafka://lb:8080"), "verify.rest.url"),
        (through("http://me:hidden@lb:8080"), "verify.rest.url"),
        (through("http://me:hidden@lb:80800"), "verify.rest.url"),
        (through("http://lb:8080", ca="ca.pem"), "verify.rest.ca"),
        (through("http://lb:8080", user="me"), "verify.rest.password"),
        (through("http://lb:8080", password="hidden-one"), "verify.rest.user"),
    ],
)
def test_a_load_that_verify_could_not_run_is_an_error(change: dict[str, Any], name: str) -> None:
    (error,) = verified(change)
    assert error.where == f"all: {name}"
    assert "hidden" not in error.message + error.fix


def test_a_load_may_last_exactly_as_long_as_it_has_to() -> None:
    (error,) = verified({"min_s": 400, "max_s": 300})
    assert error.fix == "set max_s to at least min_s, in seconds"
    assert not verified({"min_s": 300, "max_s": 300})


def test_an_address_without_its_scheme_is_completed() -> None:
    assert [e.fix for e in verified(through("balancer:8080"))] == ["write http://balancer:8080"]
    for url in ("https://lb/proxies", "http://[::1]:8080/", "http://rest.example.net"):
        assert not verified(through(url))


USERS = {"app": "a-good-secret"}


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ({}, "is missing, and rest_balancer_users ask for a login"),
        ({"user": "nobody", "password": "hidden-one"}, "is nobody, who is nobody, and rest_balancer_users"),
        ({"user": "app", "password": "hidden-one"}, "is app, and its password is another one, and rest_bal"),
        ({"user": "app", "password": "a-good-secret"}, ""),
    ],
)
def test_a_login_that_the_balancer_or_the_proxies_refuse_is_an_error(
    login: dict[str, str], said: str
) -> None:
    load = VERIFY | {"rest": {k: v for k, v in VERIFY["rest"].items() if k != "url"} | login}
    common = {"verify": load, "kafka_topics": TOPICS, "rest_balancer_users": USERS}
    found = errors(rest(1, common=common, groups={"rest_balancer": ("lb1",)}, users=USERS))
    assert [e.where for e in found] == ["all: verify.rest.user"] * bool(said)
    assert all(said in e.message and "hidden" not in e.message + e.fix for e in found)
    # Straight to a proxy; what stands elsewhere may have logins of its own.
    for url, many in (("http://rest1:8082", bool(said)), ("http://elsewhere:8082", False)):
        straight = VERIFY | through(url, **login)
        found = errors(rest(1, common={"verify": straight, "kafka_topics": TOPICS}, users=USERS))
        assert [e.where for e in found] == ["all: verify.rest.user"] * many


def test_a_throughput_that_is_asked_for_and_not_sent_is_a_warning() -> None:
    common = {"verify": VERIFY, "kafka_topics": TOPICS}
    for asked, found in ((1000, []), (1001, ["all: verify.kafka.records_per_s"])):
        levels = {"throughput": {"kafka": {"records_per_s": asked}}}
        plan = make_plan(rest(1, common=common | {"service_levels": levels}))
        assert [f.where for f in plan.findings if f.where.startswith("all: verify")] == found
        assert not plan.has_errors


def test_what_a_mirror_would_pass_over_or_copy_twice_is_an_error() -> None:
    (error,) = errors(mirrors(1, flow={"settings": {"tasks.max": 3}}))
    assert "settings is read by MirrorMaker 2 alone" in error.message
    (error,) = errors(mirrors(1, flows={"metrics": METRICS, "more": METRICS}))
    assert (error.rule, "copied twice" in error.message) == ("mirror.twice", True)
    (error,) = errors(mirrors(1, flows={"Metrics": METRICS}))
    assert error.message.startswith("mirror_maker_flows.Metrics is 'Metrics': ")


def test_a_topic_that_nobody_could_write_to_during_a_restart_is_a_warning() -> None:
    for in_sync, found in ((2, []), (3, ["warning"]), (4, ["error"])):
        topic = {"replication": 3, "partitions": 1, "settings": {"min.insync.replicas": in_sync}}
        plan = make_plan(of_topics(topic))
        assert [f.severity for f in plan.findings if f.rule == "topics.min_insync"] == found


def test_times_to_fill_that_contradict_each_other_are_an_error() -> None:
    (error,) = errors(mirrors(1, flow={"fill_ms_p95": 9000, "fill_ms_p99": 900}))
    assert error.where == "mm1: mirror_maker_flows.metrics.fill_ms_p99"
    assert "99 of 100 batches fill within 900 ms, and 95 of 100 within 9000 ms" in error.message


def test_the_example_says_what_verify_sends_and_its_topics_are_declared() -> None:
    inventory = read_inventory(Path(__file__).parents[2] / "inventories/example", SERVICES)
    loaded = inventory.common("verify")
    assert {loaded["kafka"]["topic"], loaded["rest"]["topic"]} <= {
        topic["name"] for topic in inventory.common("kafka_topics")
    }
    assert not errors(inventory)


def test_a_wrong_key_in_a_cluster_is_one_error_whoever_uses_the_cluster() -> None:
    clusters = {"leaf": CLUSTERS["leaf"] | {"brokerz": 3}, "agg": CLUSTERS["agg"]}
    client = {"name": "a", "cluster": "leaf", "library": "java", "version": "4.3.1", "profile": "balanced"}
    common: dict[str, Any] = {
        "advice": "measured",
        "kafka_clusters": clusters,
        "kafka_topics": TOPICS,
        "kafka_clients": [client | {"topics": ["load"]}],
        "verify": VERIFY,
    }
    services = (rest(2, common=common), mirrors(1, common=common), streams(1, common=common))
    hosts = {host: variables for one in services for host, variables in one.hosts.items()}
    groups = {name: of for one in services for name, of in one.groups.items()} | {"rest_balancer": ("lb1",)}
    balancer = common | {"host_cores": 2, "host_memory_mib": 4096}
    assert [e.where for e in errors(Inventory(hosts | {"lb1": balancer}, groups))] == [
        "all: kafka_clusters.leaf.brokerz"
    ]


def test_a_wrong_key_in_a_topic_is_one_error_whoever_uses_the_topic() -> None:
    client = {"name": "a", "cluster": "leaf", "library": "java", "version": "4.3.1", "profile": "balanced"}
    topics = [TOPICS[0] | {"partition": 3}, TOPICS[1]]
    found = verified(topics=topics, kafka_clients=[client | {"topics": ["load"]}])
    assert [e.where for e in found] == ["all: kafka_topics[load].partition"]


def test_a_setting_that_no_topic_has_is_an_error_for_brokers_refuse_it() -> None:
    inventory = rest(1, common={"kafka_topics": [TOPICS[0] | {"settings": {"retention.msec": 1}}]})
    (error,) = [f for f in make_plan(inventory).findings if f.where == "kafka_topics: load"]
    assert (error.severity, error.fix) == ("error", "did you mean retention.ms?")
    assert error.message == "topic 4.3.1 does not know retention.msec: brokers refuse a topic with it"


def test_a_load_needs_the_service_that_it_is_to_restart_by_default() -> None:
    common = {"verify": VERIFY, "kafka_topics": TOPICS}
    (error,) = [e for e in errors(regrouped({"mirror_maker": ("rest1",)}, **common)) if "verify" in e.where]
    assert (
        "verify.service is missing, which means kafka_rest, and the inventory has no hosts" in error.message
    )
    assert error.fix == "write one of: mirror_maker"


def test_the_topic_of_readiness_has_to_be_declared_where_others_are() -> None:
    topics = [TOPICS[0]]
    (warning,) = [f for f in make_plan(rest(1, common={"kafka_topics": topics})).findings
                  if f.rule == "rest.ready_topic"]  # fmt: skip
    assert warning.severity == "warning"
    assert "produce to kedge-ready, which kafka_topics does not declare" in warning.message
    for declared in ([], [*topics, TOPICS[0] | {"name": "kedge-ready"}]):
        found = make_plan(rest(1, common={"kafka_topics": declared})).findings
        assert [f for f in found if f.rule == "rest.ready_topic"] == []


def test_with_errors_only_these_are_printed_unless_all_is_asked_for() -> None:
    plan = make_plan(rest(1, common={"verify": {"cluster": "nowhere"}}))
    assert "kafka-rest.properties" not in text(plan)
    assert "note:" not in text(plan)
    assert "--full" in text(plan)
    assert "note:" in text(plan, full=True)


@pytest.mark.parametrize("distribution", [("confluent", "8.3.1"), ("strimzi", "1.0.0")])
def test_a_proxy_from_an_archive_needs_its_path_and_checksum(distribution: tuple[str, str]) -> None:
    name, version = distribution
    found = errors(rest(1, distribution=name, version=version, archive=None, archive_checksum=""))
    assert [e.where for e in found] == ["rest1: kafka_rest_archive", "rest1: kafka_rest_archive_checksum"]
    assert not errors(rest(1, distribution="mapr", version="5.1.2", archive=None), "inventory")


ARCHIVE, HAS = "/srv/proxy.tar.gz", "a1" * 32


@pytest.mark.parametrize(
    ("asked", "found", "severity", "said"),
    [
        ("0" * 64, None, "warning", "is the example's placeholder of zeros"),
        ("0" * 64, {ARCHIVE: HAS}, "warning", "is the example's placeholder of zeros"),
        (HAS, {ARCHIVE: None}, "warning", f"is {ARCHIVE}, which is not on this machine"),
        (HAS, {ARCHIVE: "b2" * 32}, "error", f"is {HAS}, and {ARCHIVE} has {'b2' * 32}"),
        (HAS, {ARCHIVE: HAS}, None, ""),
        (f"sha256:{HAS.upper()}", {ARCHIVE: HAS}, None, ""),
        (HAS, {ARCHIVE: ""}, None, ""),
        (HAS, None, None, ""),
    ],
)
def test_an_archive_that_a_deploy_would_stop_at_is_found(
    asked: str, found: Any, severity: str | None, said: str
) -> None:
    inventory = rest(2, archive=ARCHIVE, archive_checksum=asked)
    planned = make_plan(inventory, archives=found)
    about = [f for f in planned.findings if f.rule == "inventory.archive"]
    assert [f.severity for f in about] == ([severity] if severity else [])
    assert all(said in f.message and f.where.startswith("rest[1-2]: kafka_rest_archive") for f in about)
    # What a review may go without, a deploy may not.
    deployed = make_plan(inventory, archives=found, deploying=True)
    assert deployed.has_errors == bool(severity)


def test_an_archive_is_read_once_however_many_hosts_are_installed_from_it(tmp_path: Path) -> None:
    archive = tmp_path / "proxy.tar.gz"
    archive.write_bytes(b"kedge")
    hosts = rest(25, archive=str(archive)).hosts
    missing = rest(1, archive=str(tmp_path / "none")).hosts["rest1"]
    inventory = Inventory({**hosts, "rest99": missing}, {"kafka_rest": (*hosts, "rest99")})
    assert read_archives(inventory, SERVICES) == {
        str(archive): hashlib.sha256(b"kedge").hexdigest(),
        str(tmp_path / "none"): None,
    }


@pytest.mark.parametrize(
    ("inventory", "fix"),
    [
        (rest(1, workload={"records_per_s": "20k"}), "write 20000: the unit is records/s"),
        (rest(1, common={"host_memory_mib": "32G"}), "write 32768: the unit is MiB"),
        (
            rest(
                1,
                common={
                    "kafka_clusters": {"leaf": {"version": "4.3.1", "bootstrap_servers": ["a:1", "b:2"]}}
                },
            ),
            "write one text: a:1,b:2",
        ),
    ],
)
def test_what_somebody_is_likely_to_write_is_said_as_it_has_to_be(inventory: Inventory, fix: str) -> None:
    assert fix in [f.fix for f in errors(inventory)]


def test_a_target_without_any_measurement_is_one_error() -> None:
    assert len(errors(of_topics({"target_mb_per_s": 10}))) == 1


def test_a_pattern_that_is_none_says_why() -> None:
    (error,) = errors(mirrors(1, flow={"topics": ["metrics[.*"]}))
    assert "topics[0] is 'metrics[.*': no regular expression (unterminated character set" in error.message


def of_client(**settings: Any) -> Inventory:
    client = {"name": "a", "cluster": "leaf", "library": "java", "version": "4.1.0", "profile": "durability"}
    return of_topics({"partitions": 1}, kafka_clients=[client | settings])


@pytest.mark.parametrize(
    ("inventory", "severity", "said", "fix"),
    [
        (streams(1, rocksdb={"compaction.stile": "LEVEL"}), "error", "compaction.stile is not known", "did you mean streams_app_rocksdb.compaction.style?"),
        (streams(1, rocksdb={"compaction.style": "LEVELED"}), "error", "is 'LEVELED'", "write one of LEVEL, UNIVERSAL, FIFO"),
        (streams(1, rocksdb={"high.priority.ratio": 2}), "error", "ratio is 2", "write a share from 0 to below 1, such as 0.1"),
        (streams(1, rocksdb={"write.buffer.bytes": "16MB"}), "error", "bytes is '16MB'", "write a number"),
        (streams(1, rocksdb={"write.buffer.count": 0}), "error", "count is 0", "write a whole number above 0"),
        (streams(1, settings={"producer.batch.size": "1MB"}), "error", "takes a whole number", "write a whole number, without a unit"),
        (streams(1, environment={"KAFKA_HEAP_OPT": "-Xmx1g"}), "warning", "KAFKA_HEAP_OPT is read by nothing", "did you mean KAFKA_HEAP_OPTS?"),
        (mirrors(1, flow={"environment": {"KAFKA_OPT": "-Da=b"}}), "warning", "KAFKA_OPT is read by nothing", "did you mean KAFKA_OPTS?"),
        (mirrors(1, flow={"producer_settings": {"linger.ms": "15s"}}), "error", "producer_settings.linger.ms is '15s'", "write it in milliseconds, without a unit"),
        (mirrors(1, flow={"consumer_settings": {"fetch.max.bytes": "1M"}}), "error", "fetch.max.bytes is '1M'", "write it in bytes, without a unit"),
        (of_topics({"partitions": 1, "settings": {"retention.ms": "7d"}}), "error", "retention.ms is '7d'", "write it in milliseconds, without a unit"),
        (of_client(producer_settings={"linger.ms": "5ms"}), "error", "linger.ms is '5ms'", "write it in milliseconds, without a unit"),
        (rest(1, common={"host_tuning_settings": {"net.core.somaxcon": 1}}), "warning", "no list of Linux's settings has net.core.somaxcon", "did you mean net.core.somaxconn?"),
    ],
)  # fmt: skip
def test_own_values_that_nothing_could_take_are_found(
    inventory: Inventory, severity: str, said: str, fix: str
) -> None:
    found = [f for f in make_plan(inventory).findings if said in f.message]
    assert [(f.severity, f.fix) for f in found] == [(severity, fix)]


def test_a_name_that_is_nearly_one_of_kafkas_does_not_take_the_application_out_of_the_plan() -> None:
    assert "streams_app" in make_plan(streams(1, environment={"KAFKA_HEAP_OPT": "-Xmx1g"})).services["st1"]


def test_a_class_that_no_jar_of_the_archive_has_is_an_error(tmp_path: Path) -> None:
    jar = tmp_path / "proxy.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        packed.writestr("io/example/Known$Inner.class", "")
        packed.writestr("io/example/Reporter.class", "")
    archive = tmp_path / "proxy.tar.gz"
    with tarfile.open(archive, "w:gz") as whole:
        whole.add(jar, "proxy/share/java/proxy.jar")

    def told(path: Path = archive, **settings: str) -> list[tuple[str, str]]:
        own = {key.replace("_", "."): value for key, value in settings.items()}
        found = look_at_classes(rest(1, archive=str(path), settings=own), SERVICES)
        return [(f.severity, f.where) for f in found]

    lacking = "io.example.Known$Inner, io.example.Interceptor"
    assert told(producer_interceptor_classes=lacking, id="io.example.Other") == [
        ("error", "rest1: kafka_rest_settings.producer.interceptor.classes")
    ]
    login = 'required user="x";'
    assert told(client_sasl_jaas_config=f"io.example.Login {login}") == [
        ("error", "rest1: kafka_rest_settings.client.sasl.jaas.config")
    ]
    assert told(client_sasl_jaas_config=f"io.example.Reporter {login}") == []
    assert told(metric_reporters="io.example.Reporter", client_key_serializer="java.lang.Object") == []
    # What is not here, and what may bring its own, is not looked at.
    assert told(tmp_path / "none", producer_interceptor_classes=lacking) == []
    assert told(producer_interceptor_classes=lacking, CLASSPATH="/opt/mine.jar") == []


EXAMPLE = Path(__file__).parents[2] / "inventories/example"


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("kafka_clusters", "leaf", "bootstrap_servers"), "kafka1", "all: kafka_clusters.leaf.bootstrap_servers"),
        (("kafka_clusters", "leaf", "bootstrap_servers"), None, "all: kafka_clusters.leaf"),
        (("kafka_topics", 0, "name"), "or ders", "all: kafka_topics[0].name"),
        (("kafka_topics", 2, "cluster"), "leef", "kafka_topics: kedge-verify-kafka"),
        (("kafka_rest_distribution",), [], "rest[1-2]: kafka_rest_distribution"),
    ],
)  # fmt: skip
def test_one_wrong_value_is_one_error(path: tuple[Any, ...], value: object, place: str) -> None:
    inventory = read_inventory(EXAMPLE, SERVICES)
    hosts = deepcopy(dict(inventory.hosts))
    for variables in (of for of in hosts.values() if path[0] in of):
        holds: Any = variables
        for part in path[:-1]:
            holds = holds[part]
        holds[path[-1]] = value
    assert [f.where for f in errors(replace(inventory, hosts=hosts))] == [place]


def test_a_topic_that_nothing_declares_is_an_error_beside_one_of_another_cluster() -> None:
    inventory = read_inventory(EXAMPLE, SERVICES)
    hosts = deepcopy(dict(inventory.hosts))
    for variables in hosts.values():
        variables["kafka_topics"][2]["cluster"] = "agg"
    (error,) = errors(replace(inventory, hosts=hosts))
    assert error.where == "all: verify.kafka.topic"


def test_hosts_of_the_example_are_named_where_somebody_plans() -> None:
    inventory = read_inventory(EXAMPLE, SERVICES)

    def places(**found: Any) -> list[str]:
        return [f.where for f in make_plan(inventory, **found).findings if f.rule == "inventory.example"]

    of_clusters = [f"all: kafka_clusters.{name}.bootstrap_servers" for name in ("agg", "leaf")]
    assert sorted(places(archives={})) == [*of_clusters, "all: verify.rest.url"]
    assert places() == []
    own = {"kafka_rest_node": "rest.example.net.mine.org", "kafka_rest_users": {"me@example.org": "secret"}}
    hosts = {host: {**own, "ansible_host": "10.0.0.1"} for host in inventory.hosts}
    assert list(check_example_names(replace(inventory, hosts=hosts))) == []


@pytest.mark.parametrize("address", ["10.0.0.300", "10.0.0.1:22", "http://rest1", "rest 1", "", 7, "1.2.3"])
def test_an_address_that_is_none_is_an_error(address: object) -> None:
    found = [f for f in errors(rest(1, common={"ansible_host": address})) if "address" in f.message]
    assert [f.where for f in found] == ["rest1: ansible_host"]


@pytest.mark.parametrize("address", ["10.0.0.1", "fe80::1%eth0", "rest_1.dc.", "localhost", "10-0-0-1.x"])
def test_a_name_or_an_address_of_a_host_is_no_error(address: str) -> None:
    assert not errors(rest(1, common={"ansible_host": address}), "inventory")
