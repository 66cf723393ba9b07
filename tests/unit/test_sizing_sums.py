"""Sums that have to hold of a workload: bytes a second, what is held in memory, files, cores."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.jvm_flags import maximum_heap_mib
from kedge.services.planning import make_plan
from tests.planned import CLUSTERS, METRICS, findings, instances, mirrors, of_topics, streams, value
from tests.rest_inventories import heap_mib, of_rule, planned, rest

MIB = 2**20
LINK = {"host_link_mbit_per_s": 1000}
HUGE = {"records_per_s": 20_000, "record_bytes": 100_000}


# REST proxies


@pytest.mark.parametrize(
    ("records_per_s", "severity"), [(20_000, "error"), (1_100, "warning"), (900, None)], ids=str
)
def test_bytes_that_a_link_does_not_carry_are_found(records_per_s: int, severity: str | None) -> None:
    workload = {"records_per_s": records_per_s, "record_bytes": 100_000}
    found = of_rule(make_plan(rest(workload=workload, common=LINK)), "rest.link")
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_the_finding_of_a_link_says_by_how_much() -> None:
    (found,) = of_rule(make_plan(rest(workload=HUGE, common=LINK)), "rest.link")
    assert "2000.0 MB/s, 2666.7 as base64" in found.message
    assert "125 MB/s" in found.message
    assert "22 times as many hosts" in found.fix
    assert of_rule(make_plan(rest(workload=HUGE)), "rest.link") == []


def test_a_buffer_grows_to_hold_a_request_and_no_further_than_half_of_the_heap() -> None:
    workload = HUGE | {"records_per_request": 500}
    assert int(planned(rest(workload=workload), "producer.buffer.memory")) == 48 * MIB
    assert planned(rest(workload=workload, common={"advice": "documented"}), "producer.buffer.memory") == str(
        32 * MIB
    )
    gigabytes = {"record_bytes": 2_000_000, "records_per_request": 5_000, "concurrent_requests": 1}
    inventory = rest(workload=gigabytes, heap_mib=1_024, common={"advice": "measured"})
    assert int(planned(inventory, "producer.buffer.memory")) == 256 * MIB
    assert of_rule(make_plan(inventory), "rest.producer.buffer", "error") == []
    assert of_rule(make_plan(inventory), "rest.producer.buffer", "warning") == []


@pytest.mark.parametrize("advice", ["measured", "documented"])
def test_a_request_that_the_buffer_does_not_hold_is_found_and_its_fix_helps(advice: str) -> None:
    own = {"producer.buffer.memory": 1_000_000}
    workload = {"record_bytes": 100_000, "records_per_request": 100}
    common = {"advice": advice}
    (found,) = of_rule(make_plan(rest(workload=workload, settings=own, common=common)), "rest.request")
    assert "10000000 bytes, and producer.buffer.memory is 1000000" in found.message
    wanted = int(found.fix.split()[3])
    assert f"set producer.buffer.memory to {wanted} in kafka_rest_settings" in found.fix
    fixed = rest(workload=workload, settings={"producer.buffer.memory": wanted}, common=common)
    assert of_rule(make_plan(fixed), "rest.request") == []
    fewer = rest(workload=workload | {"records_per_request": 10}, settings=own, common=common)
    assert "send 10 records or fewer" in found.fix
    assert of_rule(make_plan(fewer), "rest.request") == []


def test_requests_in_flight_have_their_part_of_the_heap() -> None:
    workload = HUGE | {"records_per_request": 500, "concurrent_requests": 40}
    plan = make_plan(rest(workload=workload, instances_per_host=2))
    # 20 requests of 50 MB in each, as base64 and once more decoded: 2.2 GiB.
    in_flight = 20 * 50_000_000 * (4 / 3 + 1) / MIB
    heap = plan.services["rest1"]["kafka_rest"][0].value("KAFKAREST_HEAP_OPTS")
    assert (maximum_heap_mib(heap) or 0) > in_flight
    (setting,) = [
        s for s in plan.services["rest1"]["kafka_rest"][0].settings if s.key == "KAFKAREST_HEAP_OPTS"
    ]
    assert "20 requests in flight x 47.7 MiB x 2.33" in setting.because
    (error,) = of_rule(
        make_plan(rest(workload=workload, instances_per_host=2, common={"advice": "documented"})),
        "rest.heap.bodies",
    )
    assert error.severity == "error"
    assert "40 requests" not in error.message
    small = {"records_per_s": 1_000, "record_bytes": 100}
    assert heap_mib(rest(workload=small)) == heap_mib(rest(workload={})) == 512


def clusters(brokers: int | None) -> dict[str, Any]:
    leaf = {"version": "4.3.1", "bootstrap_servers": "leaf:9092", "broker_count": brokers}
    return {"kafka_clusters": {"leaf": {k: v for k, v in leaf.items() if v}}}


def test_a_reader_holds_a_fetch_of_each_broker() -> None:
    workload = {"consumers": 10, "partitions": 400}
    one, three, unknown = (heap_mib(rest(workload=workload, common=clusters(n))) for n in (1, 3, None))
    # Twice 2 x 100 MiB more for each of the five readers of a process.
    assert three - one == pytest.approx(5 * 2 * 2 * 100, abs=256)
    assert unknown == three
    plan = make_plan(rest(workload=workload, common=clusters(None)))
    (heap,) = [s for s in plan.services["rest1"]["kafka_rest"][0].settings if "HEAP" in s.key]
    assert "3 brokers (assumed: broker_count of the cluster is not given) x 50 MiB" in heap.because
    few = {"consumers": 20, "partitions": 12}
    assert heap_mib(rest(workload=few, common=clusters(1))) == heap_mib(rest(workload=few))


def test_readers_that_cores_do_not_serve_are_found() -> None:
    workload = {"consumers": 1_500, "delivery_latency_ms": 50}
    (found,) = of_rule(make_plan(rest(workload=workload, cores=32)), "rest.cores.readers", "warning")
    assert "1500 readers, assumed to read 100 records/s each, take 0.23 of a core each" in found.message
    assert "what their bytes cost was not measured" in found.message
    assert "345.0 cores, and host_cores is 32" in found.message
    slow = make_plan(rest(workload={"consumers": 400, "delivery_latency_ms": 500}, cores=32))
    assert of_rule(slow, "rest.cores.readers") == []


def test_a_number_of_instances_of_ones_own_is_held_against_the_load() -> None:
    workload = {"records_per_s": 1_000_000}
    (found,) = of_rule(
        make_plan(rest(workload=workload, cores=32, instances_per_host=1)), "rest.load", "warning"
    )
    assert "kafka_rest_instances_per_host is 1" in found.message
    assert of_rule(make_plan(rest(workload=workload, cores=32)), "rest.load") == []


def test_produced_records_take_cores_by_requests_records_and_bytes() -> None:
    def found(rule: str, cores: int, **workload: int) -> Finding:
        (one,) = of_rule(make_plan(rest(workload=workload, cores=cores)), rule, "warning")
        return one

    large = {"records_per_s": 80_000, "record_bytes": 2_500}
    load = found("rest.load", 2, **large)
    assert (
        "ask for 3 processes of 2 cores: 80000 / 100 requests/s x 400 µs + 80000 records/s x 5.4 µs + "
        "200000000 bytes/s x 6.4 ns are 2.03 cores (Real proxy measurements, What producing takes), 2 times as "
        "many just after a start (REST proxy measurements, Conditions); 2 cores have room for 1"
        in load.message
    )
    assert "3 times as many hosts" in load.fix
    assert "more records in a request" not in load.fix
    small = large | {"record_bytes": 100}
    assert of_rule(make_plan(rest(workload=small, cores=2)), "rest.load") == []
    single = found("rest.load", 16, **small, records_per_request=1)
    assert "80000 / 1 requests/s x 400 µs" in single.message
    assert "send more records in a request" in single.fix
    readers = {"consumers": 10, "delivery_latency_ms": 50}
    both = found("rest.cores.readers", 4, **large, **readers)
    assert "200000000 bytes/s x 6.4 ns are 2.03 cores" in both.message
    assert ": 4.3 cores, and host_cores is 4" in both.message
    assert "spread the load over 2 times as many hosts, or let them wait longer" in both.fix
    # Of 106 or 107 hosts some would get 15 readers, which take 1.05 cores.
    many = found("rest.cores.readers", 1, consumers=1500, delivery_latency_ms=1000)
    assert "105.0 cores" in many.message
    assert "over 108 times as many hosts" in many.fix
    # What is produced exceeds the cores alone.
    assert "wait longer" not in found("rest.cores.readers", 1, **large, **readers).fix
    assert of_rule(make_plan(rest(workload=small | readers, cores=4)), "rest.cores.readers") == []
    bridge = {"distribution": "strimzi", "version": "0.33.1"}
    (of_bridge,) = of_rule(make_plan(rest(workload=small, cores=2, **bridge)), "rest.load", "warning")
    assert "1060 µs + 80000 records/s x 17 µs + 8000000 bytes/s x 15 ns are 2.33 cores" in of_bridge.message


def test_one_bootstrap_server_of_several_brokers_is_a_note() -> None:
    (found,) = of_rule(make_plan(rest()), "rest.bootstrap", "note")
    assert "kafka_clusters.leaf has one bootstrap server, leaf:9092" in found.message
    assert of_rule(make_plan(rest(common=clusters(1))), "rest.bootstrap") == []
    two = {"kafka_clusters": {"leaf": CLUSTERS["leaf"] | {"bootstrap_servers": "leaf1:9092,leaf2:9092"}}}
    assert of_rule(make_plan(rest(common=two)), "rest.bootstrap") == []


def test_the_mapr_build_gets_the_answers_that_its_heap_is_counted_for() -> None:
    workload = {"consumers": 20, "full_reads": 20}
    inventory = rest(workload=workload, distribution="mapr", version="5.1.2")
    assert planned(inventory, "consumer.request.max.bytes") == str(2 * MIB)


def test_a_plan_asks_for_no_other_threads_than_it_planned() -> None:
    workload = {"consumers": 130, "largest_group": 120}
    assert of_rule(make_plan(rest(workload=workload)), "rest.consumer.threads", "warning") == []
    own = make_plan(rest(workload=workload, settings={"consumer.threads": 50}))
    assert "set consumer.threads to 121" in of_rule(own, "rest.consumer.threads", "warning")[0].fix


# Java 8


@pytest.mark.parametrize(
    ("inventory", "service", "key"),
    [
        (rest(version="7.9.1", common={"java_version": 8}), "kafka_rest", "KAFKAREST_JVM_PERFORMANCE_OPTS"),
        (mirrors(common={"java_version": 8}), "mirror_maker", "KAFKA_JVM_PERFORMANCE_OPTS"),
        (streams(version="3.9.2", common={"java_version": 8}), "streams_app", "KAFKA_JVM_PERFORMANCE_OPTS"),
    ],
    ids=["rest", "mirror", "streams"],
)
def test_java_8_gets_the_flags_of_its_own_log(inventory: Inventory, service: str, key: str) -> None:
    flags = next(iter(instances(make_plan(inventory), service).values()))[0].value(key)
    assert "-Xlog:" not in flags
    assert "-Xloggc:/var/log/" in flags
    assert "-XX:+UseGCLogFileRotation" in flags


def test_hosts_of_8_and_later_share_the_one_flag_that_both_take() -> None:
    inventory = mirrors(2)
    inventory.hosts["mm1"]["java_version"] = 8  # type: ignore[index]
    flags = instances(make_plan(inventory), "mirror_maker")["mm2"][0].value("KAFKA_JVM_PERFORMANCE_OPTS")
    assert "-Xloggc:/var/log/" in flags
    assert "Rotation" not in flags


def test_the_mapr_build_of_which_nobody_says_the_java_gets_that_flag() -> None:
    inventory = rest(distribution="mapr", version="5.1.2")
    flags = planned(inventory, "KAFKAREST_JVM_PERFORMANCE_OPTS")
    assert "-Xloggc:" in flags
    assert "-Xlog:" not in flags


# Mirrors

AGG = CLUSTERS["agg"]


def to_agg(**agg: Any) -> dict[str, Any]:
    return {"kafka_clusters": {**CLUSTERS, "agg": {**AGG, **agg}}}


@pytest.mark.parametrize("advice", ["measured", "documented"])
def test_a_mirror_of_topics_by_pattern_counts_all_partitions_of_its_target(advice: str) -> None:
    inventory = mirrors(common=to_agg(other_partitions=5_000) | {"advice": advice})
    process = instances(make_plan(inventory), "mirror_maker")["mm1"][0]
    assert int(value(process, "buffer.memory")) == 5_000 * 50_000
    assert int(value(process, "KAFKA_HEAP_OPTS").partition("-Xmx")[2][:-1]) > 5_000 * 50_000 / MIB
    # zstd would take 17 GiB beside the heap.
    assert value(process, "compression.type") == "gzip"
    heap = int(value(process, "KAFKA_HEAP_OPTS").partition("-Xmx")[2][:-1])
    assert int(value(process, "MemoryMax")[:-1]) >= heap + 5_000 // 4
    assert findings(inventory, "mirror.target_partitions") == []


def test_a_mirror_asks_for_the_partitions_that_nobody_says() -> None:
    (found,) = findings(mirrors(), "mirror.target_partitions", "note")
    assert "counts 20 partitions" in found.message
    assert "set mirror_maker_flows.metrics.target_partitions" in found.fix
    assert findings(mirrors(flow={"target_partitions": 40}), "mirror.target_partitions") == []


def test_a_mirror_holds_a_fetch_of_each_broker() -> None:
    settings = {"fetch.max.bytes": 10 * MIB, "max.partition.fetch.bytes": 10 * MIB}
    inventory = mirrors(flow={"consumer_settings": settings})
    process = instances(make_plan(inventory), "mirror_maker")["mm1"][0]
    (heap,) = [s for s in process.settings if s.key == "KAFKA_HEAP_OPTS"]
    assert "60 MiB fetched, as it came and unpacked: twice the smaller of 3 brokers x 10 MiB" in heap.because
    tasks = mirrors(flow={"consumer_settings": settings}, kind="mirror_maker_2", version="4.3.1")
    process = instances(make_plan(tasks), "mirror_maker")["mm1"][0]
    (heap,) = [s for s in process.settings if s.key == "KAFKA_HEAP_OPTS"]
    assert "400 MiB fetched" in heap.because
    assert "20 consumers x 3 brokers x 10 MiB and 20 partitions x 10 MiB" in heap.because


def test_a_link_that_a_flow_fills_before_compression_is_found() -> None:
    flow = {"mb_per_s": 60, "link_mbit_per_s": 100}
    (found,) = findings(mirrors(flow=flow), "mirror.link", "warning")
    assert "carries 60 MB/s before compression" in found.message
    assert "12.5 MB/s: it fits where batches compress to 21% of their size" in found.message
    assert findings(mirrors(flow=flow | {"link_mbit_per_s": 1_000}), "mirror.link") == []
    none = flow | {"producer_settings": {"compression.type": "none"}}
    assert findings(mirrors(flow=none), "mirror.link", "error")


def test_a_flow_that_its_cores_do_not_compress_is_found() -> None:
    (found,) = findings(mirrors(1, cores=2, flow={"mb_per_s": 280}), "mirror.cores", "warning")
    assert "about 12 cores at 22.8 MB/s each; its hosts have 2" in found.message
    assert findings(mirrors(2, cores=16, flow={"mb_per_s": 280}), "mirror.cores") == []
    # One partition employs one of two hosts.
    one = {"mb_per_s": 60, "largest_topic_partitions": 1}
    (idle,) = findings(mirrors(2, cores=2, flow=one), "mirror.cores", "warning")
    assert "the 1 of its hosts that can run it have 2. " in idle.message
    assert findings(mirrors(2, cores=2, flow={"mb_per_s": 60, "processes": 1}), "mirror.cores", "warning")
    assert idle.fix.startswith("use 2 times as many cores, or measure")


def test_a_fill_time_of_ones_own_is_not_quoted_as_the_articles() -> None:
    flow = {"fill_ms_p95": 20_001, "latency_budget_ms": 30_000}
    (found,) = findings(mirrors(flow=flow, common={"advice": "measured"}), "mirror.producer.linger", "note")
    assert "says 20001" not in found.message
    assert (
        "within which 95 percent of its batches fill (mirror_maker_flows.metrics.fill_ms_p95)"
        in found.message
    )


def test_a_request_is_held_against_what_the_target_takes_not_the_flow() -> None:
    own = {"producer_settings": {"max.request.size": 5_000_000}}
    wide = to_agg(message_max_bytes=10_485_760)
    assert findings(mirrors(flow=own, common=wide), "mirror.producer.message_bytes") == []
    (found,) = findings(mirrors(flow=own), "mirror.producer.message_bytes", "warning")
    assert "is 5000000, above the 1048588 that cluster agg takes" in found.message
    assert METRICS["max_message_bytes"] != 1_048_588


# Streams applications

WINDOWS = {
    "name": "counts",
    "partitions": 54,
    "window_ms": 120_000,
    "records_per_s": 54,
    "record_bytes": 10_000,
}


def test_segments_of_a_windowed_changelog_close_so_that_retention_can_act() -> None:
    inventory = streams(stores=[WINDOWS], record_bytes=10_000)
    (instance,) = instances(make_plan(inventory), "streams_app")["st1"]
    # A window of 2 minutes and 10 more for clocks are 12 minutes; half of it.
    assert value(instance, "topic.segment.ms") == "360000"
    (setting,) = [s for s in instance.settings if s.key == "topic.segment.ms"]
    # 54 partitions at 10 kB/s: 12 minutes kept, 5 until retention looks, 6 in the open segment.
    assert f"instead of {54 * 10_000 * 60 * (12 + 5 + 6) / 1e6:.0f} MB" in setting.because
    # By default the open one has up to 1 GiB.
    assert f"up to {54 * (2**30 + 10_000 * 60 * 17) / 1e6:.0f} MB" in setting.because


def test_a_restore_counts_the_open_segment_of_ones_own() -> None:
    own = {"topic.segment.ms": 604_800_000}
    (found,) = findings(streams(stores=[WINDOWS], settings=own), "streams.restore", "warning")
    seconds = 54 * (2**30 + 10_000 * 60 * 17) / 20e6
    assert f"about {seconds:.0f} s at 20 MB/s" in found.message
    small = own | {"topic.segment.bytes": 1_048_576}
    assert findings(streams(stores=[WINDOWS], settings=small), "streams.restore") == []


def test_the_heap_of_an_application_holds_what_its_threads_fetch() -> None:
    keys = {"name": "keys", "kind": "key_value", "partitions": 400, "keys": 1_000}
    inventory = streams(stores=[keys], record_bytes=100, threads=1)
    (instance,) = instances(make_plan(inventory), "streams_app")["st1"]
    (heap,) = [s for s in instance.settings if s.key == "KAFKA_HEAP_OPTS"]
    assert "150 MiB fetched (1 threads x the smaller of 3 brokers x 50 MiB" in heap.because
    (found,) = findings(
        streams(stores=[keys], record_bytes=100, threads=1, heap_mib=180), "streams.heap", "warning"
    )
    wanted = int(found.fix.split()[3].rstrip(","))
    assert (
        findings(streams(stores=[keys], record_bytes=100, threads=1, heap_mib=wanted), "streams.heap") == []
    )


def test_input_that_a_link_does_not_carry_is_found() -> None:
    (found,) = findings(
        streams(records_per_s=200_000, record_bytes=1_000, common=LINK), "streams.link", "error"
    )
    assert "200.0 MB/s into the host, and host_link_mbit_per_s is 1000, 125 MB/s" in found.message
    assert findings(streams(2, records_per_s=200_000, record_bytes=1_000, common=LINK), "streams.link") == []


# Topics, brokers and clients

FAST = {"production_mb_per_s": 10, "consumption_mb_per_s": 10}


def test_files_follow_from_the_rate_where_retention_is_by_time() -> None:
    week = {"target_mb_per_s": 77, "settings": {"retention.ms": 604_800_000}} | FAST
    (found,) = findings(of_topics(week), "topics.file_handles", "note")
    # 77 MB/s for 7 days in segments of 1 GiB: 5,422 a partition with the open one, two files each.
    assert f"opens about {2 * 8 * 5_423} files" in found.message
    assert "kedge limits --cluster leaf" in found.fix
    longer = week | {"settings": {"retention.ms": 31_536_000_000}}
    assert findings(of_topics(longer), "topics.file_handles", "warning")
    compacted = week | {"settings": {"cleanup.policy": "compact"}}
    assert findings(of_topics(compacted), "topics.file_handles") == []
    slow = week | {
        "target_mb_per_s": 0.001,
        "settings": {"retention.ms": 31_536_000_000, "segment.ms": 1_000},
    }
    assert findings(of_topics(slow), "topics.file_handles", "warning")


def test_as_many_brokers_as_are_asked_for_leave_no_finding() -> None:
    def five(brokers: int) -> dict[str, Any]:
        return {"leaf": CLUSTERS["leaf"] | {"broker_count": brokers}}

    (found,) = findings(of_topics({"partitions": 15_060}, clusters=five(5)), "topics.leaders", "note")
    assert "use 8 brokers or more" in found.fix
    assert findings(of_topics({"partitions": 15_060}, clusters=five(8)), "topics.leaders") == []


def own_brokers(topic: dict[str, Any], **host: Any) -> Inventory:
    names = ("kafka1", "kafka2", "kafka3")
    variables = {
        "kafka_clusters": {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}},
        "kafka_topics": [{"name": "t", "cluster": "leaf"} | topic],
        "host_cores": 8,
        "host_memory_mib": 65_536,
    } | host
    return Inventory(dict.fromkeys(names, variables), {"kafka_leaf": names, "kafka_broker": names})


def test_maps_of_brokers_follow_from_their_segments() -> None:
    week = {"target_mb_per_s": 77, "settings": {"segment.bytes": 100_000_000}} | FAST
    inventory = own_brokers(week, kafka_broker_open_files=2_000_000)
    tuning = make_plan(inventory).services["kafka1"]["host_tuning"][0]
    segments = 8 * (math.ceil(77_000_000 / 8 * 604_800 / 100_000_000) + 1)
    assert int(tuning.value("vm.max_map_count")) == 4 * segments
    assert findings(inventory, "topics.memory_maps") == []
    own = own_brokers(
        week, kafka_broker_open_files=2_000_000, host_tuning_settings={"vm.max_map_count": 9_999}
    )
    assert findings(own, "topics.memory_maps", "warning")
    few = own_brokers({"partitions": 3})
    assert make_plan(few).services["kafka1"]["host_tuning"][0].value("vm.max_map_count") == "262144"


def test_targets_that_the_links_of_brokers_do_not_carry_are_found() -> None:
    (found,) = findings(own_brokers({"target_mb_per_s": 200} | FAST, **LINK), "topics.link", "error")
    assert "are 200.0 MB/s into each of 3 brokers" in found.message
    assert "use 5 brokers or more" in found.fix
    assert findings(own_brokers({"target_mb_per_s": 77} | FAST, **LINK), "topics.link") == []


def client(**settings: Any) -> dict[str, Any]:
    return {
        "name": "app",
        "cluster": "leaf",
        "library": "java",
        "version": "4.3.1",
        "profile": "balanced",
        "topics": ["t0"],
        "producer_settings": {k.replace("_", "."): v for k, v in settings.items()},
    }


def test_a_clients_buffer_is_held_against_its_batches_and_the_fix_helps() -> None:
    topic = {"partitions": 48}
    (found,) = findings(
        of_topics(topic, kafka_clients=[client(buffer_memory=1_000_000)]), "clients.buffer", "warning"
    )
    assert f"48 partitions x batch.size are {48 * 65_536}" in found.message
    wanted = int(found.fix.split()[3].rstrip(","))
    assert findings(of_topics(topic, kafka_clients=[client(buffer_memory=wanted)]), "clients.buffer") == []
    assert findings(of_topics(topic, kafka_clients=[client()]), "clients.buffer") == []


def test_a_clients_requests_are_held_against_what_its_topics_take() -> None:
    topic = {"partitions": 48, "settings": {"max.message.bytes": 100_000}}
    own = client(max_request_size=5_000_000)
    (found,) = findings(of_topics(topic, kafka_clients=[own]), "clients.request", "warning")
    assert "is 5000000, and topic t0 takes messages of 100000 bytes" in found.message
    assert (
        findings(of_topics(topic, kafka_clients=[client(max_request_size=100_000)]), "clients.request") == []
    )
    wide = topic | {"settings": {"max.message.bytes": 5_000_000}}
    assert findings(of_topics(wide, kafka_clients=[own]), "clients.request") == []


# Words


@pytest.mark.parametrize(
    ("password", "why"),
    [("brief", "it is shorter than 8 characters"), ("long enough,1", "it holds a blank and a comma")],
)
def test_a_password_that_is_refused_says_why_and_shows_nothing(password: str, why: str) -> None:
    inventory = rest(user="proxy", password=password)
    (found,) = [f for f in make_plan(inventory).findings if "kafka_rest_password" in f"{f.where} {f.message}"]
    assert why in found.message
    assert password not in f"{found}"
