"""REST proxies: the documents' examples by their numbers, the measured ones, and what is found wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.jvm_flags import REST_G1, maximum_heap_mib
from kedge.services.planning import make_plan
from tests.rest_inventories import heap_mib, of_rule, planned, rest

STRIMZI = {"distribution": "strimzi", "version": "0.33.1"}
DOCUMENTED = {"advice": "documented"}


@pytest.mark.parametrize(
    ("flags", "mib"),
    [("-Xmx1g", 1024), ("-Xmx2048K", 2), ("-Xmx3145728", 3), ("-Xmx1t", 1 << 20), ("-Xmx1g -Xmx64m", 64), ("-Xms1g", None)],
)  # fmt: skip
def test_a_heap_is_read_in_the_units_of_a_jvm(flags: str, mib: int | None) -> None:
    assert maximum_heap_mib(flags) == mib


@pytest.mark.parametrize(("consumers", "instances", "mib"), [(896, 2, 8192), (897, 3, 5808), (2000, 5, 7424)])
def test_a_heap_above_8_gib_becomes_more_instances(consumers: int, instances: int, mib: int) -> None:
    inventory = rest(1, {"consumers": consumers}, DOCUMENTED)
    assert len(make_plan(inventory).services["rest1"]["kafka_rest"]) == instances
    assert heap_mib(inventory) == mib


def test_a_fixed_number_of_instances_that_needs_more_than_8_gib_each_is_an_error() -> None:
    plan = make_plan(rest(1, {"consumers": 2000}, DOCUMENTED, instances_per_host=2))
    (found,) = of_rule(plan, "rest.heap.split", "error")
    assert "kafka_rest_instances_per_host is 2" in found.message
    assert "17024 MiB" in found.message
    assert "5 or more" in found.fix


def test_the_measured_heap_follows_readers_partitions_and_fetch_sizes() -> None:
    # 23 + 32 + 100 x 0.3 + 100 x 2 x 12 = 2485 MiB live, twice that and 100 x 3 x 2 of answers, by 256.
    assert heap_mib(rest(1, {"consumers": 100, "partitions": 12}, instances_per_host=1)) == 5632
    # One MiB a fetch of each of 3 brokers: 23 + 32 + 30 + 600 = 685 MiB live.
    small = rest(
        1,
        {"consumers": 100, "partitions": 12},
        instances_per_host=1,
        settings={"consumer.fetch.max.bytes": 1048576},
    )
    assert heap_mib(small) == 2048
    assert heap_mib(rest(1, {"consumers": 100, "readers": 0, "partitions": 12}, instances_per_host=1)) == 512


def test_batches_are_larger_where_the_path_is_long_and_much_is_in_flight() -> None:
    def batch(requests: int | None = 32, far_ms: int | None = 20, **more: Any) -> str:
        common = {"host_round_trip_ms": far_ms, **more.pop("common", {})}
        workload = {"concurrent_requests": requests}
        return planned(rest(1, workload, common, instances_per_host=1, **more), "producer.batch.size")

    assert batch() == "131072"
    assert batch(requests=31) == batch(requests=None) == batch(far_ms=19) == batch(far_ms=None) == ""
    assert batch(common=DOCUMENTED) == ""
    assert batch(profile="latency") == "16384"


@pytest.mark.parametrize(
    ("distribution", "key", "slowly"),
    # With a producer for each connection, live data grows with the load.
    [("confluent", "KAFKAREST_HEAP_OPTS", True), ("strimzi", "JAVA_OPTS", False)],
)
def test_the_least_heap_grows_and_a_larger_one_or_ones_own_has_its_size_from_the_start(
    distribution: str, key: str, *, slowly: bool
) -> None:
    role = {"distribution": distribution, "version": {"confluent": "8.3.1", "strimzi": "1.1.0"}[distribution]}
    common = {"java_version": 21}

    def flags(workload: dict[str, Any], common: dict[str, Any] = common, **more: Any) -> str:
        return planned(rest(1, workload, common=common, instances_per_host=1, **role, **more), key)

    assert flags({}).startswith("-Xms96m -Xmx512m")
    assert ("-XX:GCTimeRatio=2" in flags({})) is slowly
    plan = make_plan(rest(1, {}, common=common, instances_per_host=1, **role))
    heap = next(s for s in plan.services["rest1"]["kafka_rest"][0].settings if s.key == key)
    assert ("G1's own ratio" in heap.because) is not slowly
    assert flags({"consumers": 20, "partitions": 6}).startswith("-Xms96m -Xmx768m")
    assert flags({}, heap_mib=1024).startswith("-Xms1024m -Xmx1024m")
    assert flags({}, common | DOCUMENTED).startswith("-Xms1024m -Xmx1024m")
    assert "GCTimeRatio" not in flags({}, heap_mib=1024) + flags({}, common | DOCUMENTED)
    larger = flags({"consumers": 50, "partitions": 12})
    assert (maximum_heap_mib(larger) or 0) > 1024
    assert larger.partition("-Xms")[2].split()[0] == larger.partition("-Xmx")[2].split()[0]


@pytest.mark.parametrize(
    "role",
    [
        {"settings": {"KAFKAREST_JVM_PERFORMANCE_OPTS": "-XX:+UseParallelGC"}},
        {"distribution": "mapr", "version": "5.1.2"},
    ],
)
def test_a_heap_grows_only_as_it_was_measured_with_the_planned_collector_on_current_builds(
    role: dict[str, Any],
) -> None:
    assert planned(rest(1, {}, **role), "KAFKAREST_HEAP_OPTS") == "-Xms1024m -Xmx1024m"


def test_the_200_readers_that_ran_out_of_6_gib_get_more_than_that_or_smaller_fetches() -> None:
    inventory = rest(1, {"consumers": 200, "partitions": 12}, instances_per_host=1)
    assert planned(inventory, "consumer.fetch.max.bytes") == str(4 * 2**20 // 3)
    assert heap_mib(inventory) == 4864
    kept = rest(1, {"consumers": 120, "partitions": 12}, instances_per_host=1)
    assert planned(kept, "consumer.fetch.max.bytes") == ""
    assert heap_mib(kept) > 5120


def test_answers_to_reads_take_three_times_their_limit_of_heap() -> None:
    few: dict[str, Any] = {"consumers": 20, "readers": 0, "full_reads": 20}
    large = {"consumer.request.max.bytes": 64 * 2**20}
    inventory = rest(1, few, instances_per_host=1, settings=large)
    assert heap_mib(inventory) == 20 * 3 * 64 + 256  # and 2 x 61 MiB besides, in steps of 256
    assert heap_mib(rest(1, few, instances_per_host=1)) == 512


@pytest.mark.parametrize(("record_bytes", "mib"), [(1000, 2), (2 * 2**20, 4)])
def test_a_read_is_bounded_and_holds_a_record(record_bytes: int, mib: int) -> None:
    """The bound counts keys and values; a record of that size would never be read."""
    inventory = rest(1, {"consumers": 1, "record_bytes": record_bytes})
    assert planned(inventory, "consumer.request.max.bytes") == str(mib * 2**20)


def test_the_resident_limit_is_the_heap_and_what_lies_outside_it() -> None:
    assert planned(rest(1, instances_per_host=1), "MemoryMax") == f"{512 + 313}M"
    # 250 + 50 x 0.7 + 50 x 1.25 x 12 = 1035 MiB outside, and a quarter.
    with_readers = rest(1, {"consumers": 50, "partitions": 12}, instances_per_host=1)
    assert planned(with_readers, "MemoryMax") == f"{heap_mib(with_readers) + 1294}M"


def test_the_worst_case_is_reported_beside_the_average() -> None:
    plan = make_plan(rest(1, {"consumers": 200, "partitions": 2}, DOCUMENTED, instances_per_host=1))
    (note,) = of_rule(plan, "rest.memory.worst_case")
    assert "the heap of 4224 MiB is for 200 readers with 2 MiB each on average" in note.message
    assert "they have 12800 MiB of records, which take 38400 MiB as measured" in note.message


@pytest.mark.parametrize(("cores", "instances"), [(2, 1), (4, 2), (16, 2), (32, 2), (64, 4)])
def test_instances_follow_from_cores(cores: int, instances: int) -> None:
    assert len(make_plan(rest(1, cores=cores)).services["rest1"]["kafka_rest"]) == instances


def test_instances_follow_from_load_and_a_load_beyond_the_cores_is_a_warning() -> None:
    many = {"records_per_s": 400_000, "records_per_request": 100}  # 96,500 each
    plan = make_plan(rest(1, many, cores=16))
    assert len(plan.services["rest1"]["kafka_rest"]) == 5
    assert not of_rule(plan, "rest.load")
    plan = make_plan(rest(1, many, cores=8))
    assert len(plan.services["rest1"]["kafka_rest"]) == 4
    (warning,) = of_rule(plan, "rest.load", "warning")
    assert "ask for 5 processes" in warning.message


def test_a_host_with_other_services_gets_one_proxy_and_a_note() -> None:
    shared = make_plan(
        rest(
            1,
            groups={"kafka_broker": ("rest1",)},
            common={"kafka_clusters": {"leaf": {"version": "4.3.1", "brokers": "kafka_broker"}}},
        )
    )
    assert len(shared.services["rest1"]["kafka_rest"]) == 1
    assert of_rule(shared, "rest.dedicated")


def test_each_instance_has_its_port_id_and_address() -> None:
    inventory = rest(2, common={"ansible_host": None}, instances_per_host=2)
    rows = [
        (host, i.port, i.value("id"), i.value("listeners"), i.value("advertised.listeners"))
        for host, services in make_plan(inventory).services.items()
        for i in services.get("kafka_rest", ())
    ]
    assert rows == [
        (h, p, f"{h}-{p}", f"http://0.0.0.0:{p}", f"http://{h}:{p}")
        for h in ("rest1", "rest2")
        for p in (8082, 8083)
    ]


@pytest.mark.parametrize(
    ("common", "role", "key"),
    [
        ({}, {}, "advertised.listeners"),
        (DOCUMENTED, {}, "host.name"),
        ({}, {"distribution": "mapr", "version": "5.1.2"}, "host.name"),
        ({"fleet": {"name": "x"}}, {"distribution": "sandbox", "version": "1.0.0"}, "host.name"),
    ],
)
def test_the_address_stands_under_the_key_that_the_version_is_best_served_with(
    common: dict[str, Any], role: dict[str, Any], key: str
) -> None:
    other = {"advertised.listeners": "host.name", "host.name": "advertised.listeners"}[key]
    inventory = rest(1, common=common, **role)
    assert planned(inventory, key)
    assert not planned(inventory, other)


DRAINING = {"url": "http://f5:8080", "sticky": True, "drain": ["out", "{port}"], "undrain": ["in", "{port}"]}
TLS_PAIR = {"certificate": "/srv/a.pem", "key": "/srv/a.key"}


@pytest.mark.parametrize(
    ("balancers", "more", "address"),
    [
        (("lb1",), {}, "http://lb1:8080"),
        (("lb1",), {"consumers_via": "instance"}, "http://rest1:8082"),
        (("lb1", "lb2"), {"common": {"rest_balancer_address": "192.0.2.9"}}, "http://192.0.2.9:8080"),
        ((), {"balancer": DRAINING}, "http://f5:8080"),
        ((), {}, "http://rest1:8082"),
    ],
)
def test_consumers_go_through_a_balancer_that_keeps_them_unless_told_otherwise(
    balancers: tuple[str, ...], more: dict[str, Any], address: str
) -> None:
    inventory = rest(2, groups={"rest_balancer": balancers} if balancers else {}, **more)
    assert planned(inventory, "advertised.listeners") == address
    assert of_rule(make_plan(inventory), "rest.consumers_via") == []
    documented = make_plan(inventory, "documented")
    (proxy, *_) = documented.services["rest1"]["kafka_rest"]
    assert proxy.value("host.name") == "rest1", "the guide sends consumers to their instance"


@pytest.mark.parametrize(
    "more",
    [
        {"groups": {"rest_balancer": ("lb1", "lb2")}},
        {"balancer": {"url": "http://f5:8080", "sticky": True}},
        {"balancer": {**DRAINING, "sticky": False}},
        {"balancer": {**DRAINING, "url": "https://f5:443"}},
        {"groups": {"rest_balancer": ("lb1",)}, "common": {"rest_balancer_tls": TLS_PAIR}},
    ],
)
def test_consumers_stay_with_their_instance_where_a_balancer_could_lose_them_and_the_plan_says_so(
    more: dict[str, Any],
) -> None:
    inventory = rest(2, **more)
    assert planned(inventory, "advertised.listeners") == "http://rest1:8082"
    found = of_rule(make_plan(inventory), "rest.consumers_via", "warning")[0]
    assert "auto commit" in found.message
    assert of_rule(make_plan(rest(2, consumers_via="instance", **more)), "rest.consumers_via") == []


def test_a_url_of_an_own_setting_needs_no_warning() -> None:
    own = {"advertised.listeners": "http://vip:8080"}
    plan = make_plan(rest(2, groups={"rest_balancer": ("lb1", "lb2")}, settings=own))
    assert of_rule(plan, "rest.consumers_via") == []


def test_a_balancer_of_another_scheme_is_told_to_nobody() -> None:
    tls = {"common": {"rest_balancer_tls": TLS_PAIR}, "groups": {"rest_balancer": ("lb1",)}}
    (error,) = of_rule(make_plan(rest(1, consumers_via="balancer", **tls)), "rest.consumers_via", "error")
    assert "https://lb1:8080" in error.message


@pytest.mark.parametrize("wrong", [5, ["192.0.2.9"], {"a": 1}])
def test_an_address_that_is_no_text_is_a_finding_and_no_traceback(wrong: object) -> None:
    groups = {"rest_balancer": ("lb1", "lb2")}
    plan = make_plan(rest(1, groups=groups, common={"rest_balancer_address": wrong}))
    assert "rest_balancer_address" in of_rule(plan, "inventory.variable", "error")[0].message


def test_addresses_that_differ_do_not_move() -> None:
    inventory = rest(1, groups={"rest_balancer": ("lb1", "lb2")})
    for host, address in (("lb1", "192.0.2.1"), ("lb2", "192.0.2.2")):
        inventory.hosts[host]["rest_balancer_address"] = address  # type: ignore[index]
    assert planned(inventory, "advertised.listeners") == "http://rest1:8082"


def test_consumers_go_through_the_balancer_where_that_is_wanted() -> None:
    inventory = rest(2, groups={"rest_balancer": ("lb1",)}, consumers_via="balancer")
    assert planned(inventory, "advertised.listeners") == "http://lb1:8080"
    (error,) = of_rule(make_plan(rest(2, consumers_via="balancer")), "rest.consumers_via", "error")
    assert "rest_balancer" in error.message


def test_consumer_threads_are_above_the_largest_group() -> None:
    group = {"largest_group": 80}
    assert planned(rest(1, group), "consumer.threads") == "81"
    assert planned(rest(1, {"largest_group": 8}), "consumer.threads") == "50"
    assert planned(rest(1, group, DOCUMENTED), "consumer.threads") == "81"
    assert planned(rest(1, group, distribution="mapr", version="5.1.2"), "consumer.threads") == "81"


@pytest.mark.parametrize(
    ("common", "role", "severity"),
    [
        ({}, {}, "warning"),
        (DOCUMENTED, {}, "error"),
        ({}, {"distribution": "mapr", "version": "5.1.2"}, "error"),
    ],
)
def test_consumer_threads_at_the_largest_group_are_found(
    common: dict[str, Any], role: dict[str, Any], severity: str
) -> None:
    inventory = rest(1, {"largest_group": 8}, common, settings={"consumer.threads": 8}, **role)
    found = of_rule(make_plan(inventory), "rest.consumer.threads", severity)
    assert any("consumer.threads is 8, and the largest group has 8" in f.message for f in found)


@pytest.mark.parametrize(
    ("wanted", "timeout", "fetch_min"),
    [(5000, "5000", "-1"), (1000, "1000", "-1"), (500, "469", "-1"), (150, "119", "-1"), (100, "1000", "1")],
)
def test_latency_wanted_sets_the_time_out_or_ends_waiting(wanted: int, timeout: str, fetch_min: str) -> None:
    inventory = rest(1, {"consumers": 1, "delivery_latency_ms": wanted})
    assert planned(inventory, "consumer.request.timeout.ms") == timeout
    assert planned(inventory, "fetch.min.bytes") == fetch_min
    documented = rest(1, {"consumers": 1, "delivery_latency_ms": wanted}, DOCUMENTED)
    assert planned(documented, "consumer.request.timeout.ms") == str(wanted)
    assert planned(documented, "fetch.min.bytes") == "-1"


def test_a_latency_that_no_setting_reaches_is_a_warning() -> None:
    plan = make_plan(rest(1, {"consumers": 1, "delivery_latency_ms": 20}))
    assert "44 percent" in of_rule(plan, "rest.consumer.latency", "warning")[0].message
    plan = make_plan(rest(1, {"consumers": 1, "delivery_latency_ms": 5}))
    assert "no measured setting" in of_rule(plan, "rest.consumer.latency", "warning")[0].message


def test_a_vanished_client_is_given_up_after_five_pauses_by_measurement() -> None:
    assert planned(rest(1, {"client_pause_ms": 6000}), "consumer.instance.timeout.ms") == "30000"
    assert planned(rest(1, {"client_pause_ms": 1000}), "consumer.instance.timeout.ms") == "20000"
    assert planned(rest(1, common=DOCUMENTED), "consumer.instance.timeout.ms") == "300000"


def test_a_killed_proxy_stops_its_groups_no_longer_than_the_service_level() -> None:
    levels = {"service_levels": {"rebalance": {"consume_stall_s": 15}}}
    assert planned(rest(1, common=levels), "consumer.session.timeout.ms") == "10000"
    assert planned(rest(1), "consumer.session.timeout.ms") == ""


def test_a_vanished_client_holds_its_partitions_no_longer_than_the_service_level() -> None:
    levels = {"service_levels": {"rebalance": {"consume_stall_s": 15}}}
    key = "consumer.instance.timeout.ms"
    assert planned(rest(1, common=levels), key) == "10000"
    assert not of_rule(make_plan(rest(1, common=levels)), "rest.consumer.instance_timeout", "warning")
    slow = rest(1, {"client_pause_ms": 20_000}, common=levels)
    assert planned(slow, key) == "30000"  # never shorter than a living client's silence
    (warning,) = of_rule(make_plan(slow), "rest.consumer.instance_timeout", "warning")
    assert "for 30 s, and service_levels.rebalance.consume_stall_s allows 15 s" in warning.message
    assert planned(rest(1), key) == "30000"


def test_the_documented_plan_has_the_guides_flags_to_the_letter_and_no_measured_key() -> None:
    flags = planned(rest(1, common=DOCUMENTED), "KAFKAREST_JVM_PERFORMANCE_OPTS")
    assert flags.startswith(f"{REST_G1} ")
    assert planned(rest(1, common=DOCUMENTED), "consumer.receive.buffer.bytes") == ""
    assert "G1HeapRegionSize" not in planned(rest(1), "KAFKAREST_JVM_PERFORMANCE_OPTS")
    assert planned(rest(1), "consumer.receive.buffer.bytes") == "-1"


def test_each_deviation_is_one_note_with_both_values_for_all_instances() -> None:
    plan = make_plan(rest(10, {"consumers": 200, "partitions": 1}, instances_per_host=4))
    (note,) = of_rule(plan, "rest.consumer.instance_timeout")
    assert note.where == "rest[1-10] kafka_rest@[8082-8085]"
    assert "is 30000 by an estimate" in note.message
    assert "says 300000" in note.message


def test_the_producers_buffer_stays_within_the_heap() -> None:
    over = make_plan(rest(1, settings={"producer.buffer.memory": 2 * 2**30}, heap_mib=1024))
    assert "whole heap has 1073741824" in of_rule(over, "rest.producer.buffer", "error")[0].message
    large = make_plan(rest(1, settings={"producer.buffer.memory": 600 * 2**20}, heap_mib=1024))
    assert of_rule(large, "rest.producer.buffer", "warning")


def test_zookeeper_stands_where_the_version_reads_it_and_is_a_warning_elsewhere() -> None:
    old = rest(1, version="7.9.9", zookeeper_connect="zk:2181")
    assert planned(old, "zookeeper.connect") == "zk:2181"
    new = rest(1, version="8.0.0", zookeeper_connect="zk:2181")
    assert planned(new, "zookeeper.connect") == ""
    assert of_rule(make_plan(new), "rest.zookeeper", "warning")


@pytest.mark.parametrize(("distribution", "version"), [("confluent", "8.3.1"), ("strimzi", "1.1.0")])
def test_own_environment_variables_go_to_the_environment_and_not_into_the_properties(
    distribution: str, version: str
) -> None:
    own = {"TZ": "Europe/Berlin", "some.key": "x"}
    plan = make_plan(rest(1, distribution=distribution, version=version, settings=own))
    settings = plan.services["rest1"]["kafka_rest"][0].settings
    files = {s.key: Path(s.file).name for s in settings if s.key in own}
    assert files["TZ"] == "environment"
    assert files["some.key"].endswith(".properties")
    assert not [f for f in of_rule(plan, "rest.keys") if "TZ" in f.message]


def finding_cases() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Rule, severity, part of the message, arguments of ``rest``."""
    return [
        ("rest.dont_touch", "warning", "consumer.iterator.backoff.ms is 24", {"settings": {"consumer.iterator.backoff.ms": 24}}),
        ("rest.dont_touch", "warning", "consumer.iterator.backoff.ms is 51", {"settings": {"consumer.iterator.backoff.ms": 51}}),
        ("rest.no_effect", "warning", "producer.threads", {"settings": {"producer.threads": 50}}),
        ("rest.no_effect", "warning", "consumer.iterator.timeout.ms", {"settings": {"consumer.iterator.timeout.ms": 5}}),
        ("rest.no_effect", "warning", "simpleconsumer.pool.size.max", {"settings": {"simpleconsumer.pool.size.max": 5}}),
        ("rest.no_effect", "warning", "client.timeout.ms", {"settings": {"client.timeout.ms": 5}}),
        ("rest.forced", "warning", "idempotence", {"settings": {"producer.enable.idempotence": True}}),
        ("rest.jmx", "warning", "without authentication", {"settings": {"JMX_PORT": 9999}}),
        ("rest.keys", "warning", "reads KAFKAREST_HEAP_OPT", {"settings": {"KAFKAREST_HEAP_OPT": "-Xmx1g"}}),
        ("rest.keys", "warning", "reads KAFKAREST_COLOUR", {"settings": {"KAFKAREST_COLOUR": "red"}}),
        ("rest.keys", "error", "does not know consumer.thread", {"settings": {"consumer.thread": 9}}),
        ("rest.keys", "warning", "does not read zookeeper.connect", {"settings": {"zookeeper.connect": "z:1"}}),
        ("rest.cores", "note", "at least 16", {"cores": 8}),
        ("rest.record_bytes", "note", "102401 bytes", {"workload": {"record_bytes": 102_401}}),
        ("rest.record_bytes", "warning", "2097153 bytes", {"workload": {"record_bytes": 2_097_153}}),
        ("rest.record_bytes", "error", "refuses more than 1048576", {"workload": {"record_bytes": 1_048_577}}),
        ("rest.records_per_request", "warning", "one record", {"workload": {"records_per_request": 1}}),
        ("rest.records_per_request", "note", "1000 records", {"workload": {"records_per_request": 1000}}),
        ("rest.heap.limit", "warning", "9000 MiB is above 8192", {"heap_mib": 9000}),
        ("rest.heap.consumers", "warning", "below the 512 MiB", {"heap_mib": 256}),
        ("clients.delivery", "error", "is 20000, below linger.ms and request.timeout.ms together, 60000 + 10000", {
            "settings": {"producer.linger.ms": 60_000}}),
        ("clients.heartbeat", "error", "is 10000, and the session of its group 6666 ms", {
            "settings": {"consumer.heartbeat.interval.ms": 10_000}, "version": "7.9.1",
            "common": {"service_levels": {"rebalance": {"consume_stall_s": 10}}}}),
        ("rest.heap.consumers", "error", "sets no -Xmx", {"settings": {"KAFKAREST_HEAP_OPTS": "-Xms1g"}}),
        ("rest.data_center", "warning", "data center east", {"common": {
            "data_center": "east",
            "kafka_clusters": {"leaf": {"version": "4.3.1", "bootstrap_servers": "b:9092", "data_center": "west"}}}}),
        ("rest.producer.retries", "warning", "has just moved", {"settings": {"producer.retries": 0}}),
        ("rest.schema_registry", "error", "an address of schema.registry.url has no scheme", {"settings": {"schema.registry.url": "r:8081"}}),
        ("rest.identity", "warning", "no id", {"settings": {"id": ""}, "instances_per_host": 2}),
        ("rest.identity", "error", "the id one", {"settings": {"id": "one"}, "instances_per_host": 2}),
        ("rest.stickiness", "warning", "not sticky", {
            "hosts": 2, "workload": {"consumers": 1}, "balancer": {"url": "http://b", "sticky": False}}),
        ("rest.balancing", "note", "no balancer", {"hosts": 2}),
        ("rest.consumer.fetch_min", "error", "10000000 at most", {"settings": {"fetch.min.bytes": 10_000_001}}),
        ("rest.consumer.instance_timeout", "error", "is 5000", {"settings": {"consumer.instance.timeout.ms": 5000}}),
        ("jetty.accept_queue", "note", "queue of 50", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "part", "arguments"), finding_cases())
