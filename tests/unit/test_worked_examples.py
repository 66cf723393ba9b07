"""The numbers that the five documents work out, each from the plan that follows them to the letter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kedge.plan.hosts import Inventory
from kedge.services.host.kernel import effective
from kedge.services.planning import make_plan
from kedge.services.rest.distributions.mapr import topic_in_url
from kedge.services.streams.stores import state, store_mib
from kedge.services.streams.variables import StateStore
from kedge.services.topics.cluster_limits import added_replication_ms
from kedge.services.topics.partition_count import partitions_needed
from tests.planned import CLUSTERS, findings, instances, mirrors, of_topics, streams, value
from tests.rest_inventories import planned, rest

LETTER = {"advice": "documented"}
MAPR = {
    "distribution": "mapr",
    "version": "5.1.2",
    "archive": None,
    "archive_checksum": None,
    "default_stream": "/streams/test",
}
WINDOWED = StateStore(name="w", kind="windowed", count=8, partitions=12, window_ms=300_000)
GUIDE_FLAGS = (
    "-XX:MetaspaceSize=96m -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:G1HeapRegionSize=16M -XX:MinMetaspaceFreeRatio=50 -XX:MaxMetaspaceFreeRatio=80"
)


def proxy(key: str, **role: Any) -> str:
    return planned(rest(1, common=LETTER, **role), key)


def proxies(**role: Any) -> int:
    return len(make_plan(rest(1, common=LETTER, **role)).services["rest1"]["kafka_rest"])


def mirror(key: str, flow: Mapping[str, Any] | None = None) -> str:
    return value(instances(make_plan(mirrors(2, flow=flow)), "mirror_maker")["mm1"][0], key)


def spread(hosts: int) -> list[int]:
    return [len(of_host) for of_host in instances(make_plan(mirrors(hosts)), "mirror_maker").values()]


def streamed(key: str, **role: Any) -> str:
    inventory = streams(1, common=LETTER, **role)
    return value(instances(make_plan(inventory), "streams_app")["st1"][0], key)


def said(inventory: Inventory, rule: str) -> list[str]:
    """Return severity of the findings of a rule."""
    return [f.severity for f in findings(inventory, rule)]


def cluster(partitions: int, brokers: int = 3) -> Inventory:
    leaf = {**CLUSTERS["leaf"], "broker_count": brokers, "other_partitions": partitions}
    return of_topics({"partitions": 1}, clusters={**CLUSTERS, "leaf": leaf})


def kernel(key: str) -> str:
    return planned(rest(1, common=LETTER), key, service="host_tuning")


PRODUCTION_GUIDE: dict[str, tuple[Callable[[], object], object]] = {
    "a heap of 1 GB for administration and producing": (
        lambda: proxy("KAFKAREST_HEAP_OPTS"),
        "-Xms1024m -Xmx1024m",
    ),
    "about 16 MB a consumer": (
        lambda: proxy("KAFKAREST_HEAP_OPTS", workload={"consumers": 100}, instances_per_host=1),
        "-Xms2624m -Xmx2624m",
    ),
    "instead of more than 8 GB several instances": (lambda: proxies(workload={"consumers": 3 * 448}), 3),
    "8 GB itself are one instance's": (lambda: proxies(workload={"consumers": 2 * 448}), 2),
    "the recommended flags": (lambda: GUIDE_FLAGS in proxy("KAFKAREST_JVM_PERFORMANCE_OPTS"), True),
    "at least 16 cores": (lambda: [said(rest(1, cores=n), "rest.cores") for n in (15, 16)], [["note"], []]),
    "consumer.request.max.bytes of 64 MB": (lambda: proxy("consumer.request.max.bytes"), "67108864"),
    "fetch.min.bytes off": (lambda: proxy("fetch.min.bytes"), "-1"),
    "consumer.request.timeout.ms of a second": (lambda: proxy("consumer.request.timeout.ms"), "1000"),
    "a lower one for lower latency": (
        lambda: proxy("consumer.request.timeout.ms", workload={"delivery_latency_ms": 200}),
        "200",
    ),
    "50 consumer.threads": (lambda: proxy("consumer.threads"), "50"),
    "more than the largest group": (lambda: proxy("consumer.threads", workload={"largest_group": 50}), "51"),
    "5 minutes until an instance is given up": (lambda: proxy("consumer.instance.timeout.ms"), "300000"),
    "32 MB of producer buffer": (lambda: proxy("producer.buffer.memory"), "33554432"),
    "the back-off of 50 ms is not to be touched": (
        lambda: said(rest(1, settings={"consumer.iterator.backoff.ms": 5}), "rest.dont_touch"),
        ["warning"],
    ),
}
MAPR_ARTICLE: dict[str, tuple[Callable[[], object], object]] = {
    "consumer.request.timeout.ms=125": (lambda: proxy("consumer.request.timeout.ms", **MAPR), "125"),
    "streams.buffer.max.time.ms=125": (lambda: proxy("streams.buffer.max.time.ms", **MAPR), "125"),
    "streams.default.streams": (lambda: proxy("streams.default.streams", **MAPR), "/streams/test"),
    "the topic in a URL": (lambda: topic_in_url("/streams/test", "topic1"), "%2Fstreams%2Ftest%3Atopic1"),
    "10 partitions for a node": (
        lambda: "stream create -path /streams/test " in (command := stream_command(1)) and command.split()[-2:],
        ["-defaultpartitions", "10"],
    ),
    "about 10 partitions per node": (lambda: stream_command(5).split()[-1], "50"),
    "two processes on a dedicated node": (lambda: proxies(**MAPR), 2),
    "8083 beside 8082": (
        lambda: [i.port for i in make_plan(rest(1, common=LETTER)).services["rest1"]["kafka_rest"]],
        [8082, 8083],
    ),
    "100 KB and 2 MB": (
        lambda: [
            said(rest(1, workload={"record_bytes": n}, settings={"producer.max.request.size": 9_000_000}), "rest.record")
            for n in (100 * 1024, 100 * 1024 + 1, 2 * 1024**2 + 1)
        ],
        # Brokers that take Kafka's default refuse the last one.
        [[], ["note"], ["error", "warning"]],
    ),
    "producer.threads is a waste of time": (
        lambda: said(rest(1, settings={"producer.threads": 10_000}), "rest.no_effect"),
        ["warning"],
    ),
}  # fmt: skip
SALESFORCE: dict[str, tuple[Callable[[], object], object]] = {
    "20 partitions, 10 processes on each of 2 hosts": (lambda: spread(2), [10, 10]),
    "5 on each of 4 hosts": (lambda: spread(4), [5, 5, 5, 5]),
    "and with a remainder": (lambda: spread(3), [7, 7, 6]),
    "idle beyond the partitions": (
        lambda: "warning" in said(mirrors(2, flow={"processes": 21}), "mirror.processes"),
        True,
    ),
    "one consumer a process": (lambda: mirror("MIRROR_NUM_STREAMS"), "1"),
    "a failed send ends the process": (lambda: mirror("MIRROR_ABORT_ON_SEND_FAILURE"), "true"),
    "gzip": (lambda: mirror("compression.type"), "gzip"),
    "15 s for metrics": (lambda: mirror("linger.ms"), "15000"),
    "30 s for logs": (lambda: mirror("linger.ms", {"priority": "bulk"}), "30000"),
    "95 percent of the batches of metrics were full within 30 s": (
        lambda: mirror("linger.ms", {"fill_ms_p95": 30_000}),
        "30000",
    ),
    "max.request.size is max.message.bytes": (lambda: mirror("max.request.size"), "1000000"),
    "0.05 of it is 50000": (lambda: mirror("batch.size"), "50000"),
    "a batch for each partition": (lambda: mirror("buffer.memory", {"target_partitions": 1000}), "50000000"),
}
STREAMS_ARTICLE: dict[str, tuple[Callable[[], object], object]] = {
    "16 MB * 3 + 50 MB is 98 MB": (lambda: store_mib(1, 1), 98),
    "12 * 3 * 98 MB is 3528 MB": (lambda: store_mib(12, 3), 3528),
    "8 * 3528 MB is 28224 MB": (lambda: state([WINDOWED], 1, 0, measured=False).unbounded_mib, 28_224),
    "which the plan says": (
        lambda: "8 stores would take 28224 MB" in findings(streams(1), "streams.memory.unbounded")[0].message,
        True,
    ),
    "less than 4 GB": (lambda: int(streamed("cache.bytes")), 4 * 1024**3),
    "batches of 1 MB": (lambda: streamed("producer.batch.size"), "1048576"),
    "and 50 ms to fill them": (lambda: streamed("producer.linger.ms"), "50"),
    "16 KB hold two or three records of 6 KB": (
        lambda: "16384 bytes hold 2.7 records of 6000 bytes" in why_batch(),
        True,
    ),
}
THROUGHPUT_GUIDE: dict[str, tuple[Callable[[], object], object]] = {
    "max(t / t_production, t / t_consumption)": (
        lambda: [
            partitions_needed(100, 10, 20),
            partitions_needed(100, 20, 10),
            partitions_needed(101, 10, 20),
        ],
        [10, 10, 11],
    ),
    "over-partitioning for the throughput to come": (lambda: partitions_needed(100, 10, 20, growth=2), 20),
    "1000 partitions from one broker to another add 20 ms": (lambda: added_replication_ms(1000, 1, 2), 20.0),
    "(p / b) (r - 1) (20 / 1000)": (lambda: added_replication_ms(3000, 3, 3), 40.0),
    "2 to 4000 leaders on a broker": (
        lambda: [said(cluster(n, brokers=1), "topics.leaders") for n in (1999, 2000, 3999, 4000)],
        [[], ["note"], ["note"], ["warning"]],
    ),
    "low tens of thousands in a cluster": (
        lambda: [said(cluster(n, brokers=20), "topics.cluster.partitions") for n in (19_999, 20_000)],
        [[], ["warning"]],
    ),
    "30,000 open files were seen": (
        lambda: [said(cluster(n, brokers=1), "topics.file_handles") for n in (14_999, 15_000)],
        [[], ["note"]],
    ),
    "keys move when a topic grows": (
        lambda: said(of_topics({"partitions": 8, "live_partitions": 4}), "topics.partitions.live"),
        ["error"],
    ),
}
HIGH_LOAD: dict[str, tuple[Callable[[], object], object]] = {
    key: (lambda key=key: kernel(key), wanted)  # type: ignore[misc] # a default binds the key now
    for key, wanted in {
        "net.core.rmem_max": "16777216",
        "net.core.wmem_max": "16777216",
        "net.ipv4.tcp_rmem": "4096 87380 16777216",
        "net.ipv4.tcp_wmem": "4096 16384 16777216",
        "net.core.somaxconn": "4096",
        "net.core.netdev_max_backlog": "16384",
        "net.ipv4.tcp_max_syn_backlog": "8192",
        "net.ipv4.tcp_syncookies": "1",
        "net.ipv4.ip_local_port_range": "1024 65535",
        "net.ipv4.tcp_congestion_control": "cubic",
        "net.ipv4.tcp_tw_recycle": "",  # gone since Linux 4.12
    }.items()
} | {
    "never lower than it is": (
        lambda: effective("net.ipv4.tcp_rmem", "4096 131072 33554432", "4096 87380 16777216"),
        "4096 131072 33554432",
    )
}


def stream_command(nodes: int) -> str:
    plan = make_plan(rest(1, common=LETTER, stream_nodes=nodes, **MAPR))
    return value(plan.services["rest1"]["mapr_streams"][0], "maprcli")


def why_batch() -> str:
    (instance,) = instances(make_plan(streams(1)), "streams_app")["st1"]
    return next(s.because for s in instance.settings if s.key == "producer.batch.size")


EXAMPLES = {
    f"{document}: {example}": pair
    for document, examples in {
        "production guide": PRODUCTION_GUIDE,
        "MapR": MAPR_ARTICLE,
        "Salesforce": SALESFORCE,
        "Streams": STREAMS_ARTICLE,
        "throughput": THROUGHPUT_GUIDE,
        "Jetty": HIGH_LOAD,
    }.items()
    for example, pair in examples.items()
}


@pytest.mark.parametrize(("worked", "expected"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_plan_comes_to_the_documents_number(worked: Callable[[], object], expected: object) -> None:
    assert worked() == expected
