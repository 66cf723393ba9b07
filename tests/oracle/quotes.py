"""What the documents say, in their own numbers, and what a plan says that they say.

Transcribed from the five documents, section by section. Nothing here is imported from the planner.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.oracle.reading import Hosts, Plan, Settings, processes, value
from tests.oracle.sums import MESSAGE_MAX, MIB, PRODUCER_BUFFER

#: guide, JVM: the flags beside the heap.
GUIDE_FLAGS = (
    "-XX:MetaspaceSize=96m -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:G1HeapRegionSize=16M -XX:MinMetaspaceFreeRatio=50 -XX:MaxMetaspaceFreeRatio=80"
)
#: What a finding says that a document has: rule -> how it says so, and the numbers that stand there.
QUOTED: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "rest.heap.limit": (re.compile(r"is above (\d+)"), ("8192",)),  # guide, JVM: larger than 8 GB
    "rest.cores": (re.compile(r"at least (\d+) are recommended"), ("16",)),  # guide, CPUs
    # MapR, About message size: about 100KB, and 2MB; nobody says of which base.
    "rest.record_bytes": (
        re.compile(r"(?:advisable size of|above) (\d+)(?: \(MapR| the)"),
        ("100000", "102400", "2000000", "2097152"),
    ),
    "topics.leaders": (
        re.compile(r"advised are (\d+ to \d+)"),
        ("2000 to 4000",),
    ),  # throughput, availability
    "topics.file_handles": (re.compile(r"above the (\d+) seen"), ("30000",)),  # throughput, file handles
    "jetty.accept_queue": (re.compile(r"queue of (\d+) a process"), ("50",)),
}
_SAYS = re.compile(r"^(?P<key>\S+) .*?, where (?P<document>.+?) (?:says|has) (?P<said>\S+)", re.DOTALL)


#: What a finding says of a cluster is what the inventory says of it.
_TAKES = re.compile(r"above the (\d+) that cluster (\S+) takes")


class Quote(NamedTuple):
    """What a plan says that a document says, and what may stand there."""

    where: str
    about: str
    said: str
    document: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the document says so."""
        return self.said in self.document


def quotes(hosts: Hosts, plan: Plan) -> Iterator[Quote]:
    """Yield what the findings and the documented values of a plan quote."""
    yield from _in_findings(hosts, plan)
    yield from _sums_in_findings(hosts, plan)
    if next(iter(hosts.values())).get("advice") == "documented":
        yield from _documented(hosts, plan)


def _in_findings(hosts: Hosts, plan: Plan) -> Iterator[Quote]:
    for finding in plan["findings"]:
        where, rule, message = finding["where"], finding["rule"], finding["message"]
        pattern, allowed = QUOTED.get(rule, (None, ()))
        for said in pattern.findall(message) if pattern else ():
            yield Quote(where, rule, said, allowed)
        if takes := _TAKES.search(message):
            about = next(iter(hosts.values()))["kafka_clusters"][takes[2]]
            yield Quote(where, rule, takes[1], (str(about.get("message_max_bytes", MESSAGE_MAX)),))
        match = _SAYS.match(message)
        key = match["key"].rpartition("producer.")[2] if match else ""
        if match and key in SAYS:
            said = match["said"].rstrip(",;")
            yield Quote(where, FILLED if said in _filled(hosts) else key, said, SAYS[key])


#: What is said of linger.ms that is a time which somebody measured for batches to fill.
FILLED = "linger.ms by a fill time"


def _filled(hosts: Hosts) -> set[str]:
    flows = (flow for h in hosts.values() for flow in h.get("mirror_maker_flows", {}).values())
    return {str(flow[key]) for flow in flows for key in ("fill_ms_p95", "fill_ms_p99") if key in flow}


#: What the documents say of a key, whatever the workload.
SAYS: Mapping[str, tuple[str, ...]] = {
    "consumer.request.max.bytes": ("67108864",),  # guide
    "consumer.instance.timeout.ms": ("300000",),  # guide, High Availability
    "fetch.min.bytes": ("-1",),  # guide
    "compression.type": ("gzip",),  # Salesforce, Enable compression
    "linger.ms": ("15000", "30000", "50"),  # Salesforce, Fill message batches; Streams, latency
    "batch.size": (str(MIB),),  # Streams: 1MB
    "cache.bytes": (str(4_096 * MIB),),  # Streams: less than 4GB
    "write.buffer.bytes": (str(16 * MIB),),  # Streams: 16MB * 3 + 50MB
    "write.buffer.count": ("3",),
    "net.ipv4.tcp_congestion_control": ("cubic",),
}