def test_what_is_wrong_is_found(rule: str, severity: str, part: str, arguments: dict[str, Any]) -> None:
    found = of_rule(make_plan(rest(**arguments)), rule, severity)
    assert any(part in f.message for f in found), found
    assert all(f.fix and f.where for f in found)


def test_no_delivery_is_asked_for_with_which_the_planned_request_would_grow() -> None:
    own = {"producer.delivery.timeout.ms": 5_000, "producer.linger.ms": 5_000}
    (found,) = of_rule(make_plan(rest(1, settings=own)), "clients.delivery")
    assert found.fix == "take producer.delivery.timeout.ms and producer.linger.ms out"


def test_an_own_heap_that_one_process_may_not_have_is_left_to_the_plan() -> None:
    busy = {"consumers": 1500, "partitions": 48}
    (found,) = of_rule(make_plan(rest(1, busy, heap_mib=2048)), "rest.heap.consumers", "warning")
    assert (
        found.fix == "take kafka_rest_heap_mib out: the plan splits a process that needs more than 8192 MiB"
    )
    assert not make_plan(rest(1, busy)).has_errors


def test_a_plain_proxy_has_none_of_these_findings_above_a_note() -> None:
    plan = make_plan(rest(1, {"consumers": 10}))
    assert [f for f in plan.findings if f.severity != "note"] == []


