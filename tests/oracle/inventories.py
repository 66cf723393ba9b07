"""Inventories that nobody would think of: each subject's variables over many magnitudes, with overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from tests.oracle.planning import Spec

Draw = Callable[[st.SearchStrategy[Any]], Any]

#: What few workloads have stands beside what most have.
BYTES = (10, 100, 1_000, 6_000, 20_000, 100_000, 500_000, 2_000_000)
RATES = (10, 300, 5_000, 20_000, 100_000, 1_000_000)
PARTITIONS = (1, 3, 12, 23, 48, 192, 1_000)
CORES = (1, 2, 4, 8, 16, 32, 96)
MEMORY_MIB = (262_144, 65_536, 16_384, 4_096, 1_048_576)
LINKS = (100, 1_000, 10_000, 100_000)
ROUND_TRIPS = (0.2, 1, 60, 250)


def rarely(draw: Draw, strategy: st.SearchStrategy[Any]) -> Any:
    """Draw a value, or None: three of four inventories do not say."""
    return draw(strategy) if draw(st.integers(0, 3)) == 3 else None


def often(draw: Draw, strategy: st.SearchStrategy[Any]) -> Any:
    """Draw a value; None in one of four inventories."""
    return None if draw(st.integers(0, 3)) == 3 else draw(strategy)


def moderate(draw: Draw, rate: int | None, size: int, most: float) -> int | None:
    """Return a rate that no more than one in four inventories has above ``most`` bytes/s: few links carry it."""
    return rate if rate is None or draw(st.integers(0, 3)) == 3 else max(1, min(rate, int(most // size)))


def one_of(values: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Return a strategy for one of these values; the first one is the simplest."""
    return st.sampled_from(values)


