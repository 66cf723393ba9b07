"""The sums of topics, brokers and declared clients."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.oracle.reading import Groups, Hosts, Plan, Settings, cluster_of, max_message, partitions_of, value
from tests.oracle.sums import (
    BROKER_FILES,
    HANDLES_SEEN,
    LEADERS,
    LEADERS_MOST,
    MBIT,
    MESSAGE_MAX,
    PARTITIONS_MOST,
    PRODUCER_BUFFER,
    RETENTION_MS,
    SEGMENT,
    Sum,
)


def of_clusters(hosts: Hosts, groups: Groups, plan: Plan) -> Iterator[Sum]:
    """Yield partitions, copies, leaders, descriptors and the link of the brokers of each cluster."""
    variables = next(iter(hosts.values()))
    declared = {(t["cluster"], t["name"]): t for t in variables.get("kafka_topics", [])}
    for cluster, topics in plan["topics"].items():
        about, brokers = cluster_of(hosts, groups, cluster)
        total, segments, written = about.get("other_partitions", 0), 0.0, 0.0
        left = _read(hosts, cluster)
        for name, planned in topics.items():
            topic, settings = declared[cluster, name], {s["key"]: s for s in planned["settings"]}
            partitions, copies = value(settings, "partitions", 1), value(settings, "replication.factor", 1)
            total += partitions
            ends = [
                value(settings, key, default)
                for key, default in (("retention.ms", 0), ("retention.bytes", -1))
            ]
            if max(ends) < 0:
                yield Sum("topics.growth", name, topic.get("target_mb_per_s", 0) * 1e6, 0, "bytes/s that nothing deletes",
                          "warning", ("topics.retention",))  # fmt: skip
            segments += partitions * copies * _segments(topic, partitions, settings)
            written += topic.get("target_mb_per_s", 0) * copies * 1e6
            left += topic.get("target_mb_per_s", 0) * (copies - 1) * 1e6
            if brokers:
                yield Sum("topics.replication", name, copies, brokers, "copies beside brokers")
            yield Sum(
                "topics.min_insync", name, value(settings, "min.insync.replicas", 1), copies, "in-sync copies"
            )
            if {"target_mb_per_s", "production_mb_per_s", "consumption_mb_per_s"} <= topic.keys():
                target = topic["target_mb_per_s"] * topic.get("growth", 1)
                needed = max(target / topic["production_mb_per_s"], target / topic["consumption_mb_per_s"])
                yield Sum("topics.partitions", name, needed - 1e-6, partitions, "max(t / tp, t / tc) (throughput)",
                          "warning", ("topics.partitions",))  # fmt: skip
        yield Sum("topics.cluster", cluster, total, PARTITIONS_MOST, "low tens of thousands of partitions (throughput)",
                  "warning", ("topics.cluster",))  # fmt: skip
        if not brokers:
            continue
        for most, enough in ((LEADERS, "note"), (LEADERS_MOST, "warning")):
            yield Sum("topics.leaders", cluster, total / brokers, most, "leaders a broker, 2 to 4000 (throughput)",
                      enough, ("topics.leaders",))  # fmt: skip
        of_brokers = [hosts[h] for h in groups.get(about.get("brokers", ""), [])]
        handles = 2 * segments / brokers
        files = min(
            [h.get("kafka_broker_open_files", BROKER_FILES) for h in of_brokers], default=BROKER_FILES
        )
        # Of somebody else's brokers nobody knows the limit.
        yield Sum("topics.handles", cluster, handles, files, "an index and a log a segment beside a broker's limit",
                  "error" if of_brokers else "warning", ("topics.file_handles",))  # fmt: skip
        yield Sum("topics.handles.seen", cluster, handles, HANDLES_SEEN, "30,000 handles seen (throughput)",
                  "note", ("topics.file_handles",))  # fmt: skip
        for host in of_brokers:
            if link := host.get("host_link_mbit_per_s"):
                yield Sum(
                    "broker.link",
                    cluster,
                    written / brokers,
                    link * MBIT,
                    "targets x copies beside the link, bytes/s",
                )
                yield Sum("broker.link.out", cluster, left / brokers, link * MBIT, "copies and readers beside the link, bytes/s",
                          "warning", ("topics.link",))  # fmt: skip


def _read(hosts: Hosts, cluster: str) -> float:
    """Return what flows and applications read of a cluster, in bytes/s."""
    flows = {name: flow for h in hosts.values() for name, flow in h.get("mirror_maker_flows", {}).items()}
    apps = {h["streams_app_name"]: h for h in hosts.values() if h.get("streams_app_cluster") == cluster}
    return float(
        sum(flow.get("mb_per_s", 0) * 1e6 for flow in flows.values() if flow["source"] == cluster)
        + sum(
            h.get("streams_app_records_per_s", 0) * h.get("streams_app_record_bytes", 1_000)
            for h in apps.values()
        )
    )


def _segments(topic: Mapping[str, Any], partitions: float, settings: Settings) -> float:
    """Return the closed segments of a partition at its target rate: what retention keeps by bytes or by time."""
    kept = (
        topic.get("target_mb_per_s", 0)
        * 1e6
        / partitions
        * value(settings, "retention.ms", RETENTION_MS)
        / 1_000
    )
    by_bytes = value(settings, "retention.bytes", -1)
    if "target_mb_per_s" not in topic or kept < 0:
        kept = by_bytes if by_bytes > 0 else 0
    elif by_bytes > 0:
        kept = min(kept, by_bytes)
    return float(max(1, kept / value(settings, "segment.bytes", SEGMENT)))


def of_clients(hosts: Hosts, plan: Plan) -> Iterator[Sum]:
    """Yield the buffers and requests of declared clients."""
    about = next(iter(hosts.values())).get("kafka_clusters", {})
    for client in next(iter(hosts.values())).get("kafka_clients", []):
        settings = {s["key"]: s for s in plan["clients"].get(client["name"], {"settings": []})["settings"]}
        topics = [t for t in plan["topics"].get(client["cluster"], {}) if t in client["topics"]]
        partitions = (
            sum(partitions_of(plan, client["cluster"], [re.escape(t) for t in topics])) if topics else 0
        )
        if client["library"] == "java":
            batch = value(settings, "batch.size", 16_384)
            yield Sum("clients.buffer", client["name"], partitions * batch, value(settings, "buffer.memory", PRODUCER_BUFFER),
                      "a batch a partition within buffer.memory (throughput), bytes", "warning", ("clients.",))  # fmt: skip
            own = client.get("producer_settings", {}).get("max.request.size", 0)
            of_cluster = about.get(client["cluster"], {}).get("message_max_bytes", MESSAGE_MAX)
            takes = min(
                [max_message(plan, client["cluster"], t) or of_cluster for t in topics], default=math.inf
            )
            yield Sum("clients.batch", client["name"], batch, takes, "batch.size within max.message.bytes",
                      "warning", ("clients.batch",))  # fmt: skip
            yield Sum("clients.request", client["name"], own, takes, "max.request.size within max.message.bytes",
                      "warning", ("clients.",))  # fmt: skip
