"""What must hold of every plan: the documents' formulas and physical limits, written again from the sources.

Nothing here is imported from the planner. A plan is what plan.json holds; an inventory is hosts and groups. Each
sum is a lower bound of what a workload takes, without a margin, beside what there is of it. Sources:

guide           Confluent, REST Proxy Production Deployment
MapR            Kafka REST Proxy - Performance Tuning for MapR Event Store
Salesforce      MirrorMaker Performance Tuning
Streams         A Journey of Performance Tuning KafkaStream Application
throughput      Configure Kafka for High Throughput
measured        lab/measurements
KIP-81          min(brokers x fetch.max.bytes, partitions x max.partition.fetch.bytes) of fetched data a consumer
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.oracle.clusters import of_clients, of_clusters
from tests.oracle.reading import (
    Groups,
    Hosts,
    Plan,
    Settings,
    cluster_of,
    heap_mib,
    is_own,
    limit_mib,
    max_message,
    measured,
    partitions_of,
    processes,
    value,
)
from tests.oracle.sums import (
    ANSWER,
    COST,
    COST_OF_BRIDGE,
    DAY_MS,
    DESCRIPTORS,
    IDLE_LIVE,
    IDLE_OUTSIDE,
    MBIT,
    MESSAGE_MAX,
    MIB,
    MIRRORED,
    PRODUCER_BUFFER,
    PROXY_LIVE,
    PROXY_OUTSIDE,
    READ,
    READ_MAX,
    READER,
    READER_AT_ONCE,
    REQUEST_SIZE,
    RESTORE_MB_PER_S,
    SEGMENT,
    SEGMENT_MS,
    STARVED_MIB,
    Sum,
    fetched_mib,
    over,
    reported,
)


def broken(hosts: Hosts, groups: Groups, plan: Plan) -> list[Sum]:
    """Return the sums that do not hold, and that the plan does not report."""
    return [each for each in sums(hosts, groups, plan) if over(each) and not reported(each, plan)]


def sums(hosts: Hosts, groups: Groups, plan: Plan) -> Iterator[Sum]:
    """Yield every sum of a plan."""
    yield from of_machines(hosts, plan)
    yield from of_proxies(hosts, groups, plan)
    yield from of_balancers(hosts, groups, plan)
    yield from of_mirrors(hosts, groups, plan)
    yield from of_applications(hosts, groups, plan)
    yield from of_clusters(hosts, groups, plan)
    yield from of_clients(hosts, plan)


# Machines


def of_machines(hosts: Hosts, plan: Plan) -> Iterator[Sum]:
    """Yield the memory of each host: the limits of all units on it."""
    for host, of_host in plan["hosts"].items():
        taken = sum(
            limit_mib(s)
            for service in of_host["services"]
            for h, _, s in processes(plan, service)
            if h == host
        )
        if "host_memory_mib" in hosts.get(host, {}):
            said = "all units of a host beside its memory, MiB"
            yield Sum("host.memory", host, taken, hosts[host]["host_memory_mib"], said)


# REST proxies


_BOOTSTRAP = ("rest.bootstrap", "rest.cluster", "inventory.")


def of_proxies(hosts: Hosts, groups: Groups, plan: Plan) -> Iterator[Sum]:
    """Yield bytes, cores, memory, descriptors and threads of the proxies of each host."""
    by_host: dict[str, list[tuple[str, Settings]]] = {}
    for host, name, settings in processes(plan, "kafka_rest"):
        by_host.setdefault(host, []).append((name, settings))
    for host, instances in by_host.items():
        variables = hosts[host]
        load = variables.get("kafka_rest_workload", {})
        rate, size = load.get("records_per_s", 0), load.get("record_bytes", 100)
        if link := variables.get("host_link_mbit_per_s"):
            yield Sum("rest.link", host, rate * size, link * MBIT, "records x bytes beside the link, bytes/s")
            yield Sum("rest.link.base64", host, rate * size * 4 / 3, link * MBIT,
                      "the same as base64, a third more", "warning", ("rest.",))  # fmt: skip
            readers = load.get("readers", load.get("consumers", 0))
            read = readers * load.get("reader_records_per_s", READ) * size
            told = "error" if "reader_records_per_s" in load else "warning"
            yield Sum("rest.link.readers", host, rate * size + read, link * MBIT,
                      "records that are produced and read beside the link, bytes/s", told, ("rest.link",))  # fmt: skip
        yield Sum("rest.bytes", host, rate * size, 280e6 * len(instances), "280 MB/s a proxy (MapR), bytes/s",
                  "warning", ("rest.",))  # fmt: skip
        yield from _cores(host, variables, load, instances)
        about, brokers = cluster_of(hosts, groups, variables["kafka_rest_cluster"])
        if "bootstrap_servers" in about:
            servers = about["bootstrap_servers"].count(",") + 1
            said = "several bootstrap servers, in case one goes down (guide)"
            yield Sum("rest.bootstrap", host, min(2, brokers or 1), servers, said, "note", _BOOTSTRAP)
        for name, settings in instances:
            yield from _proxy(f"{host} {name}", variables, load, len(instances), about, brokers, settings)


def of_balancers(hosts: Hosts, groups: Groups, plan: Plan) -> Iterator[Sum]:
    """Yield what passes through a balancer: of readers only where they are told to come through it."""
    proxies = groups.get("kafka_rest", [])
    rate = 0.0
    for host in proxies:
        load = hosts[host].get("kafka_rest_workload", {})
        each = load.get("records_per_s", 0)
        own, advice = hosts[host].get("kafka_rest_consumers_via"), hosts[host].get("advice")
        told = hosts[host]["kafka_rest_distribution"] == "confluent" and advice != "documented"
        through = own == "balancer" or (own is None and told)
        if through and "reader_records_per_s" in load:
            each += load.get("readers", load.get("consumers", 0)) * load["reader_records_per_s"]
        rate += each * load.get("record_bytes", 100)
    # What a host is to carry while another one is away.
    rate *= (len(proxies) - 1) / len(proxies) if len(proxies) > 1 else 1
    for host, _, _ in processes(plan, "rest_balancer"):
        if link := hosts[host].get("host_link_mbit_per_s"):
            yield Sum(
                "balancer.link",
                host,
                rate,
                link * MBIT,
                "records through a balancer beside its link, bytes/s",
            )
            yield Sum("balancer.link.base64", host, rate * 4 / 3, link * MBIT, "the same as base64, a third more",
                      "warning", ("balancer.link",))  # fmt: skip


def _cores(
    host: str, variables: Mapping[str, Any], load: Mapping[str, Any], instances: list[Any]
) -> Iterator[Sum]:
    """Yield what producing and reading take of the cores, by what was measured."""
    cores = variables["host_cores"]
    bridge, rate = variables.get("kafka_rest_distribution") == "strimzi", load.get("records_per_s", 0)
    request, record, byte = COST_OF_BRIDGE if bridge else COST
    requests = rate / load.get("records_per_request", 100)
    needed = requests * request + rate * record + rate * load.get("record_bytes", 100) * byte
    if not variables.get("kafka_rest_measured_capacity"):
        yield Sum("rest.cores.producers", host, needed, max(2, cores), "cores for the records that are produced",
                  "warning", ("rest.load", "rest.cores"))  # fmt: skip
    readers = load.get("readers", load.get("consumers", 0))
    at_once = value(instances[0][1], "fetch.min.bytes", -1) == 1
    yield Sum("rest.cores.readers", host, readers * (READER_AT_ONCE if at_once else READER), cores,
              "cores for readers of 100 records/s", "warning", ("rest.load", "rest.cores"))  # fmt: skip


def _proxy(
    where: str,
    variables: Mapping[str, Any],
    load: Mapping[str, Any],
    count: int,
    about: Mapping[str, Any],
    brokers: int | None,
    settings: Settings,
) -> Iterator[Sum]:
    """Yield the sums of one of ``count`` proxies of a host."""
    consumers = load.get("consumers", 0) / count
    readers = load.get("readers", load.get("consumers", 0)) / count
    request = load.get("records_per_request", 100) * load.get("record_bytes", 100)
    buffer = value(settings, "producer.buffer.memory", PRODUCER_BUFFER)
    heap, limit = heap_mib(settings), limit_mib(settings)
    bridge = variables["kafka_rest_distribution"] == "strimzi"
    most = value(settings, "producer.max.request.size", REQUEST_SIZE)
    yield Sum(
        "rest.record", where, load.get("record_bytes", 100), most, "a record beside max.request.size, bytes"
    )
    takes = (
        about.get("message_max_bytes", MESSAGE_MAX)
        if variables["kafka_rest_distribution"] != "mapr"
        else math.inf
    )
    packed = "warning" if "producer.compression.type" in settings else "error"
    yield Sum("rest.record.cluster", where, load.get("record_bytes", 100), takes, "a record beside message.max.bytes",
              packed, ("rest.record_bytes",))  # fmt: skip
    if not bridge:
        yield Sum("rest.request.buffer", where, request, buffer, "a request beside buffer.memory (MapR), bytes",
                  "warning", ("rest.producer.buffer", "rest.request", "rest.memory"))  # fmt: skip
    files = value(settings, "LimitNOFILE", math.inf)
    yield Sum("rest.files", where, 5 * consumers + load.get("connections", 0) / count, files,
              "5 descriptors a consumer, one a connection, beside LimitNOFILE")  # fmt: skip
    threads = value(settings, "thread.pool.max", math.inf)
    yield Sum("rest.threads", where, load.get("concurrent_requests", 0) / count + readers, threads,
              "requests and reads at once beside thread.pool.max", "warning", ("jetty.threads",))  # fmt: skip
    if heap is None:
        return
    yield Sum("rest.buffer", where, buffer / MIB, heap, "buffer.memory within the heap (MapR), MiB")
    yield Sum("rest.heap.limit", where, heap, 8_192, "8 GiB of heap at most (guide, JVM), MiB",
              "warning", ("rest.heap.limit",))  # fmt: skip
    bodies = load.get("concurrent_requests", 0) / count * request / MIB
    own = "kafka_rest_heap_mib" in variables or is_own(settings, "_OPTS")
    enough, rules = ("warning", ("rest.",)) if own else ("error", ())
    yield Sum(
        "rest.heap.bodies", where, PROXY_LIVE + bodies, heap, "requests in flight x size, MiB", enough, rules
    )
    if not measured(variables):
        documented = 1_024 + 16 * consumers
        yield Sum("rest.heap.guide", where, documented, heap, "1 GiB and 16 MB a consumer (guide), MiB",
                  enough, ("rest.heap",))  # fmt: skip
        return
    fetched = fetched_mib(brokers, load.get("partitions", 1), settings)
    mapr = variables["kafka_rest_distribution"] == "mapr"
    live = (
        PROXY_LIVE
        + (0 if bridge else buffer / MIB)
        + IDLE_LIVE * consumers
        + (0 if mapr else fetched * readers)
    )
    yield Sum(
        "rest.heap.readers",
        where,
        live,
        heap,
        "what proxies, buffer and fetches (KIP-81) hold, MiB",
        enough,
        rules,
    )
    answers = (
        load.get("full_reads", 0)
        / count
        * ANSWER
        * value(settings, "consumer.request.max.bytes", READ_MAX)
        / MIB
    )
    if not bridge:
        yield Sum("rest.heap.answers", where, PROXY_LIVE + answers, heap, "full reads x 3 x consumer.request.max.bytes, MiB",
                  enough, rules)  # fmt: skip
    outside = PROXY_OUTSIDE + IDLE_OUTSIDE * consumers + (0 if mapr else fetched * readers)
    yield Sum(
        "rest.memory",
        where,
        heap + outside,
        limit or math.inf,
        "heap and what lies beside it within MemoryMax, MiB",
    )


# Mirrors


def of_mirrors(hosts: Hosts, groups: Groups, plan: Plan) -> Iterator[Sum]:
    """Yield the link, buffers, memory and parallelism of each flow."""
    by_flow: dict[str, list[tuple[str, str, Settings]]] = {}
    for host, name, settings in processes(plan, "mirror_maker"):
        by_flow.setdefault(name.rpartition("-")[0], []).append((host, name, settings))
    for name, instances in by_flow.items():
        host, _, settings = instances[0]
        flow = hosts[host]["mirror_maker_flows"][name]
        classic = hosts[host]["mirror_maker_kind"] == "classic"
        yield from _flow(name, flow, hosts, groups, plan, instances, classic)
        yield from _mirror(name, flow, hosts, groups, plan, settings, classic)
    for host in {host for instances in by_flow.values() for host, _, _ in instances}:
        if link := hosts[host].get("host_link_mbit_per_s"):
            yield from _mirrored(host, link, hosts[host]["mirror_maker_flows"], by_flow)


def _mirrored(host: str, link: float, flows: Mapping[str, Any], by_flow: Mapping[str, Any]) -> Iterator[Sum]:
    """Yield what a host's processes carry, of each flow its part of them, beside the link: in as well as out."""
    whole = carried = 0.0
    for name, instances in by_flow.items():
        here = [settings for h, _, settings in instances if h == host]
        rate = flows.get(name, {}).get("mb_per_s", 0) * 1e6 * len(here) / len(instances)
        carried += rate
        codec = [s["value"] for k, s in here[0].items() if k.endswith("compression.type")] if here else []
        whole += rate if codec in ([], ["none"]) else 0
    yield Sum("mirror.link.host", host, carried, link * MBIT, "MB/s before compression beside the host's link, bytes/s",
              "warning", ("mirror.link",))  # fmt: skip
    yield Sum("mirror.link.whole", host, whole, link * MBIT, "MB/s that nothing compresses, bytes/s")