def test_a_persons_value_wins_is_marked_and_says_what_the_plan_would_have_been() -> None:
    plan = make_plan(rest(1, settings={"consumer.instance.timeout.ms": 60000}))
    (own,) = [
        s for s in plan.services["rest1"]["kafka_rest"][0].settings if s.key == "consumer.instance.timeout.ms"
    ]
    assert (own.value, own.by) == ("60000", "person")
    assert "the plan would have said 30000" in own.because


def test_strimzis_bridge_has_its_own_file_keys_and_a_management_port_for_each_instance() -> None:
    role = {"distribution": "strimzi", "version": "1.1.0", "instances_per_host": 2}
    inventory = rest(1, {"consumers": 5}, common={"java_version": 21}, **role)
    plan = make_plan(inventory)
    first, second = plan.services["rest1"]["kafka_rest"]
    assert {s.file for s in first.settings if s.key == "bridge.id"} == {
        "/etc/kafka-rest/8082/application.properties"
    }
    assert [i.value("http.management.port") for i in (first, second)] == ["9082", "9083"]
    assert first.value("kafka.bootstrap.servers") == "leaf:9092"
    assert first.value("http.timeoutSeconds") == "30"
    assert "-Xmx512m" in first.value("JAVA_OPTS")
    assert planned(rest(1, distribution="strimzi", version="0.33.1"), "http.management.port") == ""
    assert not [f for f in plan.findings if f.severity != "note"]