def _sums_in_findings(hosts: Hosts, plan: Plan) -> Iterator[Quote]:
    """Yield the results of the documents' formulas where a finding states them."""
    for finding in plan["findings"]:
        if finding["rule"] == "streams.memory.unbounded":
            app = next(h for h in hosts.values() if "streams_app_stores" in h)
            # Streams: partitions x segments x (16MB * 3 + 50MB); a store without windows has one segment.
            total = sum(
                s.get("count", 1) * s["partitions"] * (1 if s.get("kind") == "key_value" else 3) * 98
                for s in app["streams_app_stores"]
            )
            match = re.search(r"would take (\d+) MB", finding["message"])
            yield Quote(finding["where"], finding["rule"], match[1] if match else "", (str(total),))
        elif finding["rule"] == "topics.replication.latency":
            yield Quote(finding["where"], finding["rule"], *_latency(hosts, plan, finding))


def _latency(hosts: Hosts, plan: Plan, finding: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return what a finding says that replication adds, and (p / b)(r - 1)(20 / 1000) ms (throughput)."""
    match = re.search(
        r"of (\d+) partitions on (\d+) brokers of cluster (\S+) adds about ([\d.]+) ms", finding["message"]
    )
    if match is None:
        return "", ()
    brokers, cluster = int(match[2]), match[3]
    added, copies = 0.0, []
    for topic in plan["topics"].get(cluster, {}).values():
        settings = {s["key"]: s for s in topic["settings"]}
        copies.append(value(settings, "replication.factor", 1))
        added += value(settings, "partitions", 1) / brokers * (copies[-1] - 1) * 20 / 1_000
    about = next(iter(hosts.values()))["kafka_clusters"][cluster]
    others = sorted(copies)[len(copies) // 2] if copies else 1
    added += about.get("other_partitions", 0) / brokers * (others - 1) * 20 / 1_000
    return match[4], (f"{added:.1f}",)


def _documented(hosts: Hosts, plan: Plan) -> Iterator[Quote]:
    """Yield the values of a plan to the letter of the documents, beside their formulas."""
    for service, formula in (
        ("kafka_rest", _proxy),
        ("mirror_maker", _mirror),
        ("streams_app", _application),
    ):
        found = list(processes(plan, service))
        for host, name, settings in found:
            here = sum(h == host for h, _, _ in found)
            for key, expected in formula(hosts[host], settings, here, name).items():
                setting = settings.get(key) or next(
                    (s for k, s in settings.items() if k.endswith(f".{key}")), None
                )
                if setting and setting["by"] == "plan":
                    yield Quote(f"{host} {service}@{name}", key, setting["value"], (str(expected),))


def _proxy(variables: Mapping[str, Any], settings: Settings, count: int, name: str) -> dict[str, Any]:
    load = variables.get("kafka_rest_workload", {})
    heap = 1_024 + 16 * math.ceil(load.get("consumers", 0) / count)
    flags = {} if "kafka_rest_heap_mib" in variables else {"KAFKAREST_HEAP_OPTS": f"-Xms{heap}m -Xmx{heap}m"}
    if variables["kafka_rest_distribution"] != "confluent":
        return {}
    return flags | {
        "consumer.request.max.bytes": 64 * MIB,
        "consumer.threads": max(50, load.get("largest_group", 0) + 1),
        "consumer.instance.timeout.ms": 300_000,
        "consumer.request.timeout.ms": load.get("delivery_latency_ms", 1_000),
        "fetch.min.bytes": -1,
        "producer.buffer.memory": PRODUCER_BUFFER,
    }


def _mirror(variables: Mapping[str, Any], settings: Settings, count: int, name: str) -> dict[str, Any]:
    flow = variables["mirror_maker_flows"][name.rpartition("-")[0]]
    batch = max(1, math.floor(flow.get("max_compression_ratio", 0.05) * flow["max_message_bytes"] + 1e-6))
    said: dict[str, Any] = {"compression.type": "gzip", "batch.size": batch, "MIRROR_NUM_STREAMS": 1}
    if "fill_ms_p95" not in flow and "fill_ms_p99" not in flow:
        said["linger.ms"] = 15_000 if flow.get("priority") == "latency" else 30_000
    return said


def _application(variables: Mapping[str, Any], settings: Settings, count: int, name: str) -> dict[str, Any]:
    # A batch that its brokers refuse is not what the article asks for.
    takes = variables["kafka_clusters"][variables["streams_app_cluster"]].get(
        "message_max_bytes", MESSAGE_MAX
    )
    return {
        "producer.batch.size": min(MIB, takes),
        "producer.linger.ms": 50,
        "cache.bytes": 4_096 * MIB
        if "streams_app_rocksdb_mib" not in variables
        else settings.get("cache.bytes", {}).get("value"),
        "write.buffer.bytes": 16 * MIB,
        "write.buffer.count": 3,
    }