def _flow(
    name: str,
    flow: Mapping[str, Any],
    hosts: Hosts,
    groups: Groups,
    plan: Plan,
    instances: list[Any],
    classic: bool,
) -> Iterator[Sum]:
    settings = instances[0][2]
    rate, link = flow.get("mb_per_s", 0) * 1e6, flow.get("link_mbit_per_s")
    largest = max(
        [flow.get("largest_topic_partitions", 0), *partitions_of(plan, flow["source"], flow["topics"])]
    )
    if link:
        yield Sum("mirror.link", name, rate, link * MBIT, "MB/s before compression beside the link, bytes/s",
                  "warning", ("mirror.link", "mirror.round_trip", "mirror.bandwidth"))  # fmt: skip
    cores = sum(hosts[host]["host_cores"] for host in {host for host, _, _ in instances})
    yield Sum("mirror.cores", name, rate / MIRRORED, cores, "cores that read, compress and write (measured)",
              "warning", ("mirror.cores",))  # fmt: skip
    if classic:
        yield Sum("mirror.processes", name, len(instances), largest, "processes beside the largest topic (Salesforce)",
                  "warning", ("mirror.processes",))  # fmt: skip
    _, brokers = cluster_of(hosts, groups, flow["target"])
    if rate and flow.get("round_trip_ms") and flow.get("direction") != "pull":
        # One request on its way to each broker: max.in.flight.requests.per.connection is 1. A task of
        # MirrorMaker 2 writes to the partitions that it reads, a classic process to all.
        producers = largest if not classic else min(len(instances), largest)
        written = largest_target(flow, plan, classic)
        own = written if classic else math.ceil(written / largest)
        request = min(value(settings, "max.request.size", REQUEST_SIZE),
                      own * value(settings, "batch.size", 16_384))  # fmt: skip
        most = producers * min(brokers or 1, own) * request / (flow["round_trip_ms"] / 1_000)
        yield Sum("mirror.round_trip", name, rate, most, "MB/s beside requests over the round trip, bytes/s",
                  "warning", ("mirror.round_trip",))  # fmt: skip