def test_the_sandbox_is_for_local_fleets_only() -> None:
    plan = make_plan(rest(1, distribution="sandbox", version="1.0.0"))
    assert plan.has_errors
    assert "kafka_rest_distribution is sandbox" in plan.findings[0].message
    assert not make_plan(
        rest(1, common={"fleet": {"name": "x"}}, distribution="sandbox", version="1.0.0")
    ).has_errors


@pytest.mark.parametrize(("distribution", "prefix"), [("confluent", ""), ("strimzi", "kafka.")])
def test_records_that_cannot_be_delivered_wait_no_longer_than_a_client(
    distribution: str, prefix: str
) -> None:
    version = {"confluent": "8.3.1", "strimzi": "0.33.1"}[distribution]

    def waits(workload: dict[str, Any], **variables: Any) -> list[str]:
        inventory = rest(1, workload, distribution=distribution, version=version, **variables)
        names = ("max.block.ms", "request.timeout.ms", "delivery.timeout.ms")
        return [planned(inventory, f"{prefix}producer.{name}") for name in names]

    assert waits({}) == ["10000", "10000", "20000"]
    assert waits({"produce_wait_ms": 6000}) == ["2000", "2000", "4000"]
    # A producer refuses to start with a delivery that is shorter than one request.
    own = {f"{prefix}producer.delivery.timeout.ms": 5000}
    assert waits({}, settings=own) == ["10000", "2500", "5000"]
    assert waits({}, profile="durability")[2] == "300000"


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, "60s"),
        ({"settings": {"producer.delivery.timeout.ms": 90000}}, "130s"),
        ({"common": DOCUMENTED}, "210s"),
    ],
)
def test_the_balancer_waits_longer_than_a_record_may(changes: dict[str, Any], seconds: str) -> None:
    plan = make_plan(rest(1, groups={"rest_balancer": ("lb1",)}, **changes))
    (balancer,) = plan.services["lb1"]["rest_balancer"]
    assert balancer.value("timeout server") == seconds