def overrides(draw: Draw, keys: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Draw no more than three of these keys, each with one of its values; none in one of four inventories."""
    if draw(st.integers(0, 3)) == 0:
        return {}
    chosen = draw(st.lists(st.sampled_from(sorted(keys)), max_size=3, unique=True))
    return {key: draw(one_of(keys[key])) for key in chosen}


def said(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables without those that nobody says."""
    return {key: value for key, value in variables.items() if value is not None}


def _machine(draw: Draw) -> dict[str, Any]:
    return said(
        {
            "host_cores": draw(one_of(CORES)),
            "host_memory_mib": draw(one_of(MEMORY_MIB)),
            "host_link_mbit_per_s": often(draw, one_of(LINKS)),
            "host_round_trip_ms": rarely(draw, one_of((*ROUND_TRIPS, 10_000))),
            "java_version": rarely(draw, one_of((8, 17, 21))),
        }
    )


def _cluster(draw: Draw, name: str, **more: Any) -> dict[str, Any]:
    return said(
        {
            "version": draw(one_of(("4.3.1", "3.9.2"))),
            "bootstrap_servers": f"{name}:9092",
            "broker_count": often(draw, one_of((1, 3, 5, 12))),
            "message_max_bytes": rarely(draw, one_of((1_000_000, 10_485_760))),
            "other_partitions": rarely(draw, one_of((100, 5_000, 30_000))),
        }
        | more
    )


def _levels(draw: Draw) -> dict[str, Any] | None:
    levels: dict[str, Any] = {
        "rebalance": {"consume_stall_s": draw(one_of((10, 30, 120)))},
        "latency": {"kafka": {"ack_p99_ms": draw(one_of((5, 50, 500)))}},
    }
    return levels if draw(st.integers(0, 2)) == 2 else None


_REST_KEYS: Mapping[str, tuple[Any, ...]] = {
    "producer.buffer.memory": (1_000_000, 67_108_864, 2_000_000_000),
    "producer.batch.size": (16_384, 1_000_000, 64_000_000),
    "producer.linger.ms": (0, 50, 5_000, 60_000),
    "producer.max.request.size": (100_000, 10_485_760),
    "producer.delivery.timeout.ms": (5_000, 120_000),
    "producer.request.timeout.ms": (1_000, 30_000, 300_000),
    "producer.compression.type": ("gzip", "zstd"),
    "consumer.threads": (1, 50, 500),
    "consumer.request.max.bytes": (1_000_000, 67_108_864),
    "consumer.request.timeout.ms": (100, 40_000),
    "consumer.instance.timeout.ms": (1_000, 300_000),
    "consumer.fetch.max.bytes": (1_048_576, 104_857_600),
    "consumer.max.partition.fetch.bytes": (65_536, 10_485_760),
    "consumer.session.timeout.ms": (6_000, 45_000),
    "consumer.heartbeat.interval.ms": (1_000, 10_000),
    "fetch.min.bytes": (1, 100_000, 20_000_000),
    "thread.pool.max": (50, 1_000),
    "thread.pool.min": (4, 500),
    "request.queue.capacity": (64, 1_000),
    "idle.timeout.ms": (500, 60_000),
}


@st.composite
def rest(draw: Draw) -> Spec:
    """Draw REST proxies of one cluster."""
    distribution, version = draw(
        one_of((("confluent", "8.3.1"), ("confluent", "7.9.1"), ("strimzi", "1.1.0"), ("mapr", "5.1.2")))
    )
    consumers = draw(one_of((0, 0, 1, 20, 200, 1_500, 6_000)))
    size = draw(one_of(BYTES))
    workload = said(
        {
            "consumers": consumers,
            "readers": None if draw(st.booleans()) else draw(one_of((0, consumers // 10, consumers))),
            "reader_records_per_s": rarely(draw, one_of((1, 100, 5_000))),
            "largest_group": rarely(draw, one_of((8, 49, 120))),
            "partitions": draw(one_of(PARTITIONS)),
            "full_reads": rarely(draw, one_of((0, consumers // 5, consumers))),
            "records_per_s": moderate(draw, often(draw, one_of(RATES)), size, 60e6),
            "records_per_request": draw(one_of((100, 1, 10, 500, 5_000))),
            "record_bytes": size,
            "concurrent_requests": rarely(draw, one_of((1, 40, 400))),
            "connections": rarely(draw, one_of((10, 600, 20_000))),
            "produce_wait_ms": rarely(draw, one_of((3_000, 10_000, 600_000))),
            "delivery_latency_ms": rarely(draw, one_of((5, 50, 125, 500, 5_000))),
            "client_pause_ms": rarely(draw, one_of((100, 3_000, 60_000))),
        }
    )
    variables = _machine(draw) | {
        "kafka_clusters": {"leaf": _cluster(draw, "leaf")},
        "advice": draw(one_of(("measured", "measured", "documented"))),
        "kafka_rest_cluster": "leaf",
        "kafka_rest_distribution": distribution,
        "kafka_rest_version": version,
        "kafka_rest_archive": "/srv/proxy.tar.gz",
        "kafka_rest_archive_checksum": "a1" * 32,
        "kafka_rest_workload": workload,
        "kafka_rest_open_files": rarely(draw, one_of((1_024, 200_000))),
        "kafka_rest_instances_per_host": rarely(draw, one_of((1, 2, 5))),
        "kafka_rest_heap_mib": rarely(draw, one_of((256, 1_024, 4_096, 12_288)))
        if distribution != "mapr"
        else None,
        "kafka_rest_settings": overrides(draw, _REST_KEYS) if distribution == "confluent" else None,
        "service_levels": _levels(draw),
    }
    names = [f"rest{n + 1}" for n in range(draw(one_of((1, 2, 3))))]
    balancers = ["lb1"] if rarely(draw, st.just(1)) else []
    variables["kafka_rest_consumers_via"] = (
        draw(one_of(("instance", "balancer", None))) if balancers and distribution != "mapr" else None
    )
    groups = {"kafka_rest": names} | ({"rest_balancer": balancers} if balancers else {})
    return Spec({name: said(variables) for name in (*names, *balancers)}, groups)


_MIRROR_PRODUCER: Mapping[str, tuple[Any, ...]] = {
    "batch.size": (16_384, 500_000, 2_000_000),
    "linger.ms": (0, 5_000, 120_000),
    "buffer.memory": (1_000_000, 33_554_432, 1_000_000_000),
    "max.request.size": (500_000, 1_000_000, 10_485_760),
    "send.buffer.bytes": (-1, 131_072),
    "compression.type": ("lz4", "none"),
    "acks": ("all", "1"),
}
_MIRROR_CONSUMER: Mapping[str, tuple[Any, ...]] = {
    "fetch.max.bytes": (1_048_576, 104_857_600),
    "max.partition.fetch.bytes": (65_536, 10_485_760),
    "receive.buffer.bytes": (-1, 65_536),
}


@st.composite
def mirrors(draw: Draw) -> Spec:
    """Draw mirrors of one flow from leaf to agg."""
    classic = draw(st.booleans())
    message = draw(one_of((1_000_000, 100_000, 10_485_760, 1_048_588, 500_000, 5_000_000, 3_000_000_000)))
    ends = {end: _cluster(draw, end) for end in ("leaf", "agg")}
    # One of four targets may refuse what the flow carries.
    if draw(st.integers(0, 3)):
        ends["agg"]["message_max_bytes"] = message
    topics = [
        said({"name": f"{kind}{n}", "cluster": cluster, "partitions": draw(one_of(PARTITIONS[:5]))})
        for cluster, kind in (("leaf", "metrics."), ("agg", "metrics."), ("agg", "other."))
        for n in range(draw(one_of((0, 1, 3))))
    ]
    known = any(topic["cluster"] == "leaf" for topic in topics)
    flow = said(
        {
            "source": "leaf",
            "target": "agg",
            "topics": ["metrics[.].*"],
            "latency_budget_ms": draw(one_of((60_000, 5_000, 700, 900_000))),
            "priority": draw(one_of(("bulk", "latency"))),
            "direction": rarely(draw, one_of(("push", "pull"))),
            "round_trip_ms": often(draw, one_of(ROUND_TRIPS)),
            "link_mbit_per_s": often(draw, one_of(LINKS)),
            "mb_per_s": often(draw, one_of((0.5, 10, 60, 280, 2_000))),
            "largest_topic_partitions": None if known else draw(one_of(PARTITIONS[:5])),
            "target_partitions": rarely(draw, one_of((20, 300, 5_000))),
            "max_message_bytes": message,
            "max_compression_ratio": rarely(draw, one_of((0.001, 0.05, 0.5, 1.0))),
            "fill_ms_p95": rarely(draw, one_of((1, 9_000, 20_001))),
            "fill_ms_p99": rarely(draw, one_of((20_001, 31_000, 200_000))),
            "processes": rarely(draw, one_of((1, 4, 50))),
            "heap_mib": rarely(draw, one_of((128, 512, 4_096))),
            "producer_settings": overrides(draw, _MIRROR_PRODUCER) or None,
            "consumer_settings": overrides(draw, _MIRROR_CONSUMER) or None,
        }
    )
    variables = _machine(draw) | {
        "kafka_clusters": ends,
        "kafka_topics": topics or None,
        "advice": draw(one_of(("measured", "documented"))),
        "mirror_maker_kind": "classic" if classic else "mirror_maker_2",
        "mirror_maker_version": "3.9.2" if classic else "4.3.1",
        "mirror_maker_flows": {"metrics": flow},
    }
    names = [f"mm{n + 1}" for n in range(draw(one_of((1, 2, 5))))]
    return Spec({name: said(variables) for name in names}, {"mirror_maker": names})


_STREAMS_KEYS: Mapping[str, tuple[Any, ...]] = {
    "commit.interval.ms": (100, 30_000),
    "num.stream.threads": (1, 16),
    "num.standby.replicas": (0, 1, 3),
    "producer.batch.size": (16_384, 4_194_304),
    "producer.max.request.size": (4_000_000, 10_485_760),
    "producer.buffer.memory": (1_000_000, 500_000_000),
    "producer.linger.ms": (5, 100_000),
    "producer.delivery.timeout.ms": (10_000, 120_000),
    "consumer.session.timeout.ms": (6_000, 45_000),
    "consumer.fetch.max.bytes": (1_048_576, 104_857_600),
    "topic.retention.ms": (600_000, 604_800_000),
    "topic.segment.bytes": (52_428_800, 1_073_741_824),
    "topic.segment.ms": (600_000, 604_800_000),
    "windowstore.changelog.additional.retention.ms": (0, 86_400_000),
}


def _store(draw: Draw, number: int) -> dict[str, Any]:
    kind = draw(one_of(("windowed", "join", "key_value", "session")))
    keyed = kind == "key_value"
    return said(
        {
            "name": f"store{number}",
            "kind": kind,
            "count": draw(one_of((1, 2, 8))),
            "partitions": draw(one_of((12, 1, 54, 192))),
            "window_ms": None if keyed else draw(one_of((60_000, 120_000, 3_600_000))),
            "grace_ms": None if keyed else rarely(draw, one_of((60_000, 600_000))),
            "records_per_s": None if keyed else often(draw, one_of((10, 500, 20_000))),
            "record_bytes": often(draw, one_of((100, 1_000, 6_000))),
            "keys": often(draw, one_of((1_000, 1_000_000, 100_000_000))) if keyed else None,
            "changelog": rarely(draw, st.booleans()),
        }
    )


@st.composite
def streams(draw: Draw) -> Spec:
    """Draw the instances of a Streams application."""
    size = draw(one_of(BYTES))
    variables = _machine(draw) | {
        "kafka_clusters": {"leaf": _cluster(draw, "leaf")},
        "advice": draw(one_of(("measured", "measured", "documented"))),
        "streams_app_name": "joins",
        "streams_app_main_class": "example.Joins",
        "streams_app_jars": [{"path": "joins.jar", "sha256": "0" * 64}],
        "streams_app_version": "4.3.1",
        "streams_app_cluster": "leaf",
        "streams_app_records_per_s": moderate(draw, often(draw, one_of(RATES)), size, 60e6),
        "streams_app_record_bytes": size,
        "streams_app_stores": [_store(draw, n) for n in range(draw(one_of((1, 0, 2, 3))))],
        "streams_app_instances_per_host": draw(one_of((1, 1, 2, 4))),
        "streams_app_latency_ms": rarely(draw, one_of((1, 100, 10_000))),
        "streams_app_output_partitions": rarely(draw, one_of((12, 1_000))),
        "streams_app_exactly_once": rarely(draw, st.booleans()),
        "streams_app_restore_s": rarely(draw, one_of((1, 60, 3_600))),
        "streams_app_restore_mb_per_s": rarely(draw, one_of((5, 88, 400))),
        "streams_app_ready_seconds": rarely(draw, one_of((30, 3_600))),
        "streams_app_threads": rarely(draw, one_of((1, 4, 32))),
        "streams_app_heap_mib": rarely(draw, one_of((128, 1_024, 8_192))),
        "streams_app_memory_mib": rarely(draw, one_of((512, 4_096, 65_536))),
        "streams_app_rocksdb_mib": rarely(draw, one_of((64, 1_024, 16_384))),
        "streams_app_standbys": rarely(draw, one_of((0, 1, 3))),
        "streams_app_settings": overrides(draw, _STREAMS_KEYS) or None,
    }
    names = [f"st{n + 1}" for n in range(draw(one_of((1, 2, 4))))]
    return Spec({name: said(variables) for name in names}, {"streams_app": names})


_TOPIC_KEYS: Mapping[str, tuple[Any, ...]] = {
    "retention.ms": (3_600_000, 604_800_000, 31_536_000_000, -1),
    "retention.bytes": (1_073_741_824, 1_000_000_000_000),
    "segment.bytes": (16_777_216, 1_073_741_824),
    "min.insync.replicas": (1, 2, 3),
    "max.message.bytes": (100_000, 10_485_760),
}
_CLIENT_KEYS: Mapping[str, tuple[Any, ...]] = {
    "buffer.memory": (1_000_000, 33_554_432),
    "batch.size": (16_384, 2_000_000),
    "linger.ms": (0, 1_000),
    "max.request.size": (500_000, 5_000_000),
    "delivery.timeout.ms": (10_000, 120_000),
    "request.timeout.ms": (5_000, 30_000),
}


def _topic(draw: Draw, number: int, brokers: int) -> dict[str, Any]:
    own = rarely(draw, one_of((1, 12, 1_000, 15_000)))
    return said(
        {
            "name": f"t{number}",
            "cluster": "leaf",
            "partitions": own,
            "replication": rarely(draw, one_of((1, brokers, 2, 5))),
            "target_mb_per_s": often(draw, one_of((0.3, 10, 77, 500))),
            "production_mb_per_s": draw(one_of((10, 0.1, 3.5, 40))),
            "consumption_mb_per_s": draw(one_of((10, 0.1, 20))),
            "growth": rarely(draw, one_of((1.5, 2, 10))),
            "keyed": rarely(draw, st.booleans()),
            "live_partitions": rarely(draw, one_of((1, 12, 40))) if rarely(draw, st.just(1)) else None,
            "settings": overrides(draw, _TOPIC_KEYS) or None,
        }
    )


@st.composite
def topics(draw: Draw) -> Spec:
    """Draw the topics, brokers and clients of a cluster, which may be of Kedge's own brokers."""
    ours = draw(st.booleans())
    names = [f"kafka{n + 1}" for n in range(draw(one_of((1, 3, 5))))]
    cluster = _cluster(draw, "leaf")
    if ours:
        cluster = {k: v for k, v in cluster.items() if k not in ("bootstrap_servers", "broker_count")}
        cluster["brokers"] = "kafka_leaf"
    declared = [_topic(draw, n, len(names)) for n in range(draw(one_of((1, 2, 5))))]
    client = {
        "name": "app",
        "cluster": "leaf",
        "library": draw(one_of(("java", "librdkafka"))),
        "version": "2.15.0",
        "profile": draw(one_of(("balanced", "throughput", "latency", "durability"))),
        "topics": [topic["name"] for topic in declared],
        "producer_settings": overrides(draw, _CLIENT_KEYS) or None,
    }
    client["version"] = "4.3.1" if client["library"] == "java" else "2.15.0"
    variables = _machine(draw) | {
        "kafka_clusters": {"leaf": cluster},
        "kafka_topics": declared,
        "kafka_clients": [said(client)] if draw(st.booleans()) else None,
        "service_levels": _levels(draw),
        "kafka_broker_heap_mib": rarely(draw, one_of((512, 6_144, 32_768))) if ours else None,
        "kafka_broker_open_files": rarely(draw, one_of((1_024, 1_000_000))) if ours else None,
    }
    if ours:
        return Spec({n: said(variables) for n in names}, {"kafka_leaf": names, "kafka_broker": names})
    return Spec({"load1": said(variables)}, {"load_generator": ["load1"]})


@st.composite
def shared(draw: Draw) -> Spec:
    """Draw a host on which proxies, a mirror and an application run beside each other."""
    parts = [draw(rest()), draw(mirrors()), draw(streams())]
    clusters: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    for part in parts:
        own = next(iter(part.hosts.values()))
        clusters = own["kafka_clusters"] | clusters
        variables |= own
    groups = {name: ["one1"] for part in parts for name in part.groups}
    return Spec({"one1": variables | {"kafka_clusters": clusters}}, groups)


# Workloads that somebody had: each asks one sum that few others reach.

_LEAF = {"version": "4.3.1", "bootstrap_servers": "leaf:9092", "broker_count": 3}
_AGG = {"version": "4.3.1", "bootstrap_servers": "agg:9092", "broker_count": 3}


def _one(group: str, **variables: Any) -> Spec:
    machine = {"host_cores": 32, "host_memory_mib": 262_144, "kafka_clusters": {"leaf": _LEAF, "agg": _AGG}}
    return Spec({"one1": machine | variables}, {group: ["one1"]})


def _proxy(distribution: str = "confluent", version: str = "8.3.1", **more: Any) -> Spec:
    role = {"cluster": "leaf", "distribution": distribution, "version": version, "archive": "/srv/proxy.tar.gz",
            "archive_checksum": "a1" * 32}  # fmt: skip
    workload = {"workload": more.pop("workload", {})} | {
        k: more.pop(k) for k in ("heap_mib", "instances_per_host") if k in more
    }
    return _one("kafka_rest", **{f"kafka_rest_{k}": v for k, v in (role | workload).items()}, **more)


def _flow(classic: bool = True, **flow: Any) -> Spec:
    more = {"java_version": 8} if flow.pop("java_8", False) else {}
    of_flow = {"source": "leaf", "target": "agg", "topics": ["metrics[.].*"], "latency_budget_ms": 60_000,
               "largest_topic_partitions": 20, "max_message_bytes": 1_000_000}  # fmt: skip
    clusters = {"leaf": _LEAF, "agg": _AGG | flow.pop("agg", {})}
    return _one(
        "mirror_maker",
        kafka_clusters=clusters,
        mirror_maker_kind="classic" if classic else "mirror_maker_2",
        mirror_maker_version="3.9.2" if classic else "4.3.1",
        mirror_maker_flows={"metrics": of_flow | flow},
        **more,
    )


def _app(*stores: dict[str, Any], **more: Any) -> Spec:
    role = {"name": "joins", "main_class": "example.Joins", "jars": [{"path": "joins.jar", "sha256": "1" * 64}],
            "version": "4.3.1", "cluster": "leaf", "stores": list(stores)}  # fmt: skip
    link = {"host_link_mbit_per_s": more.pop("link", 10_000)}
    link["kafka_clusters"] = {"leaf": _LEAF | {"broker_count": more.pop("brokers", 3)}}
    return _one("streams_app", **{f"streams_app_{k}": v for k, v in (role | more).items()}, **link)


def _declared(*topics_: dict[str, Any], client: dict[str, Any] | None = None, brokers: int = 3) -> Spec:
    declared = [{"name": f"t{n}", "cluster": "leaf"} | topic for n, topic in enumerate(topics_)]
    app = {"name": "app", "cluster": "leaf", "library": "java", "version": "4.3.1", "profile": "balanced",
           "topics": [topic["name"] for topic in declared], "producer_settings": client}  # fmt: skip
    return _one(
        "load_generator",
        kafka_clusters={"leaf": _LEAF | {"broker_count": brokers}},
        kafka_topics=declared,
        kafka_clients=[app] if client else [],
    )


def _read_by_a_mirror() -> Spec:
    spec = _flow(mb_per_s=600, host_link_mbit_per_s=100_000)
    mirror = {k: v for k, v in spec.hosts["one1"].items() if k != "kafka_clusters"} | {"host_cores": 32}
    clusters = {"leaf": {"version": "4.3.1", "brokers": "kafka_leaf"}, "agg": _AGG}
    topic = {
        "name": "metrics.a",
        "cluster": "leaf",
        "partitions": 12,
        "settings": {"max.message.bytes": 1_000_000},
    }
    declared = {"kafka_clusters": clusters, "kafka_topics": [topic]}
    names = ["kafka1", "kafka2", "kafka3"]
    broker = {"host_cores": 8, "host_memory_mib": 65_536, "host_link_mbit_per_s": 1_000}
    hosts = dict.fromkeys(names, broker | declared) | {"one1": mirror | declared}
    return Spec(hosts, {"kafka_leaf": names, "kafka_broker": names, "mirror_maker": ["one1"]})


_FAST = {"production_mb_per_s": 10, "consumption_mb_per_s": 10}
EXAMPLES: Mapping[str, tuple[Spec, ...]] = {
    "rest": (
        _proxy(workload={"records_per_s": 20_000, "record_bytes": 100_000}, host_link_mbit_per_s=1_000),
        _proxy(workload={"records_per_s": 10_000, "record_bytes": 10_000}, host_link_mbit_per_s=1_000),
        _proxy(workload={"records_per_s": 20_000, "record_bytes": 100_000, "records_per_request": 500,
                         "concurrent_requests": 40}),
        _proxy(workload={"consumers": 1_500, "delivery_latency_ms": 50}),
        _proxy(workload={"consumers": 1_500, "record_bytes": 100_000}, host_cores=1_000, host_link_mbit_per_s=1_000),
        _proxy(workload={"records_per_s": 2_000_000, "record_bytes": 10}, host_cores=4, kafka_rest_instances_per_host=1),
        _proxy("mapr", "5.1.2", workload={"consumers": 20, "full_reads": 20}),
        _proxy(workload={"consumers": 100, "partitions": 400}),
        _proxy(workload={"consumers": 130, "largest_group": 120}),
        _proxy(version="7.9.1", kafka_rest_settings={"consumer.heartbeat.interval.ms": 10_000},
               service_levels={"rebalance": {"consume_stall_s": 10}}),
    ),
    "mirrors": (
        _flow(agg={"other_partitions": 5_000}),
        _flow(mb_per_s=60, link_mbit_per_s=100),
        _flow(classic=False, consumer_settings={"max.partition.fetch.bytes": 10_485_760, "fetch.max.bytes": 104_857_600}),
        _flow(fill_ms_p95=20_001, priority="latency", latency_budget_ms=30_000),
        _flow(agg={"message_max_bytes": 10_485_760}, producer_settings={"max.request.size": 5_000_000}),
        _flow(java_8=True),
        _flow(classic=False, mb_per_s=2_000),
    ),
    "streams": (
        _app({"name": "counts", "partitions": 54, "window_ms": 3_600_000, "records_per_s": 54, "record_bytes": 10_000}),
        _app({"name": "keys", "kind": "key_value", "partitions": 400, "keys": 1_000}, threads=1, brokers=12),
        _app(records_per_s=200_000, record_bytes=1_000, link=1_000),
    ),
    "topics": (
        _declared({"target_mb_per_s": 77, "settings": {"retention.ms": 604_800_000}} | _FAST),
        _declared({"target_mb_per_s": 77, "settings": {"retention.ms": -1}} | _FAST),
        _read_by_a_mirror(),
        _declared({"partitions": 15_060}, brokers=5),
        _declared({"partitions": 48}, client={"buffer.memory": 1_000_000}),
        _declared({"partitions": 48, "settings": {"max.message.bytes": 100_000}}, client={"max.request.size": 5_000_000}),
    ),
    "shared": (),
}  # fmt: skip
