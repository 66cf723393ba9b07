"""Broken inventories: each is refused with the variable's full name, what is wrong and how to mend it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible import constants
from ansible.plugins.connection import ssh

from kedge.plan.hosts import Inventory
from kedge.services.planning import make_plan
from tests.planned import mirrors
from tests.rest_inventories import rest

ALL: dict[str, Any] = {
    "kafka_clusters": {
        "leaf": {"version": "4.3.1", "brokers": "kafka_leaf"},
        "agg": {"version": "4.3.1", "bootstrap_servers": "agg:9092", "broker_count": 3},
    },
    "kafka_topics": [
        {"name": "orders", "cluster": "leaf", "partitions": 12, "replication": 1},
        {"name": "kedge-ready", "cluster": "leaf", "partitions": 1, "replication": 1},
    ],
    "host_cores": 16,
    "host_memory_mib": 32_768,
}
HOSTS: dict[str, dict[str, Any]] = {
    "leaf1": {"kafka_broker_heap_mib": 1024},
    "rest1": {
        "kafka_rest_cluster": "leaf",
        "kafka_rest_distribution": "confluent",
        "kafka_rest_version": "8.3.1",
        "kafka_rest_archive": "/srv/proxy.tar.gz",
        "kafka_rest_archive_checksum": "a1" * 32,
        "kafka_rest_workload": {"consumers": 20, "partitions": 4, "records_per_s": 1000},
    },
    "lb1": {"rest_balancer_port": 8080},
    "mm1": {
        "mirror_maker_kind": "classic",
        "mirror_maker_version": "3.9.2",
        "mirror_maker_flows": {
            "metrics": {
                "source": "leaf",
                "target": "agg",
                "topics": ["metrics[.].*"],
                "latency_budget_ms": 60_000,
                "largest_topic_partitions": 2,
                "max_message_bytes": 1_000_000,
            }
        },
    },
    "st1": {
        "streams_app_name": "joins",
        "streams_app_main_class": "example.Joins",
        "streams_app_jars": [{"path": "joins.jar", "sha256": "0" * 64}],
        "streams_app_version": "4.3.1",
        "streams_app_cluster": "leaf",
        "streams_app_stores": [{"name": "s", "kind": "windowed", "partitions": 12, "window_ms": 60_000}],
    },
}
GROUPS = {
    "kafka_leaf": ("leaf1",),
    "kafka_broker": ("leaf1",),
    "kafka_rest": ("rest1",),
    "rest_balancer": ("lb1",),
    "mirror_maker": ("mm1",),
    "streams_app": ("st1",),
}
OUT = object()  # takes a variable out


def inventory(changes: Mapping[str, Any] | None = None, groups: Mapping[str, Any] | None = None) -> Inventory:
    """Return a sound inventory with changes: ``host/variable.key[0]`` or, for all hosts, ``all/variable``."""
    hosts = {h: copy.deepcopy(ALL | v) for h, v in HOSTS.items()}
    for where, value in (changes or {}).items():
        host, _, path = where.partition("/")
        for h in hosts if host == "all" else (host,):
            _change(hosts[h], path.split("/"), value)
    return Inventory(hosts, {**GROUPS, **(groups or {})})


def _change(at: Any, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if value is OUT:
        del at[path[-1]]
    else:
        at[int(path[-1]) if isinstance(at, list) else path[-1]] = value


def test_the_inventory_that_the_broken_ones_are_made_of_is_sound() -> None:
    assert [f for f in make_plan(inventory()).findings if f.severity == "error"] == []


W = "kafka_rest_workload"
F = "mirror_maker_flows/metrics"
#: What is broken: change, full name of the variable, what the message says, what the fix says.
BROKEN: list[tuple[dict[str, Any], str, str, str]] = [
    # Wrong kinds.
    ({"rest1/kafka_rest_version": 8.3}, "kafka_rest_version", "8.3", 'put it in quotes: "8.3"'),
    ({"rest1/kafka_rest_cluster": ["leaf"]}, "kafka_rest_cluster", "string", "text"),
    ({"rest1/kafka_rest_workload": 200}, "kafka_rest_workload", "200", "mapping"),
    ({f"rest1/{W}/consumers": "many"}, f"{W}.consumers", "'many'", "whole number"),
    ({f"rest1/{W}/consumers": "200"}, f"{W}.consumers", "'200'", "write 200 without quotes"),
    ({f"rest1/{W}/consumers": 1.5}, f"{W}.consumers", "1.5", "whole number"),
    ({"rest1/kafka_rest_settings": ["a=b"]}, "kafka_rest_settings", "is a list", "mapping"),
    ({"rest1/kafka_rest_settings": {"id": ["x"]}}, "kafka_rest_settings.id", "is a list", "one text"),
    ({"rest1/kafka_rest_settings": {"consumer.threads": "few"}}, "kafka_rest_settings.consumer.threads", "'few'", "number"),
    ({"rest1/kafka_rest_balancer": "http://b"}, "kafka_rest_balancer", "http://b", "mapping"),
    ({"rest1/kafka_rest_instances_per_host": True}, "kafka_rest_instances_per_host", "True", "number"),
    ({"all/host_cores": "sixteen"}, "host_cores", "sixteen", "number"),
    ({"all/kafka_clusters": ["leaf"]}, "kafka_clusters", "is a list", "mapping"),
    ({"all/kafka_clusters/leaf": "leaf1:9092"}, "kafka_clusters.leaf", "leaf1:9092", "mapping"),
    ({"all/kafka_topics": {"orders": 12}}, "kafka_topics", "", "list"),
    ({"mm1/mirror_maker_flows": ["metrics"]}, "mirror_maker_flows", "", "mapping"),
    ({"st1/streams_app_stores": {"s": 1}}, "streams_app_stores", "", "list"),
    ({"leaf1/kafka_broker_settings": {"log.segment.bytes": "1g"}}, "kafka_broker_settings.log.segment.bytes", "'1g'", "bytes"),
    # Negative, zero, out of range.
    ({f"rest1/{W}/consumers": -1}, f"{W}.consumers", "-1", "0 or more"),
    ({f"rest1/{W}/records_per_s": 0}, f"{W}.records_per_s", "0", "above 0, in records/s"),
    ({f"mm1/{F}/mb_per_s": 0}, "mirror_maker_flows.metrics.mb_per_s", "0", "above 0, in MB/s"),
    ({f"rest1/{W}/partitions": 0}, f"{W}.partitions", "0", "above 0"),
    ({f"rest1/{W}/record_bytes": -100}, f"{W}.record_bytes", "-100", "above 0"),
    ({f"rest1/{W}/records_per_request": 0}, f"{W}.records_per_request", "0", "above 0"),
    ({"rest1/kafka_rest_first_port": 0}, "kafka_rest_first_port", "0", "1 or more"),
    ({"rest1/kafka_rest_first_port": 70_000}, "kafka_rest_first_port", "70000", "65535 or less"),
    ({"rest1/kafka_rest_instances_per_host": 0}, "kafka_rest_instances_per_host", "0", "above 0"),
    ({"rest1/kafka_rest_instances_per_host": 1000}, "kafka_rest_instances_per_host", "1000", "64 or less"),
    ({"leaf1/kafka_broker_id": -1}, "kafka_broker_id", "-1", "0 or more"),
    ({"all/host_cores": 0}, "host_cores", "0", "above 0"),
    ({"all/host_memory_mib": -4096}, "host_memory_mib", "-4096", "256 or more"),
    ({"all/kafka_topics/0/partitions": 0}, "kafka_topics[orders].partitions", "0", "above 0"),
    ({"all/kafka_topics/0/replication": -1}, "kafka_topics[orders].replication", "-1", "above 0"),
    ({f"mm1/{F}/largest_topic_partitions": 0}, "mirror_maker_flows.metrics.largest_topic_partitions", "0", "above 0"),
    ({"st1/streams_app_stores/0/partitions": 0}, "streams_app_stores[0].partitions", "0", "above 0"),
    ({"lb1/rest_balancer_port": 99_999}, "rest_balancer_port", "99999", "65535 or less"),
    # Missing.
    ({"rest1/kafka_rest_cluster": OUT}, "kafka_rest_cluster", "missing", "add it: the cluster that the proxies serve"),
    ({"rest1/kafka_rest_version": OUT}, "kafka_rest_version", "missing", "add it"),
    ({"rest1/kafka_rest_distribution": OUT}, "kafka_rest_distribution", "missing", "add it"),
    ({"rest1/host_cores": OUT}, "host_cores", "missing", "add it"),
    ({"rest1/host_memory_mib": OUT}, "host_memory_mib", "missing", "in MiB"),
    ({"leaf1/host_memory_mib": OUT}, "host_memory_mib", "missing", "in MiB"),
    ({"all/kafka_clusters/agg/version": OUT}, "kafka_clusters.agg.version", "missing", "add it"),
    ({"all/kafka_clusters/agg/bootstrap_servers": OUT}, "kafka_clusters.agg", "names no brokers", "bootstrap_servers"),
    ({"all/kafka_clusters": OUT}, "kafka_rest_cluster", "not declared", "declare it in kafka_clusters"),
    ({"all/kafka_topics/0/name": OUT}, "kafka_topics[0].name", "missing", "add it"),
    ({f"mm1/{F}/source": OUT}, "mirror_maker_flows.metrics.source", "missing", "add it"),
    ({"mm1/mirror_maker_kind": OUT}, "mirror_maker_kind", "missing", "add it: Kafka's own tool"),
    ({"rest1/kafka_rest_zzzzzz": 1}, "kafka_rest_zzzzzz", "is not known", "docs/reference.md"),
    ({"st1/streams_app_name": OUT}, "streams_app_name", "missing", "add it"),
    # Unknown names.
    ({"rest1/kafka_rest_workloads": {}}, "kafka_rest_workloads", "not known", "kafka_rest_workload?"),
    ({f"rest1/{W}/consumer": 3}, f"{W}.consumer", "not known", f"{W}.consumers?"),
    ({"rest1/kafka_rest_heap": 4096}, "kafka_rest_heap", "not known", "kafka_rest_heap_mib?"),
    ({"leaf1/kafka_broker_heap": 4096}, "kafka_broker_heap", "not known", "kafka_broker_heap_mib?"),
    ({"all/kafka_clusters/leaf/versions": "4.3.1"}, "kafka_clusters.leaf.versions", "not known", "version?"),
    ({"all/kafka_topics/0/partition": 3}, "kafka_topics[orders].partition", "not known", "partitions?"),
    ({"all/host_tuning_setting": {}}, "host_tuning_setting", "not known", "host_tuning_settings?"),
    ({f"mm1/{F}/latency_budget": 3}, "mirror_maker_flows.metrics.latency_budget", "not known", "latency_budget_ms?"),
    # Unknown values and versions.
    ({"all/advice": "guessed"}, "advice", "'guessed'", "measured, documented or stock"),
    ({"rest1/kafka_rest_distribution": "confluence"}, "kafka_rest_distribution", "'confluence'", "did you mean confluent?"),
    ({"rest1/kafka_rest_version": "5.5.0"}, "kafka_rest_version", "5.5.0", "7.9 and 8.x"),
    ({"rest1/kafka_rest_version": "latest"}, "kafka_rest_version", "'latest'", "such as 8.3.1"),
    ({"rest1/kafka_rest_distribution": "strimzi"}, "kafka_rest_version", "8.3.1", "1.x"),
    ({"rest1/kafka_rest_consumers_via": "proxy"}, "kafka_rest_consumers_via", "'proxy'", "'balancer'"),
    ({"rest1/kafka_rest_cluster": "laef"}, "kafka_rest_cluster", "laef", "agg, leaf"),
    ({"all/kafka_clusters/leaf/version": "7.9.0"}, "kafka_clusters.leaf.version", "7.9.0", "has Kafka 3.9"),
    ({"all/kafka_clusters/leaf/version": "0.10.2"}, "kafka_clusters.leaf.version", "0.10.2", "2.1 or later"),
    ({"all/kafka_clusters/leaf/brokers": "kafka_laef"}, "kafka_clusters.leaf.brokers", "no such group", "kafka_leaf?"),
    ({"all/kafka_clusters/agg/bootstrap_servers": "agg"}, "kafka_clusters.agg.bootstrap_servers", "'agg'", "host1:9092"),
    ({"all/kafka_clusters/agg/bootstrap_servers": "agg:99999"}, "kafka_clusters.agg.bootstrap_servers", "agg:99999", "host1:9092"),
    ({"all/kafka_topics/0/cluster": "laef"}, "cluster", "laef", "leaf"),
    ({"all/kafka_topics/0/name": "a topic"}, "kafka_topics[0].name", "a topic", "form"),
    ({"mm1/mirror_maker_version": "4.0.0"}, "mirror_maker_version", "4.0.0", ""),
    ({"rest1/kafka_rest_distribution": "sandbox"}, "kafka_rest_distribution", "sandbox", "confluent"),
    # Contradictions.
    ({f"rest1/{W}/readers": 21}, f"{W}.readers", "21 readers are more than 20", "correct one"),
    ({f"rest1/{W}/full_reads": 21}, f"{W}.full_reads", "21 full reads", "correct one"),
    ({"rest1/kafka_rest_first_port": 65_535, "rest1/kafka_rest_instances_per_host": 2}, "kafka_rest_first_port", "65536", "correct one"),
    ({"rest1/kafka_rest_heap_mib": 2048, "rest1/kafka_rest_settings": {"KAFKAREST_HEAP_OPTS": "-Xms1g -Xmx1g"}}, "kafka_rest_heap_mib", "contradicts", "keep one"),
    ({"rest1/kafka_rest_default_stream": "/s/t"}, "kafka_rest_default_stream", "topics, not streams", "mapr"),
    ({"all/kafka_clusters/leaf/bootstrap_servers": "a:9092"}, "kafka_clusters.leaf.bootstrap_servers", "contradicts", "keep one"),
    ({f"rest1/{W}/consumers": 5000, "rest1/kafka_rest_instances_per_host": 1, "all/advice": "documented"}, "kafka_rest_instances_per_host", "above 8192", "or more"),
    ({"mm1/kafka_clusters": {"agg": ALL["kafka_clusters"]["agg"]}}, "kafka_clusters", "not what it is on leaf1", "group_vars/all"),
    ({"rest1/kafka_rest_settings": {"consumer.instance.timeout.ms": 1000}}, "consumer.instance.timeout.ms", "1000", "client_pause_ms"),
    # Clashing ports.
    ({"rest1/ansible_host": "10.0.0.1", "lb1/ansible_host": "10.0.0.1", "lb1/rest_balancer_port": 8082}, "port 8082", "wanted by", "kafka_rest_first_port"),
    ({"rest1/ansible_host": "10.0.0.1", "leaf1/ansible_host": "10.0.0.1", "leaf1/kafka_broker_port": 8083}, "port 8083", "wanted by", "kafka_broker_port"),
    ({"rest1/ansible_host": "10.0.0.1", "leaf1/ansible_host": "10.0.0.1", "rest1/kafka_rest_first_port": 9093}, "port 9093", "wanted by", "kafka_broker_port"),
    ({"leaf1/kafka_broker_port": 9093}, "kafka_broker_port", "9093", "such as 9092"),
    ({"rest1/kafka_rest_first_port": 80}, "port 80", "root", "set kafka_rest_first_port to 1024"),
    # Room.
    ({"rest1/host_memory_mib": 1600, "rest1/kafka_rest_instances_per_host": 2}, "host_memory_mib", "1600", "host_memory_mib"),
    ({"mm1/host_memory_mib": 512}, "host_memory_mib", "512", "host_memory_mib"),
    # Units mixed up.
    ({"rest1/kafka_rest_heap_mib": "4g"}, "kafka_rest_heap_mib", "'4g'", "write 4096: the unit is MiB"),
    ({"rest1/kafka_rest_heap_mib": 4}, "kafka_rest_heap_mib", "4", "the unit is MiB"),
    ({"rest1/kafka_rest_heap_mib": 4_294_967_296}, "kafka_rest_heap_mib", "4294967296", "the unit is MiB"),
    ({"leaf1/kafka_broker_heap_mib": "1GiB"}, "kafka_broker_heap_mib", "'1GiB'", "write 1024"),
    ({"all/host_memory_mib": "32G"}, "host_memory_mib", "'32G'", "write 32768"),
    ({"all/host_memory_mib": None}, "host_memory_mib", "is empty", "give it a value, in MiB: memory of the machine"),
    ({"rest1/kafka_rest_workload": None}, "kafka_rest_workload", "is empty", "give it a value"),
    ({"st1/streams_app_jars/0/sha256": "z" * 64}, "streams_app_jars[0].sha256", "zzz", "64 characters that sha256sum says"),
    ({"all/host_memory_mib": 32}, "host_memory_mib", "32", "the unit is MiB"),
    ({"all/host_memory_mib": 34_359_738_368}, "host_memory_mib", "34359738368", "the unit is MiB"),
    ({f"rest1/{W}/record_bytes": "1kB"}, f"{W}.record_bytes", "'1kB'", "write 1000: the unit is bytes"),
    ({f"rest1/{W}/delivery_latency_ms": "1s"}, f"{W}.delivery_latency_ms", "'1s'", "write 1000: the unit is ms"),
    ({f"rest1/{W}/delivery_latency_ms": 1}, f"{W}.delivery_latency_ms", "1", "the unit is ms"),
    ({f"rest1/{W}/client_pause_ms": 6}, f"{W}.client_pause_ms", "6", "the unit is ms"),
    ({f"rest1/{W}/record_bytes": "1k"}, f"{W}.record_bytes", "'1k'", "write 1024: the unit is bytes"),
    ({"rest1/kafka_rest_settings": {"consumer.request.timeout.ms": "1s"}}, "kafka_rest_settings.consumer.request.timeout.ms", "'1s'", "milliseconds"),
    ({"rest1/kafka_rest_settings": {"producer.buffer.memory": 64 * 2**30}}, "producer.buffer.memory", "68719476736", "or less"),
    ({f"mm1/{F}/latency_budget_ms": "60s"}, "mirror_maker_flows.metrics.latency_budget_ms", "'60s'", "write 60000"),
    ({"st1/streams_app_heap_mib": "1g"}, "streams_app_heap_mib", "'1g'", "write 1024"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "name", "what", "mend"), BROKEN)
def test_a_broken_inventory_is_refused_by_name(
    changes: dict[str, Any], name: str, what: str, mend: str
) -> None:
    plan = make_plan(inventory(changes))
    assert plan.has_errors
    errors = [f for f in plan.findings if f.severity == "error"]
    assert any(name in f.message and what in f.message and mend in f.fix for f in errors), errors


def test_a_group_of_brokers_that_is_there_without_hosts_is_told_from_one_that_is_not() -> None:
    bare = inventory({"all/kafka_clusters/leaf": {"version": "4.1.0", "brokers": "qqqq"}})
    for groups, said, mend in (
        (
            {**bare.groups, "qqqq": ()},
            "that group has no hosts",
            "put hosts into the group qqqq",
        ),
        (bare.groups, "the inventory has no such group", "give bootstrap_servers"),
    ):
        found = [
            f
            for f in make_plan(replace(bare, groups=groups)).findings
            if "kafka_clusters.leaf.brokers" in f.where
        ]
        assert [(said in f.message, mend in f.fix) for f in found] == [(True, True)], found


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(BROKEN) >= 60


def test_two_roles_without_room_for_both_are_refused() -> None:
    both = inventory({"rest1/host_memory_mib": 4096, "rest1/kafka_rest_heap_mib": 2048})
    hosts = {h: dict(v) for h, v in both.hosts.items()}
    hosts["rest1"] |= HOSTS["st1"]
    plan = make_plan(Inventory(hosts, {**GROUPS, "streams_app": ("rest1",)}))
    (error,) = [f for f in plan.findings if f.rule == "host.memory" and f.severity == "error"]
    assert "kafka_rest" in error.message
    assert "streams_app" in error.message


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("kafka_rset_version", "kafka_rest_version"),
        ("host_memory_mb", "host_memory_mib"),
        ("kafka_cluster", "kafka_clusters"),
    ],
)
def test_a_variable_that_nothing_reads_is_a_warning(misspelt: str, meant: str) -> None:
    broken = inventory({f"rest1/{misspelt}": "x", f"rest1/{meant}": OUT})
    found = [f for f in make_plan(broken).findings if misspelt in f.message]
    assert [(f.severity, f.fix) for f in found] == [("warning", f"did you mean {meant}?")]


@pytest.mark.parametrize(
    ("host", "misspelt", "right", "severity", "fix"),
    [
        ("st1", "kafka_rest_versoin", "kafka_rest_version", "warning", "did you mean kafka_rest_version, which is set too?"),
        ("rest1", "kafka_rest_versoin", "kafka_rest_version", "error", "did you mean kafka_rest_version?"),
        ("rest1", "ansible_hosts", None, "warning", "did you mean ansible_host?"),
        ("rest1", "java_pakages", None, "warning", "did you mean java_packages?"),
        ("rest1", "host_tuning_setings", "host_tuning_settings", "error", "did you mean host_tuning_settings?"),
        ("rest1", "kafka_topcs", "kafka_topics", "warning", "did you mean kafka_topics, which is set too?"),
    ],
)  # fmt: skip
def test_a_misspelt_variable_beside_the_right_one_is_found_once(
    host: str, misspelt: str, right: str | None, severity: str, fix: str
) -> None:
    given = inventory().hosts["rest1"].get(right or "", {})
    change = {f"{host}/{misspelt}": {}} | ({f"{host}/{right}": given} if right else {})
    found = [f for f in make_plan(inventory(change)).findings if misspelt in f.message]
    assert [(f.severity, f.fix) for f in found] == [(severity, fix)]


def test_no_variable_by_which_ansible_reaches_a_host_is_taken_for_a_misspelt_one() -> None:
    options = yaml.safe_load(ssh.DOCUMENTATION)["options"].values()
    names = {found["name"] for option in options for found in option.get("vars", ())}
    assert "ansible_private_key_file" in names
    names |= {f"ansible_{fact}" for fact in ("user_id", "user_uid", "user_gid", "user_dir", "hostname")}
    # What Ansible itself gives every host.
    names |= constants.INTERNAL_STATIC_VARS | constants.COMMON_CONNECTION_VARS | {"ansible_verbosity"}
    given = inventory({f"rest1/{name}": "x" for name in names})
    assert not [f for f in make_plan(given).findings if f.where.startswith("rest1: ansible_")]


@pytest.mark.parametrize(
    ("variable", "value", "said", "fix"),
    [
        ("kafka_rest_version", 8, "is 8:", 'in quotes, such as "8.0"'),
        ("kafka_rest_version", 8.3, "is 8.3:", 'put it in quotes: "8.3"'),
        ("kafka_rest_first_port", "08082", "is '08082':", "write 8082"),
        ("kafka_rest_workload", {"records_per_s": "20,000"}, "is '20,000':", "write 20000"),
        ("kafka_rest_workload", {"records_per_s": "2e4"}, "is '2e4':", "write 20000"),
        ("kafka_rest_workload", {"records_per_s": "200"}, "is '200':", "write 200 without quotes"),
        ("kafka_rest_settings", {"producer": {"linger.ms": "hidden"}}, "settings.producer is a mapping", "producer.linger.ms"),
        ("kafka_rest_settings", {"producer.linger.ms": None}, "linger.ms is empty", "give it a value, or take it out"),
        ("kafka_rest_settings", ["producer.linger.ms=hidden"], "is a list, which is no mapping", "write a mapping: KEY: VALUE"),
        ("kafka_rest_settings", "producer.linger.ms=hidden", "is no mapping", "write a mapping: KEY: VALUE"),
        ("kafka_rest_plugin_keys", "my.", "is 'my.':", 'write a list: ["my."]'),
        ("kafka_clusters", None, "kafka_clusters is empty", "give it a value, or take it out"),
        ("kafka_clusters", [{"leaf": "hidden"}], "kafka_clusters is a list, which is no mapping", "from name to cluster"),
        ("kafka_topics", {"orders": {}}, "kafka_topics is a mapping", "- name: orders"),
        ("kafka_rest_distribution", "Confluent", "is 'Confluent':", "did you mean confluent?"),
        ("kafka_rest_balancer", "http://b", "is 'http://b', which is no mapping", "write a mapping with url, sticky"),
        ("kafka_rest_users", ["hidden"], "kafka_rest_users is no mapping", "NAME: PASSWORD"),
        ("verify", None, "verify is empty", "give it a value, or take it out"),
        ("java_version", "17", "is '17'", "write 17 without quotes"),
        ("kafka_topics", [{"name": "t", "cluster": "leaf", "growth": "150%"}], "is '150%':", "write 1.5"),
        ("kafka_topics", [{"name": "t", "cluster": "leaf", "target_mb_per_s": "40 MB/s"}], "is '40 MB/s':", "write 40: the unit is MB/s"),
        ("kafka_topics", [{"name": "a b", "cluster": "leaf"}], "is 'a b':", "letters, digits, dots, _ and - alone"),
    ],
)  # fmt: skip
def test_the_first_thing_that_a_person_would_try_is_named(
    variable: str, value: Any, said: str, fix: str
) -> None:
    findings = make_plan(inventory({f"all/{variable}": value})).findings
    found = [f for f in findings if said in f.message]
    assert {f.severity for f in found} == {"error"}
    assert all(fix in f.fix for f in found)
    assert not [f for f in findings if "hidden" in f.message + f.fix]


def test_a_part_from_which_the_inventory_composes_a_variable_is_no_misspelt_one() -> None:
    parts = inventory({"rest1/kafka_topics": [], "rest1/kafka_topics_a": [], "rest1/my_kafka_topics": []})
    assert not [f for f in make_plan(parts).findings if "nothing reads" in f.message]


def test_what_a_role_takes_from_the_inventory_is_known_to_the_plan() -> None:
    inside = ("instances_", "unpacked_", "jar_set_", "local_ca_")  # what roles hand to one another
    defaults = [
        name
        for file in (Path(__file__).parents[2] / "roles").glob("*/defaults/main.yml")
        for name in yaml.safe_load(file.read_text())
        if not name.startswith(inside)
    ]
    assert {"java_packages", "streams_app_cache"} <= set(defaults)
    everywhere = inventory({f"{host}/{name}": "x" for host in HOSTS for name in defaults})
    found = make_plan(everywhere).findings
    assert not [f.message for f in found if "is not known" in f.message or "nothing reads" in f.message]


@pytest.mark.parametrize(
    ("where", "at"),
    [
        ("rest1/kafka_rest_workload/consumers", "at consumers"),
        ("rest1/kafka_rest_settings", "at thread.pool.max"),
        ("st1/streams_app_stores/0/window_ms", "at window_ms"),
        ("mm1/mirror_maker_flows/metrics/latency_budget_ms", "at latency_budget_ms"),
        ("all/kafka_clusters/leaf/version", "at version"),
        ("all/host_cores", "larger than"),
    ],
)
def test_a_number_with_which_nothing_can_be_computed_is_named(where: str, at: str) -> None:
    large: Any = {"thread.pool.max": "9" * 401} if where.endswith("settings") else 10**401
    (error,) = make_plan(inventory({where: "9" * 5_000 if "version" in where else large})).findings
    assert error.severity == "error"
    assert at in error.message


@pytest.mark.parametrize(
    ("inventory", "keys"),
    [
        (rest(1, common={"kafka_rest_settings": {"producer.ack": 1, "x": {"y": 1}}}), {"producer.ack"}),
        (
            rest(1, common={"kafka_rest_workload": {"consumers": "many"}, "kafka_rest_settings": {"x": 1}}),
            {"x"},
        ),
        (mirrors(1, {"round_trip_ms": "far", "producer_settings": {"batch.sizes": "1"}}), {"batch.sizes"}),
    ],
)
def test_a_wrong_variable_hides_no_unknown_key(inventory: Inventory, keys: set[str]) -> None:
    found = make_plan(inventory).findings
    assert [f.rule for f in found if f.severity == "error"].count("inventory.variable") == 1
    unknown = [f for f in found if f.rule in ("rest.keys", "keys.unknown")]
    assert {key for f in unknown if f.subject for key in f.subject.keys} == keys
    assert len(unknown) == len(keys)


def test_a_wrong_variable_brings_nothing_that_is_wrong_without_it_alone() -> None:
    found = make_plan(
        rest(1, common={"kafka_rest_cluster": 5, "kafka_rest_settings": {"producer.acks": 1}})
    ).findings
    assert [f.message for f in found if f.severity == "error"] == [
        "kafka_rest_cluster is 5: input should be a valid string"
    ]