def test_the_balancer_waits_for_the_one_of_its_instances_that_waits_longest() -> None:
    inventory = rest(2, groups={"rest_balancer": ("lb1",)})
    inventory.hosts["rest2"]["kafka_rest_settings"] = {"producer.delivery.timeout.ms": 90_000}
    (balancer,) = make_plan(inventory).services["lb1"]["rest_balancer"]
    assert balancer.value("timeout server") == "130s"


@pytest.mark.parametrize(
    ("settings", "role", "said"),
    [
        (
            {"listeners": "https://0.0.0.0:8082"},
            {"instances_per_host": 2},
            "look for this instance at port 8083",
        ),
        ({"listeners": "http://0.0.0.0:9082"}, {}, "look for this instance at port 8082"),
        (
            {"listeners": "http://0.0.0.0:8082,http://0.0.0.0:9082"},
            {"instances_per_host": 2},
            "for each of the 2",
        ),
        ({"listeners": "nonsense:port"}, {}, "look for this instance at port 8082"),
        ({"listeners": "https://0.0.0.0:8082"}, {}, "kafka_rest_tls is not set"),
        ({"listeners": "http://127.0.0.1:8082"}, {}, "which no other host reaches"),
        ({"listeners": "http://rest1:8082,http://rest1:9082"}, {}, ""),
        ({"listeners": "http://[::]:9090"}, {"first_port": 9090}, ""),
        ({"http.port": 9082}, STRIMZI, "look for this instance at port 8082"),
        ({"http.host": "localhost"}, STRIMZI, "which no other host reaches"),
    ],
)
def test_listeners_of_ones_own_are_held_against_what_looks_for_them(
    settings: dict[str, Any], role: dict[str, Any], said: str
) -> None:
    plan = make_plan(rest(**({"instances_per_host": 1} | role), settings=settings))
    found = of_rule(plan, "rest.listeners", "error")
    assert bool(found) == bool(said)
    assert not said or any(said in one.message for one in found)