def largest_target(flow: Mapping[str, Any], plan: Plan, classic: bool) -> int:
    """Return partitions of the target that a flow is known to write to."""
    # A copy under the default policy of MirrorMaker 2 has another name; then the source's partitions count.
    same = classic or flow.get("replication_policy") == "identity"
    ends = [
        sum(partitions_of(plan, flow[end], flow["topics"]))
        for end in ("source", "target")
        if same or end == "source"
    ]
    return max(int(flow.get("target_partitions", 0)), int(flow.get("largest_topic_partitions", 0)), *ends)


def _mirror(
    name: str,
    flow: Mapping[str, Any],
    hosts: Hosts,
    groups: Groups,
    plan: Plan,
    settings: Settings,
    classic: bool,
) -> Iterator[Sum]:
    batch, buffer = value(settings, "batch.size", 16_384), value(settings, "buffer.memory", PRODUCER_BUFFER)
    target, _ = cluster_of(hosts, groups, flow["target"])
    whole = flow.get("target_partitions") or (
        sum(partitions_of(plan, flow["target"])) + target.get("other_partitions", 0)
    )
    known = max(largest_target(flow, plan, classic), whole)
    enough = "warning" if is_own(settings, "buffer.memory") or is_own(settings, "batch.size") else "error"
    # A task of MirrorMaker 2 has a producer of its own, which writes to the task's share of the partitions.
    tasks = 1 if classic else value(settings, "tasks.max", 1)
    yield Sum("mirror.buffer", name, math.ceil(known / tasks) * batch, buffer,
              "target's partitions of a producer x batch.size (Salesforce), bytes",
              enough, ("mirror.producer.buffer",))  # fmt: skip
    request, ratio = (
        value(settings, "max.request.size", REQUEST_SIZE),
        flow.get("max_compression_ratio", 0.05),
    )
    yield Sum("mirror.batch", name, batch, max(1, ratio * request + 1), "batch.size within ratio x max.request.size",
              "warning", ("mirror.producer.batch",))  # fmt: skip
    takes = target.get("message_max_bytes", MESSAGE_MAX)
    own = [max_message(plan, flow["target"], t) for t in plan["topics"].get(flow["target"], {})
           if any(re.fullmatch(p, t.removeprefix(f"{flow['source']}.")) for p in flow["topics"])]  # fmt: skip
    takes = min([each or takes for each in own], default=takes)
    yield Sum("mirror.message", name, request, takes, "max.request.size beside what the target takes (Salesforce)",
              "warning", ("mirror.producer.message_bytes", "mirror.message_bytes"))  # fmt: skip
    spare = flow["latency_budget_ms"] - flow.get("round_trip_ms", 0)
    yield Sum("mirror.linger", name, value(settings, "linger.ms", 0), max(0, spare), "linger.ms within the budget, ms",
              "warning", ("mirror.latency",))  # fmt: skip
    heap = heap_mib(settings) or math.inf
    _, brokers = cluster_of(hosts, groups, flow["source"])
    source = sum(partitions_of(plan, flow["source"], flow["topics"])) or flow.get(
        "largest_topic_partitions", 0
    )
    enough = "warning" if "heap_mib" in flow else "error"
    yield Sum("mirror.heap.buffer", name, buffer / MIB, heap, "the buffer within the heap, MiB")
    read = fetched_mib(brokers, source, {k: s for k, s in settings.items() if "producer" not in k})
    yield Sum("mirror.heap", name, tasks * buffer / MIB + read, heap, "buffers and fetches (KIP-81) within the heap, MiB",
              enough, ("mirror.heap",))  # fmt: skip
    yield Sum(
        "mirror.memory",
        name,
        heap + 64,
        limit_mib(settings) or math.inf,
        "heap and a JVM within MemoryMax, MiB",
    )


