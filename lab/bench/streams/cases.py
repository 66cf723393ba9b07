"""What is compared: default RocksDB, the plan, bounds around it, and the settings that latency depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.plan import PlannedInstance
from kedge.services.planning import make_plan
from lab.services.application import MAIN_CLASS, SAMPLE_JAR, VERSION, ApplicationInstance

PARTITIONS: Final = 12
RECORD_BYTES: Final = 6000
JOINS: Final = 8
WINDOW_MS: Final = 120_000
GRACE_MS: Final = 60_000
LEFT: Final = "bench-left"
RIGHT: Final = "bench-right"
OUTPUT: Final = "bench-output"
#: As the first measurements had it.
HEAP_MIB: Final = 512
THREADS: Final = 2
LATENCY_MS: Final = 1000
JEMALLOC: Final = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")


def role(changelogs: bool) -> dict[str, Any]:
    """Return the variables of the role streams_app, without their prefix."""
    store = {
        "name": "joins",
        "kind": "join",
        "count": JOINS,
        "partitions": PARTITIONS,
        "window_ms": WINDOW_MS,
        "grace_ms": GRACE_MS,
        "record_bytes": RECORD_BYTES,
        "changelog": changelogs,
    }
    return {
        "name": "bench",
        "main_class": MAIN_CLASS,
        "jars": [{"path": str(SAMPLE_JAR)}],
        "version": VERSION,
        "cluster": "leaf",
        "record_bytes": RECORD_BYTES,
        "latency_ms": LATENCY_MS,
        "output_partitions": PARTITIONS,
        "threads": THREADS,
        "heap_mib": HEAP_MIB,
        "stores": [store],
    }


@dataclass(frozen=True)
class Case:
    """One way to run the sample.

    ``variables`` are of the role streams_app, over those of the bench; ``properties`` go over what the plan
    says. ``bounded`` False leaves RocksDB as Kafka Streams sets it up.
    """

    variables: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    bounded: bool = True

    def instance(self, changelogs: bool) -> PlannedInstance:
        """Return the planned instance, of one host that carries all partitions."""
        own = {**role(changelogs), **self.variables}
        variables: dict[str, Any] = {f"streams_app_{key}": value for key, value in own.items()}
        variables |= {"advice": "measured", "host_cores": 2, "host_memory_mib": 16_384}
        variables["kafka_clusters"] = {
            "leaf": {"version": VERSION, "bootstrap_servers": "leaf:9092", "broker_count": 1}
        }
        plan = make_plan(Inventory({"here": variables}, {"streams_app": ("here",)}))
        (instance,) = plan.services["here"]["streams_app"]
        return instance

    def application(self, group: str, left: str, right: str, *, changelogs: bool) -> ApplicationInstance:
        """Return it to be run under a group of its own, from the begin of its input."""
        instance = self.instance(changelogs)
        return ApplicationInstance(
            instance,
            properties={
                "application.id": group,
                "replication.factor": "1",
                "main.consumer.auto.offset.reset": "earliest",
                **self.properties,
            },
            environment={
                "SAMPLE_LEFT": left,
                "SAMPLE_RIGHT": right,
                "SAMPLE_OUTPUT": OUTPUT,
                "SAMPLE_JOINS": str(JOINS),
                "SAMPLE_WINDOW_MS": str(WINDOW_MS),
                "SAMPLE_GRACE_MS": str(GRACE_MS),
                "SAMPLE_CHANGELOGS": str(changelogs).lower(),
                # The whole heap is then part of the RSS, and what lies beside it is no guess.
                "JAVA_TOOL_OPTIONS": "-XX:+AlwaysPreTouch",
            },
            bounded=self.bounded,
        )


STOCK: Final = {"defaults": Case(bounded=False)}
PLANNED: Final = {"planned": Case()}


def _bounded(mib: int, buffer_mib: int) -> dict[str, Case]:
    """Return a case by its name, with a bound and write buffers of its own."""
    own = {"rocksdb_mib": mib, "rocksdb": {"write.buffer.bytes": buffer_mib << 20}}
    return {f"{mib} MiB, buffers of {buffer_mib} MiB": Case(own)}


#: By the bound in MiB: with write buffers of a writing database's share, and with those of Kafka Streams.
BOUNDS: Final = {**_bounded(512, 2), **_bounded(1024, 4)}
BUFFERS: Final = {
    name: case for mib in (256, 512, 1024, 2048, 3072) for name, case in _bounded(mib, 16).items()
}
CURVE: Final = {**STOCK, **PLANNED, **BOUNDS, **BUFFERS}
#: With the defaults at both ends, whose difference is what a difference between cases has to exceed.
OVER_TIME: Final = {
    **STOCK,
    **PLANNED,
    **_bounded(2048, 8),
    "planned with jemalloc": Case({"jemalloc": str(JEMALLOC)}),
    "defaults again": Case(bounded=False),
}


def is_large(name: str) -> bool:
    """Tell whether a case has the write buffers of Kafka Streams, by its name."""
    return name.endswith("buffers of 16 MiB")


def _sending(batch_bytes: int, linger_ms: int) -> Case:
    return Case(
        properties={"producer.batch.size": str(batch_bytes), "producer.linger.ms": str(linger_ms)},
    )


LATENCY: Final = {
    **PLANNED,
    **STOCK,
    "batch 16 kB, linger 0 ms": _sending(16_384, 0),
    "batch 1 MB, linger 0 ms": _sending(1 << 20, 0),
    "commit 30 s": Case(properties={"commit.interval.ms": "30000"}),
    "commit 100 ms": Case(properties={"commit.interval.ms": "100"}),
    "batch 16 kB, linger 50 ms": _sending(16_384, 50),
    "batch 128 kB, linger 10 ms": _sending(131_072, 10),
}


def of_part(part: str) -> Mapping[str, Case]:
    """Return the cases of a part by name; one that preloads jemalloc only where this machine has it."""
    found = {"curve": CURVE, "time": OVER_TIME, "latency": LATENCY, "restore": PLANNED}[part]
    return {name: case for name, case in found.items() if "jemalloc" not in name or JEMALLOC.is_file()}