def test_an_address_of_ipv6_stands_in_brackets_before_a_port() -> None:
    inventory = rest(1, groups={"rest_balancer": ("lb1",)})
    hosts = {
        host: {**of, "ansible_host": f"fd00::{n}"} for n, (host, of) in enumerate(inventory.hosts.items())
    }
    services = make_plan(replace(inventory, hosts=hosts)).services
    proxy, balancer = services["rest1"]["kafka_rest"][0], services["lb1"]["rest_balancer"][0]
    assert proxy.value("advertised.listeners") == "http://[fd00::0]:8080"
    assert balancer.value("server rest1:8082") == "[fd00::1]:8082"
    assert {balancer.value(key) for key in ("bind", "address", "check host")} == {"[fd00::0]:8080"}
    servers = {"leaf": {"version": "4.3.1", "bootstrap_servers": "[fd00::5]:9092,leaf:9092"}}
    assert not of_rule(make_plan(rest(1, common={"kafka_clusters": servers})), "inventory.variable")


def test_a_host_of_which_nobody_says_what_it_carries_is_warned_of() -> None:
    said = rest(2, groups={})
    unsaid = replace(
        said,
        hosts={
            host: {k: v for k, v in variables.items() if k != "kafka_rest_workload"}
            for host, variables in said.hosts.items()
        },
    )
    found = of_rule(make_plan(unsaid), "rest.workload")
    assert [(f.severity, f.where) for f in found] == [("warning", "rest[1-2] kafka_rest")]
    assert found[0].message.startswith("kafka_rest_workload is not set: heap, memory, threads")
    assert found[0].fix.startswith("write kafka_rest_workload with the consumers, records_per_s")
    assert not of_rule(make_plan(said), "rest.workload")