# Streams applications


def of_applications(hosts: Hosts, groups: Groups, plan: Plan) -> Iterator[Sum]:
    """Yield the memory, descriptors, restore and link of each instance of an application."""
    found = list(processes(plan, "streams_app"))
    for host, name, settings in found:
        app = {k.removeprefix("streams_app_"): v for k, v in hosts[host].items()}
        each = app.get("instances_per_host", 1)
        # While one host is away, the others have its partitions.
        carriers = len(found) - each or len(found)
        yield from _instance(f"{host} {name}", app, groups, hosts, settings, carriers, len(found))
        if link := hosts[host].get("host_link_mbit_per_s"):
            taken = app.get("records_per_s", 0) * app.get("record_bytes", 1_000) * each / len(found)
            yield Sum("streams.link", host, taken, link * MBIT, "records x bytes beside the link, bytes/s",
                      "error", ())  # fmt: skip


def _instance(
    where: str,
    app: Mapping[str, Any],
    groups: Groups,
    hosts: Hosts,
    settings: Settings,
    carriers: int,
    all_: int,
) -> Iterator[Sum]:
    stores = app.get("stores", [])
    standbys = value(settings, "num.standby.replicas", 0)
    threads = value(settings, "num.stream.threads", 1)
    databases = writing = restored = 0.0
    for store in stores:
        # A join of two streams keeps a store of each (measured); the article counts one.
        count = store.get("count", 1) * (2 if store.get("kind") == "join" and measured(app) else 1)
        share = min(store["partitions"], math.ceil(store["partitions"] * (1 + standbys) / carriers))
        windowed = store.get("kind", "windowed") != "key_value"
        writing += count * share
        databases += count * share * (2 if windowed else 1)
        if store.get("changelog", True):
            here = math.ceil(store["partitions"] / carriers)
            restored += count * here * _changelog_bytes(store, settings)
    heap, bound = heap_mib(settings) or math.inf, value(settings, "cache.bytes", 0) / MIB
    yield Sum(
        "streams.memory",
        where,
        heap + bound,
        limit_mib(settings) or math.inf,
        "heap and RocksDB within MemoryMax, MiB",
    )
    if bound:
        yield Sum("streams.memtables", where, writing * STARVED_MIB, value(settings, "memtables.bytes", 0) / MIB,
                  "1 MiB of memtables a writing database starved", "error", ())  # fmt: skip
    yield Sum("streams.files", where, DESCRIPTORS * databases, value(settings, "LimitNOFILE", math.inf),
              "7.4 descriptors a database beside LimitNOFILE")  # fmt: skip
    buffers = threads * value(settings, "producer.buffer.memory", PRODUCER_BUFFER) / MIB
    enough = "warning" if "heap_mib" in app else "error"
    yield Sum(
        "streams.heap", where, buffers, heap, "a producer's buffer a thread within the heap, MiB", "error", ()
    )
    about, brokers = cluster_of(hosts, groups, app["cluster"])
    size = app.get("record_bytes", 1_000)
    written = max([s.get("record_bytes", size) for s in stores if s.get("changelog", True)], default=size)
    request, takes = (
        value(settings, "producer.max.request.size", REQUEST_SIZE),
        about.get("message_max_bytes", MESSAGE_MAX),
    )
    yield Sum(
        "streams.record", where, written, min(request, takes), "a record that is written beside what is taken"
    )
    yield Sum("streams.batch", where, value(settings, "producer.batch.size", 16_384), takes, "a batch beside message.max.bytes",
              "warning", ("streams.batch",))  # fmt: skip
    read = sum(math.ceil(s["partitions"] / carriers) * (2 if s.get("kind") == "join" else 1) for s in stores)
    # Each thread has a consumer for its share of the partitions.
    fetched = threads * fetched_mib(brokers, read / threads, settings)
    yield Sum("streams.heap.fetched", where, buffers + fetched, heap, "buffers and fetches (KIP-81) within the heap, MiB",
              enough, ("streams.heap",))  # fmt: skip
    seconds = restored / (app.get("restore_mb_per_s", RESTORE_MB_PER_S) * 1e6)
    if not standbys:
        yield Sum("streams.restore", where, seconds, app.get("restore_s", 60), "a restore from the changelogs, s",
                  "warning", ("streams.restore",))  # fmt: skip
    yield Sum("streams.standbys", where, standbys, max(0, all_ - 1), "standbys beside the other instances",
              "warning", ("streams.standbys",))  # fmt: skip


def _changelog_bytes(store: Mapping[str, Any], settings: Settings) -> float:
    """Return what a partition of a store's changelog may hold.

    Retention deletes closed segments alone; a segment is closed by segment.bytes or segment.ms (Kafka documentation).
    """
    size = store.get("record_bytes", 0)
    if store.get("kind") == "key_value":
        return float(store.get("keys", 0) * size / store["partitions"])
    rate = store.get("records_per_s", 0) * size / store["partitions"]
    window = store["window_ms"] * (2 if store.get("kind") == "join" else 1) + store.get("grace_ms", 0)
    more = value(settings, "windowstore.changelog.additional.retention.ms", DAY_MS)
    kept = rate * (window + more) / 1_000
    open_segment = min(
        value(settings, "topic.segment.bytes", SEGMENT),
        rate * value(settings, "topic.segment.ms", SEGMENT_MS) / 1_000,
    )
    return float(kept + open_segment)
