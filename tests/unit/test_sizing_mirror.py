"""Mirrors: the article's examples by their numbers, and what must hold for any flow."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.deploy.rendering import render_instance
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.secrets import seal
from kedge.plan.placement import place, quotas
from kedge.plan.settings import MIB
from kedge.plan.version_numbers import LOCKED_KAFKA
from kedge.services.mirror.links import bandwidth_delay_bytes
from kedge.services.mirror.variables import MirrorFlow
from kedge.services.planning import make_plan
from tests.planned import CLUSTERS, METRICS, files, findings, instances, mirrors, value

SERVICE = "mirror_maker"
MM2: dict[str, Any] = {"kind": "mirror_maker_2", "version": "4.3.1"}


def test_remainders_of_several_flows_go_to_the_hosts_that_carry_least() -> None:
    flows = {f"flow{n}": METRICS | {"topics": [f"t{n}"], "largest_topic_partitions": 1} for n in range(4)}
    planned = instances(make_plan(mirrors(2, flows=flows)), SERVICE)
    assert {host: len(found) for host, found in planned.items()} == {"mm1": 2, "mm2": 2}


def test_processes_are_bounded_by_cores_by_measurement_and_the_note_has_both_values() -> None:
    inventory = mirrors(2, cores=2, common={"advice": "measured"})
    assert [len(i) for i in instances(make_plan(inventory), SERVICE).values()] == [2, 2]
    (note,) = findings(inventory, "mirror.processes")
    assert note.severity == "note"
    assert "4 processes by measurement" in note.message
    assert "says 20" in note.message
    assert "60 ms on 2 cores" in note.message


def test_measured_processes_rise_to_what_the_round_trip_asks_for() -> None:
    # 20 partitions on 3 brokers: 7 batches of 50 kB a broker and 100 ms are 10.5 MB/s a producer.
    flow = {"mb_per_s": 40, "round_trip_ms": 100}
    inventory = mirrors(1, flow, cores=1, common={"advice": "measured"})
    assert len(instances(make_plan(inventory), SERVICE)["mm1"]) == 4


def test_hosts_beyond_the_partitions_are_not_to_get_processes_that_would_idle() -> None:
    def fixes(**flow: int) -> list[str]:
        return [f.fix for f in findings(mirrors(5, flow), "mirror.processes") if "run none" in f.message]

    assert fixes(largest_topic_partitions=3) == ["take hosts out, or give its largest topic more partitions"]
    (fix,) = fixes(processes=2)
    assert fix.startswith("set mirror_maker_flows.metrics.processes to 5")


def test_mirror_maker_2_is_asked_for_its_rate_over_the_round_trip_too() -> None:
    # A task, hence a producer, for each of 20 partitions, whatever the workers: 20 batches of 50,000 bytes.
    flow = {"mb_per_s": 40, "round_trip_ms": 100}
    (warning,) = findings(mirrors(2, flow, **MM2), "mirror.round_trip")
    assert "20 tasks, each with a request of 50000 bytes, 1 x batch.size at most, to 1 of" in warning.message
    assert "that is 10 MB/s: enough only if the records compress 4.0 times" in warning.message
    assert warning.fix.startswith("set mirror_maker_flows.metrics.max_compression_ratio to 0.2 ")
    assert "(batch.size is 200000 then)" in warning.fix
    assert findings(mirrors(2, flow | {"max_compression_ratio": 0.2}, **MM2), "mirror.round_trip") == []
    assert findings(mirrors(2, flow | {"mb_per_s": 10, "processes": 1}, **MM2), "mirror.round_trip") == []
    # A batch.size of one's own overrides max_compression_ratio.
    own = flow | {"producer_settings": {"batch.size": 50_000}}
    (warning,) = findings(mirrors(2, own, **MM2), "mirror.round_trip")
    said = "set batch.size to 200000 in producer_settings and mirror_maker_flows.metrics.max_compression_ratio to 0.2,"
    assert warning.fix.startswith(f"{said} if records compress so far, use a topic")
    larger = flow | {"producer_settings": {"batch.size": 200_000}, "max_compression_ratio": 0.2}
    assert findings(mirrors(2, larger, **MM2), "mirror.round_trip") == []
    assert findings(mirrors(2, larger, **MM2), "mirror.producer.batch") == []


def test_mirrors_near_the_target_have_fetches_on_their_way() -> None:
    flow = {"mb_per_s": 40, "round_trip_ms": 100, "direction": "pull"}
    assert findings(mirrors(2, flow, **MM2), "mirror.round_trip") == []
    few = flow | {"largest_topic_partitions": 2, "target_partitions": 2}
    (warning,) = findings(mirrors(2, few, **MM2), "mirror.round_trip")
    assert "2 partitions x 1 MiB. Every 100 ms that is 21 MB/s" in warning.message
    assert warning.fix.startswith("raise max.partition.fetch.bytes")


def test_a_plan_does_not_ask_for_another_linger_than_it_chose_to_the_letter() -> None:
    flow = {"latency_budget_ms": 5_000}
    (own,) = findings(mirrors(1, flow | {"producer_settings": {"linger.ms": 9_000}}), "mirror.latency")
    (planned,) = findings(mirrors(1, flow), "mirror.latency")
    assert own.fix.startswith("set linger.ms to 2250")
    assert planned.fix.startswith("set mirror_maker_flows.metrics.latency_budget_ms to 15500 or more")
    assert findings(mirrors(1, {"latency_budget_ms": 15_500}), "mirror.latency") == []


def test_a_message_that_no_client_could_send_is_an_error() -> None:
    (error,) = findings(mirrors(1, {"max_message_bytes": 3_000_000_000}), severity="error")
    assert "max_message_bytes is 3000000000" in error.message
    assert error.fix.startswith("write 2147483647 or less")


def test_a_mirror_that_gives_a_record_up_before_its_batch_fills_is_an_error() -> None:
    own = {"producer_settings": {"delivery.timeout.ms": 40_000}}
    for kind in ({}, MM2):
        (error,) = findings(mirrors(1, own, **kind), "clients.delivery")
        assert "15000 + 30000 ms: its producer refuses to start" in error.message


def test_a_rate_that_no_number_of_producers_carries_over_the_round_trip_is_a_warning() -> None:
    (warning,) = findings(mirrors(2, {"mb_per_s": 400, "round_trip_ms": 100}), "mirror.round_trip")
    assert warning.severity == "warning"
    assert "20 processes, each with a request of 350000 bytes" in warning.message
    assert "(batch.size is 95239 then)" in warning.fix
    assert "that is 210 MB/s" in warning.message


@pytest.mark.parametrize(
    ("flow", "linger"),
    [
        ({"priority": "bulk"}, "30000"),
        ({"priority": "latency"}, "15000"),
        ({"priority": "bulk", "fill_ms_p95": 7000, "fill_ms_p99": 9000}, "9000"),
        ({"priority": "latency", "fill_ms_p95": 7000, "fill_ms_p99": 9000}, "7000"),
        ({"priority": "latency", "fill_ms_p99": 9000}, "9000"),
    ],
)
def test_linger_comes_from_the_fill_times_or_the_article(flow: dict[str, object], linger: str) -> None:
    plan = make_plan(mirrors(1, flow | {"latency_budget_ms": 120_000}))
    assert value(instances(plan, SERVICE)["mm1"][0], "linger.ms") == linger


def test_linger_is_half_of_what_the_latency_budget_leaves_by_measurement() -> None:
    flow = {"latency_budget_ms": 5_560, "round_trip_ms": 60}
    measured = make_plan(mirrors(1, flow, common={"advice": "measured"}))
    assert value(instances(measured, SERVICE)["mm1"][0], "linger.ms") == "2500"
    (note,) = findings(mirrors(1, flow, common={"advice": "measured"}), "mirror.producer.linger")
    assert "is 2500" in note.message
    assert "says 15000" in note.message
    documented = make_plan(mirrors(1, flow))
    assert value(instances(documented, SERVICE)["mm1"][0], "linger.ms") == "15000"
    (warning,) = findings(mirrors(1, flow), "mirror.latency")
    assert "leaves 5000 ms" in warning.message


def test_a_budget_beyond_the_level_of_the_delay_is_warned_of() -> None:
    """Records wait for their batch within the budget, so a search for a capacity would find that no load passes."""
    flow, levels = {"latency_budget_ms": 120_000}, {"mirror": {"delay_p99_ms": 60_000}}
    (warning,) = findings(mirrors(1, flow, common={"service_levels": levels}), "mirror.latency")
    assert (
        "latency_budget_ms is 120000, and service_levels.mirror.delay_p99_ms allows 60000 ms"
        in warning.message
    )
    assert "set it to 60000" in warning.fix
    levels = {"mirror": {"delay_p99_ms": 120_000}}
    assert not findings(mirrors(1, flow, common={"service_levels": levels}), "mirror.latency")


def test_a_plan_says_what_the_buffers_of_all_tasks_come_to() -> None:
    def noted(partitions: int, **flow: Any) -> list[str]:
        many = {"largest_topic_partitions": partitions, **flow}
        found = findings(mirrors(2, many, kind="mirror_maker_2", version="4.3.1"), "mirror.heap")
        return [f.message for f in found]

    large = {"producer_settings": {"buffer.memory": 33_554_432}}
    assert noted(48) == noted(48, **large) == noted(48, heap_mib=1700, **large) == []
    (said,) = noted(48, heap_mib=1024, **large)
    assert "hold up to 1632 MiB over all workers" in said
    assert "1536 in buffers of producers and 96 fetched, and the heap of one is 1024 MiB" in said


@pytest.mark.parametrize(
    ("flow", "buffer", "because"),
    [
        ({}, 2 * 1_000_000, "50000 bytes for each of 1 of 12 partitions of the target"),
        ({"settings": {"tasks.max": 2}}, 2 * 1_000_000, "a task's share that fills"),
        (
            {"max_compression_ratio": 0.5, "settings": {"tasks.max": 2}},
            2 * 6 * 500_000,
            "and another on its way",
        ),
        (
            {
                "max_compression_ratio": 0.5,
                "settings": {"tasks.max": 2},
                "link_mbit_per_s": 80,
                "round_trip_ms": 50,
            },
            6 * 500_000 + 500_000,
            "and 500000 bytes, which the link holds",
        ),
    ],
)
def test_a_task_of_mirror_maker_2_buffers_what_it_sends_and_the_heap_has_all_tasks(
    flow: dict[str, Any], buffer: int, because: str
) -> None:
    given = {"largest_topic_partitions": 12, "latency_budget_ms": 60_000, **flow}
    many = mirrors(1, given, kind="mirror_maker_2", version="4.3.1", common={"advice": "measured"})
    settings = instances(make_plan(many), SERVICE)["mm1"][0].settings
    (planned,) = [s for s in settings if s.key == "agg.producer.buffer.memory"]
    assert (planned.value, because in planned.because) == (str(buffer), True), planned.because
    tasks = int(next(s.value for s in settings if s.key == "tasks.max"))
    (heap,) = [s for s in settings if s.key == "KAFKA_HEAP_OPTS"]
    buffers = math.ceil(tasks * buffer / MIB)
    assert f"{buffers} MiB for {tasks} producers' buffers of {buffer} bytes" in heap.because
    # 24 MiB fetched: a MiB for each partition, as it came and unpacked.
    assert heap.value.endswith(f"-Xmx{math.ceil((256 + buffers + 24) / 64) * 64}m")


def test_by_documents_alone_a_task_of_mirror_maker_2_keeps_the_default_and_the_heap_has_it() -> None:
    many = mirrors(1, {"largest_topic_partitions": 12}, kind="mirror_maker_2", version="4.3.1")
    process = instances(make_plan(many), SERVICE)["mm1"][0]
    assert value(process, "agg.producer.buffer.memory") == str(32 * MIB)
    assert value(process, "KAFKA_HEAP_OPTS") == f"-Xms704m -Xmx{math.ceil((256 + 12 * 32 + 24) / 64) * 64}m"


def test_a_heap_of_ones_own_bounds_the_unit_and_holds_what_clients_hold() -> None:
    flow: dict[str, Any] = {"environment": {"KAFKA_HEAP_OPTS": "-Xms4g -Xmx4g"}}
    assert value(instances(make_plan(mirrors(1, flow)), SERVICE)["mm1"][0], "MemoryMax") == "4357M"
    assert not findings(mirrors(1, flow), "mirror.heap")
    flow = {
        "heap_mib": 200,
        "target_partitions": 1000,
        "consumer_settings": {"max.partition.fetch.bytes": 8 * MIB},
    }
    (found,) = findings(mirrors(1, flow), "mirror.heap")
    assert found.severity == "warning"
    assert found.message.endswith("47 in buffers of producers and 300 fetched, and its heap is 200 MiB")


def test_buffer_memory_holds_a_batch_for_each_target_partition_and_the_heap_holds_it() -> None:
    process = instances(make_plan(mirrors(1, {"target_partitions": 4000})), SERVICE)["mm1"][0]
    assert value(process, "buffer.memory") == str(4000 * 50_000)
    # 256 + 190 + 2 x 20 MiB, rounded up to 64; beside it 256 and gzip's quarter MiB for each partition
    assert value(process, "KAFKA_HEAP_OPTS") == "-Xms512m -Xmx512m"
    assert value(process, "MemoryMax") == f"{512 + 256 + 1000}M"
    small = instances(make_plan(mirrors(1)), SERVICE)["mm1"][0]
    assert value(small, "buffer.memory") == str(32 * 1024 * 1024)


def test_partitions_and_message_sizes_come_from_the_declared_topics() -> None:
    topics = [
        {
            "name": "metrics.cpu",
            "cluster": "leaf",
            "partitions": 20,
            "settings": {"max.message.bytes": 2_000_000},
        },
        {"name": "metrics.disk", "cluster": "leaf", "partitions": 12},
        {"name": "other", "cluster": "leaf", "partitions": 99},
        {
            "name": "metrics.cpu",
            "cluster": "agg",
            "partitions": 600,
            "settings": {"max.message.bytes": 2_000_000},
        },
        {
            "name": "metrics.disk",
            "cluster": "agg",
            "partitions": 600,
            "settings": {"max.message.bytes": 2_000_000},
        },
    ]
    flow = {k: v for k, v in METRICS.items() if k not in ("largest_topic_partitions", "max_message_bytes")}
    plan = make_plan(mirrors(1, flows={"metrics": flow}, cores=64, common={"kafka_topics": topics}))
    assert not plan.has_errors
    processes = instances(plan, SERVICE)["mm1"]
    assert len(processes) == 20
    assert value(processes[0], "max.request.size") == "2000000"
    assert value(processes[0], "batch.size") == "100000"
    assert value(processes[0], "buffer.memory") == str(1200 * 100_000)


def test_socket_buffers_name_the_bandwidth_delay_product() -> None:
    flow = METRICS | {"round_trip_ms": 60, "link_mbit_per_s": 1000}
    assert bandwidth_delay_bytes(MirrorFlow.model_validate(flow)) == 7_500_000
    process = instances(make_plan(mirrors(1, flow)), SERVICE)["mm1"][0]
    assert "7500000 bytes" in next(s.because for s in process.settings if s.key == "send.buffer.bytes")
    own = flow | {"producer_settings": {"send.buffer.bytes": 131_072}}
    assert [f.severity for f in findings(mirrors(1, own), "mirror.producer.socket")] == ["warning"]


def test_a_persons_own_values_win_are_marked_and_still_checked() -> None:
    own = {"batch.size": 1_000_000, "linger.ms": 100, "max.request.size": 1_000_000}
    plan = make_plan(mirrors(1, {"producer_settings": own}))
    process = instances(plan, SERVICE)["mm1"][0]
    assert value(process, "batch.size") == "1000000"
    assert {s.key for s in process.settings if s.by == "person"} == set(own)
    rules = {f.rule: f.message for f in plan.findings if f.severity == "warning"}
    assert "outgrows the 1000000 bytes" in rules["mirror.producer.batch"]


@pytest.mark.parametrize(
    ("role", "batch", "severity", "said"),
    [
        # What the article began with; the target takes Kafka's default of 1,048,588 bytes.
        ({}, 1_000_000, "warning", "is split and sent again"),
        ({}, 1_048_589, "error", "refused again for ever"),
        (MM2, 1_048_589, "warning", "is split and sent again"),
    ],
)
def test_a_batch_size_above_the_limit_is_an_error_where_it_stops_the_mirror_for_ever(
    role: dict[str, Any], batch: int, severity: str, said: str
) -> None:
    flow = {"producer_settings": {"batch.size": batch}}
    (found,) = findings(mirrors(1, flow, **role), "mirror.producer.batch")
    assert (found.severity, said in found.message) == (severity, True)


GUARDED = {
    name: {
        **CLUSTERS[name],
        "security": {"protocol": protocol, "ca": f"{name}.pem", "user": "kedge", "password": "planted-kedge"},
    }
    for name, protocol in (("leaf", "SASL_PLAINTEXT"), ("agg", "SASL_SSL"))
}
LOGINS = {
    "source_user": "reader",
    "source_password": "planted-reader",
    "target_user": "writer",
    "target_password": "planted-writer",
}


@pytest.mark.parametrize("role", [{}, MM2])
def test_a_flow_logs_in_to_each_of_its_clusters_as_that_asks_and_no_document_holds_a_password(
    role: dict[str, Any],
) -> None:
    plan = make_plan(mirrors(1, LOGINS, common={"kafka_clusters": GUARDED}, **role))
    assert [f for f in plan.findings if f.severity == "error"] == []
    first = instances(plan, SERVICE)["mm1"][0]

    def under(file: str, prefix: str) -> dict[str, str]:
        return {s.key.removeprefix(prefix): s.value for s in first.settings
                if s.file.endswith(file) and s.key.startswith(prefix)}  # fmt: skip

    source = under("mm2.properties", "leaf.") if role else under("consumer.properties", "")
    target = under("mm2.properties", "agg.") if role else under("producer.properties", "")
    assert source["security.protocol"] == "SASL_PLAINTEXT"
    assert 'username="reader"' in source["sasl.jaas.config"]
    assert "ssl.truststore.location" not in source
    assert target["security.protocol"] == "SASL_SSL"
    assert 'username="writer"' in target["sasl.jaas.config"]
    (authority,) = [s for s in first.settings if s.file.endswith("-ca.pem")]
    assert (authority.value, authority.copied) == ("agg.pem", True)
    assert (
        target["ssl.truststore.location"] == authority.file == f"/etc/mirror-maker/{first.name}/target-ca.pem"
    )
    sealed, secrets = seal(plan.to_json())
    assert "planted" not in json.dumps(sealed)
    assert sum("planted-reader" in value for value in secrets.values()) == len(
        instances(plan, SERVICE)["mm1"]
    )


@pytest.mark.parametrize(
    ("flow", "clusters", "said"),
    [
        ({}, GUARDED, "mirror_maker_flows.metrics.source_user or mirror_maker_flows.metrics.source_password"),
        (LOGINS, CLUSTERS, "mirror_maker_flows.metrics.source_user is set, and the cluster takes no login"),
    ],
)
def test_a_login_that_is_missing_or_too_much_is_an_error_and_ones_own_protocol_is_let_through(
    flow: dict[str, Any], clusters: dict[str, Any], said: str
) -> None:
    common = {"kafka_clusters": clusters}
    assert said in findings(mirrors(1, flow, common=common), "client.login")[0].message
    own = {"producer_settings": {"security.protocol": "SSL"}}
    assert findings(mirrors(1, flow | own, common=common), "client.login") == []


@pytest.mark.parametrize(("budget", "interval"), [(5000, "2220"), (600_000, "30000")])
def test_exactly_once_ends_its_transactions_within_the_latency_budget_and_before_the_broker_does(
    budget: int, interval: str
) -> None:
    flow = {"exactly_once": True, "round_trip_ms": 60, "latency_budget_ms": budget}
    worker = instances(make_plan(mirrors(1, flow, **MM2)), SERVICE)["mm1"][0]
    assert value(worker, "leaf->agg.transaction.boundary") == "interval"
    assert value(worker, "leaf->agg.transaction.boundary.interval.ms") == interval
    without = instances(make_plan(mirrors(1, {**flow, "exactly_once": False}, **MM2)), SERVICE)["mm1"][0]
    assert not [s for s in without.settings if "transaction" in s.key]


def test_mirror_maker_2_has_the_same_producer_under_its_own_keys() -> None:
    plan = make_plan(mirrors(2, {"exactly_once": True, "round_trip_ms": 60}, **MM2))
    assert not plan.has_errors
    planned = instances(plan, SERVICE)
    assert {h: [i.name for i in found] for h, found in planned.items()} == {
        "mm1": ["metrics-0"],
        "mm2": ["metrics-0"],
    }
    worker = planned["mm1"][0]
    for key, expected in {
        "clusters": "leaf, agg",
        "tasks.max": "20",
        "leaf->agg.enabled": "true",
        "leaf->agg.topics": "metrics[.].*",
        "agg.producer.compression.type": "gzip",
        "agg.producer.batch.size": "50000",
        "agg.producer.linger.ms": "15000",
        "agg.producer.max.request.size": "1000000",
        "agg.producer.send.buffer.bytes": "-1",
        "leaf.consumer.receive.buffer.bytes": "-1",
        "agg.exactly.once.source.support": "enabled",
        "leaf.consumer.isolation.level": "read_committed",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://mm1:0",
        "replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    }.items():
        assert value(worker, key) == expected


def test_two_flows_between_the_same_clusters_are_worker_groups_apart() -> None:
    logs = METRICS | {"topics": ["logs[.].*"], "priority": "bulk"}
    plan = make_plan(mirrors(1, flows={"metrics": METRICS, "logs": logs}, **MM2))
    groups = [value(i, "agg.group.id") for i in instances(plan, SERVICE)["mm1"]]
    assert groups == ["logs-mm2", "metrics-mm2"]


def test_a_host_more_or_less_leaves_every_process_its_files() -> None:
    before = _files_by_name(["a", "b", "c"])
    assert _files_by_name(["a", "b", "c", "d"]) == before
    assert _files_by_name(["b", "c"]) == before


def test_a_process_more_leaves_the_others_their_files() -> None:
    before = _files_by_name(["a", "b"], processes=9)
    after = _files_by_name(["a", "b"], processes=10)
    assert {n: after[n] for n in before} == before
    assert set(after) - set(before) == {"metrics-9"}


def test_a_worker_of_mirror_maker_2_keeps_its_files_when_hosts_come_and_go() -> None:
    def of_b(hosts: list[str]) -> list[object]:
        plan = make_plan(mirrors(hosts, **MM2))
        return [files(i) for i in instances(plan, SERVICE)["b"]]

    assert of_b(["a", "b"]) == of_b(["b"]) == of_b(["b", "c", "d"])


@pytest.mark.parametrize(
    ("advice", "budget", "committed"),
    [("measured", 5000, "5000"), ("measured", 300_000, "60000"), ("documented", 5000, "60000")],
)
@pytest.mark.parametrize(
    ("kind", "key"),
    [({}, "MIRROR_OFFSET_COMMIT_INTERVAL_MS"), (MM2, "agg.offset.flush.interval.ms")],
    ids=["classic", "mirror_maker_2"],
)
def test_offsets_are_committed_within_the_latency_budget_or_as_documented(
    kind: dict[str, str], key: str, advice: str, budget: int, committed: str
) -> None:
    plan = make_plan(mirrors(1, {"latency_budget_ms": budget}, common={"advice": advice}, **kind))
    assert value(instances(plan, SERVICE)["mm1"][0], key) == committed


def test_each_classic_process_is_a_member_of_its_own_that_may_come_back() -> None:
    found = instances(make_plan(mirrors(2)), SERVICE)
    members = [value(i, "group.instance.id") for of_host in found.values() for i in of_host]
    assert members == [i.name for of_host in found.values() for i in of_host]
    streams = {"environment": {"MIRROR_NUM_STREAMS": 2}}
    two = instances(make_plan(mirrors(1, streams)), SERVICE)["mm1"][0]
    assert not [s for s in two.settings if s.key == "group.instance.id"], "two consumers, one file"


def test_mirror_maker_2_begins_where_the_classic_processes_of_the_flow_committed() -> None:
    classic = instances(make_plan(mirrors(1)), SERVICE)["mm1"][0]
    worker = instances(make_plan(mirrors(1, **MM2)), SERVICE)["mm1"][0]
    assert value(worker, "leaf.consumer.group.id") == value(classic, "group.id")


def _files_by_name(hosts: list[str], **flow: object) -> dict[str, object]:
    planned = instances(make_plan(mirrors(hosts, flow, cores=64)), SERVICE)
    return {i.name: files(i) for of_host in planned.values() for i in of_host}


names = st.lists(st.text("abcdef0123456789-", min_size=1, max_size=8), min_size=1, max_size=12, unique=True)


@given(
    hosts=names,
    count=st.integers(0, 120),
    load=st.dictionaries(st.text("abc", max_size=2), st.integers(0, 9)),
)
def test_all_processes_are_placed_evenly(hosts: list[str], count: int, load: dict[str, int]) -> None:
    placed = place("flow", count, hosts, load)
    assert sorted(n for numbers in placed.values() for n in numbers) == list(range(count))
    each = [len(numbers) for numbers in placed.values()]
    assert max(each) - min(each) <= 1
    assert placed == place("flow", count, hosts, load)
    assert {h: len(n) for h, n in placed.items()} == quotas(count, hosts, load)


@given(hosts=st.integers(2, 12), count=st.integers(1, 150))
@settings(max_examples=25, deadline=None)
def test_a_host_more_moves_few_processes(hosts: int, count: int) -> None:
    before = _places([f"mm{n}" for n in range(hosts)], count)
    after = _places([f"mm{n}" for n in range(hosts + 1)], count)
    moved = sum(before[n] != after[n] for n in range(count))
    assert moved <= 2.5 * count / (hosts + 1) + 3


def _places(hosts: list[str], count: int) -> dict[int, str]:
    return {n: host for host, numbers in place("flow", count, hosts).items() for n in numbers}


flow_shapes = st.fixed_dictionaries(
    {
        "largest_topic_partitions": st.integers(1, 60),
        # Of more, what zstd keeps for the batches of 32 processes would not fit into the memory of one host.
        "target_partitions": st.integers(1, 1000),
        "latency_budget_ms": st.integers(1_000, 600_000),
        "round_trip_ms": st.integers(0, 200),
        "max_message_bytes": st.integers(10_000, 1_048_588),
        "priority": st.sampled_from(["bulk", "latency"]),
    }
)


@given(
    hosts=st.integers(1, 5),
    cores=st.integers(1, 32),
    flow=flow_shapes,
    advice=st.sampled_from(["measured", "documented"]),
    kind=st.sampled_from([{"kind": "classic", "version": "3.9.2"}, MM2]),
)
@settings(max_examples=25, deadline=None)
def test_any_flow_is_planned_whole_and_the_same_each_time(
    hosts: int, cores: int, flow: dict[str, Any], advice: str, kind: dict[str, Any]
) -> None:
    inventory = mirrors(hosts, flow, cores=cores, memory_mib=262_144, common={"advice": advice}, **kind)
    plan = make_plan(inventory)
    assert not plan.has_errors
    assert plan == make_plan(inventory)
    planned = instances(plan, SERVICE)
    found = [i for of_host in planned.values() for i in of_host]
    if kind["kind"] == "classic":
        assert len({i.name for i in found}) == len(found) <= flow["largest_topic_partitions"]
        assert len({value(i, "client.id") for i in found}) == len(found)
    counts = [len(of_host) for of_host in planned.values()]
    assert max(counts) - min(counts) <= 1
    prefix = "" if kind["kind"] == "classic" else "agg.producer."
    for process in found:
        batch, buffer = (int(value(process, f"{prefix}{k}")) for k in ("batch.size", "buffer.memory"))
        request = int(value(process, f"{prefix}max.request.size"))
        heap = int(value(process, "KAFKA_HEAP_OPTS").split("-Xmx")[1].removesuffix("m"))
        assert batch <= 0.05 * request + 1
        # A task of MirrorMaker 2 writes to its share of the partitions.
        tasks = 1 if kind["kind"] == "classic" else int(value(process, "tasks.max"))
        assert buffer >= batch * math.ceil(flow["target_partitions"] / tasks)
        assert heap * MIB > tasks * buffer
        assert int(value(process, "MemoryMax").removesuffix("M")) > heap


def test_clusters_of_the_inventory_are_enough_for_bootstrap_servers() -> None:
    process = instances(make_plan(mirrors(1)), SERVICE)["mm1"][0]
    servers = [s.value for s in process.settings if s.key == "bootstrap.servers"]
    assert servers == [CLUSTERS["leaf"]["bootstrap_servers"], CLUSTERS["agg"]["bootstrap_servers"]]


def test_what_was_measured_of_a_flow_changes_exactly_what_follows_from_it() -> None:
    measured = {"metrics": {"fill_ms_p95": 7000, "fill_ms_p99": 8000, "max_compression_ratio": 0.1}}
    own = {"fill_ms_p95": 9000, "latency_budget_ms": 120_000}
    before, after = (
        files(instances(make_plan(mirrors(1, own, common=common)), SERVICE)["mm1"][0])
        for common in ({}, {"recommended": {"mirror_maker_flows": measured}})
    )
    changed = {key: new for (_, key, old, _), (_, _, new, _) in zip(before, after, strict=True) if old != new}
    assert changed == {"linger.ms": "7000", "batch.size": "100000"}


@pytest.mark.parametrize("kind", [{}, MM2])
def test_own_options_of_the_jvm_keep_the_logging_that_readiness_is_read_from(kind: dict[str, Any]) -> None:
    own = "-Djava.net.preferIPv4Stack=true"
    plan = make_plan(mirrors(1, {"environment": {"KAFKA_OPTS": own, "LOG_DIR": "/elsewhere"}}, **kind))
    process = instances(plan, SERVICE)["mm1"][0]
    options = value(process, "KAFKA_OPTS").split()
    assert options[0].endswith(f"/etc/mirror-maker/{process.name}/log4j{'2' if kind else ''}.properties")
    assert options[1:] == [own]
    mine = "-Dlog4j.configuration=file:/own"
    plan = make_plan(mirrors(1, {"environment": {"KAFKA_OPTS": mine}}, **kind))
    assert value(instances(plan, SERVICE)["mm1"][0], "KAFKA_OPTS") == mine


@pytest.mark.parametrize("kind", [{}, MM2])
def test_reasons_of_own_values_name_the_process_and_hold_no_control_character(kind: dict[str, Any]) -> None:
    own = {"KAFKA_OPTS": "-Da=b", "LOG_DIR": "/elsewhere"}
    settings_of = {"listeners": "http://0.0.0.0:8083"} if kind else {}
    inventory = mirrors(1, {"environment": own, "settings": settings_of}, **kind)
    document, _ = seal(make_plan(inventory).to_json())
    (process, *_) = document["hosts"]["mm1"]["services"][SERVICE]["instances"]
    because = {s["key"]: s["because"] for s in process["settings"]}
    assert f"would have said /var/log/mirror-maker/{process['name']}:" in because["LOG_DIR"]
    written = "".join(render_instance("mirror-maker", process).values()) + json.dumps(document)
    assert not [c for c in written if not c.isprintable() and c != "\n"]
    assert "\\u0000" not in written
    assert "\\u0001" not in written


@pytest.mark.parametrize("kind", [{}, MM2])
def test_a_heartbeat_that_comes_after_the_session_is_an_error(kind: dict[str, Any]) -> None:
    own = {"consumer_settings": {"heartbeat.interval.ms": 9_000, "session.timeout.ms": 9_000}}
    (error,) = findings(mirrors(1, own, **kind), "clients.heartbeat")
    assert error.severity == "error"
    assert error.fix.startswith("take ")
    own = {"consumer_settings": {"heartbeat.interval.ms": 8_999, "session.timeout.ms": 9_000}}
    (warning,) = findings(mirrors(1, own, **kind), "clients.heartbeat")
    assert warning.severity == "warning"
    own = {"consumer_settings": {"heartbeat.interval.ms": 4_500, "session.timeout.ms": 9_000}}
    assert findings(mirrors(1, own, **kind), "clients.heartbeat") == []


@pytest.mark.parametrize("prefix", ["agg.producer.", "leaf->agg.producer.override."])
def test_settings_of_mirror_maker_2_that_lose_records_are_an_error(prefix: str) -> None:
    flow: dict[str, Any] = {"settings": {f"{prefix}acks": 1}}
    (error,) = findings(mirrors(1, flow, **MM2), "mirror.producer.acks")
    assert (error.severity, error.fix) == ("error", f"take {prefix}acks out: MirrorMaker sets all")
    flow["settings"] = {f"{prefix}max.in.flight.requests.per.connection": 5}
    (warning,) = findings(mirrors(1, flow, **MM2), "mirror.producer.order")
    assert "is 5" in warning.message
    flow["settings"] = {f"{prefix}acks": "all", f"{prefix}max.in.flight.requests.per.connection": 1}
    assert findings(mirrors(1, flow, **MM2), "mirror.producer") == []


def test_acks_of_mirror_maker_2_among_the_producers_own_values_are_found_too() -> None:
    own = {"producer_settings": {"acks": "0"}}
    assert findings(mirrors(1, own, **MM2), "mirror.producer.acks", "error")


@pytest.mark.parametrize(
    ("kind", "version", "last"), [("classic", "3.8.1", "3.9.2"), ("mirror_maker_2", "4.2.0", "4.3.1")]
)
def test_a_version_whose_jars_nothing_names_is_an_error_of_the_plan(
    kind: str, version: str, last: str
) -> None:
    inventory = mirrors(1, kind=kind, version=version)
    (error,) = findings(inventory, "mirror.lock", "error")
    assert error.fix == f"set mirror_maker_version to {last}, or kafka_lock to a lock of {version}"
    named = mirrors(1, kind=kind, version=version, common={"kafka_lock": "/srv/kafka.lock"})
    assert findings(named, "mirror.lock") == []
    assert findings(mirrors(1, kind=kind, version=last), "mirror.lock") == []


def test_the_plan_knows_the_locks_that_there_are() -> None:
    there = {
        file.stem.removeprefix("kafka-") for file in Path("roles/jar_set/files").glob("kafka-[0-9]*.lock")
    }
    assert set(LOCKED_KAFKA) == there


@pytest.mark.parametrize("role", [{}, MM2])
def test_each_process_tells_its_metrics_on_a_port_by_its_number(role: dict[str, Any]) -> None:
    flow = {
        "metrics": {"first_port": 9410},
        "largest_topic_partitions": 4,
        "environment": {"KAFKA_OPTS": "-Da=b"},
    }
    planned = instances(make_plan(mirrors(2, flow, **role)), SERVICE)
    seen = [i for of_host in planned.values() for i in of_host]
    assert len(seen) >= 2
    for one in seen:
        number = int(one.name.rpartition("-")[2])
        options = value(one, "KAFKA_OPTS")
        folder = f"/etc/mirror-maker/{one.name}"
        assert f"=127.0.0.1:{9410 + number}:{folder}/metrics.yaml" in options
        assert options.startswith("-Dlog4j")
        assert options.endswith("-Da=b")
        assert "'kafka.producer:*'" in value(one, "includeObjectNames")


def test_flows_that_would_share_a_metrics_port_are_an_error() -> None:
    one = METRICS | {"metrics": {"first_port": 9410}, "processes": 1}
    flows = {"first": one, "second": one | {"topics": ["t"]}}
    (error,) = findings(mirrors(1, flows=flows), "inventory.port", "error")
    assert (
        "port 9410 of mm1 is wanted by mirror_maker@first-0 of mm1 and mirror_maker@second-0" in error.message
    )
    assert "metrics.first_port" in error.fix
    flows["second"] = flows["second"] | {"metrics": {"first_port": 9420}}
    assert findings(mirrors(1, flows=flows), "inventory.port") == []


def test_without_metrics_a_mirror_has_no_agent() -> None:
    (of_host,) = instances(make_plan(mirrors(1, cores=1)), SERVICE).values()
    assert "-javaagent" not in value(of_host[0], "KAFKA_OPTS")


@pytest.mark.parametrize(
    ("one", "other", "declared", "shared"),
    [
        ([".*"], ["orders"], [], "orders"),
        (["logs[.].*"], [".*[.]eu"], ["logs.eu"], "logs.eu"),
        (["logs[.].*"], [".*[.]eu"], ["logs.us"], None),
        (["orders"], ["payments"], [], None),
    ],
)
def test_topics_that_patterns_of_two_groups_both_match_are_copied_twice(
    one: list[str], other: list[str], declared: list[str], shared: str | None
) -> None:
    """The flows run on hosts of two groups, each with variables of its own."""
    topics = [{"name": name, "cluster": "leaf", "partitions": 20} for name in declared]
    common = {"kafka_topics": topics}
    here = mirrors(["mm1"], flows={"first": METRICS | {"topics": one}}, common=common)
    there = mirrors(["mm2"], flows={"second": METRICS | {"topics": other}}, common=common)
    inventory = Inventory({**here.hosts, **there.hosts}, {"mirror_maker": ("mm1", "mm2")})
    found = findings(inventory, "mirror.twice", "error")
    assert [f"both match {shared}, from leaf to agg" in f.message for f in found] == (
        [True] if shared else []
    )


@pytest.mark.parametrize(
    ("servers", "twice"),
    [
        ("agg1:9092,agg2:9092", True),
        (" AGG2:9092 , agg1:9092", True),
        ("agg3:9092,agg2:9092", True),
        ("agg1:9093", False),
        ("agg3:9092", False),
    ],
)
def test_a_cluster_of_two_names_is_known_by_a_broker_in_common(servers: str, twice: bool) -> None:
    """Without one nobody can tell: the brokers may be others of the same cluster, or another cluster's."""
    known = {
        name: {"version": "4.3.1", "bootstrap_servers": where}
        for name, where in (("leaf", "leaf1:9092"), ("agg", "agg1:9092,agg2:9092"), ("other", servers))
    }
    flows = {"first": METRICS, "second": METRICS | {"target": "other"}}
    found = findings(mirrors(1, flows=flows, common={"kafka_clusters": known}), "mirror.twice", "error")
    assert [f.message.endswith("; agg and other have a broker in common") for f in found] == [True] * twice
