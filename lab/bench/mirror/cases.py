"""What is compared: defaults, each measure alone, the documents' plan, the measured plan, and codecs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.settings import MIB
from kedge.services.planning import make_plan
from lab.bench.mirror.steady import SETTLE_S

#: What only a place can say; every case gets it from the bench.
_OF_THE_PLACE: Final = ("bootstrap.servers", "client.id", "group.id")
FLOW: Final = "bench"
PROCESSES: Final = (1, 2, 4)
_FEW_PARTITIONS: Final = 4
#: More JVMs a core are still starting when the first have mirrored all that there is.
_JVMS_A_CORE: Final = 4
#: As many share that core, so they compile for longer until they are as fast as they become.
_CROWDED_SETTLE_S: Final = 10.0
#: By so much a batch a producer lowers its expectation, which begins at 1: Kafka's CompressionRatioEstimator.
_LEARNT_A_BATCH: Final = 0.005
#: It counts from where batches are expected to become so many times smaller; these records become 7 times.
_LEARNT_RATIO: Final = 10.0
_BATCH_BYTES: Final = 16_384  # default of batch.size
_DEFAULT_BUFFER: Final = 32 * MIB  # of buffer.memory
#: Of a batch to its records, where nobody has measured it: the default of max_compression_ratio.
NAIVE_RATIO: Final = 0.05
CODECS: Final = ("gzip", "lz4", "zstd")


@dataclass(frozen=True)
class Case:
    """One way to run a flow: properties beside those of the place, and where it runs if not as the others do.

    ``round_trip_ms``, the ``partitions`` of the target, and the ``cores`` that its processes share are None
    where they are the bench's.
    ``worker`` are the properties of MirrorMaker 2, empty for classic. ``settle_s`` and ``settle_bytes`` pass
    between the last process that joins and the first second that counts.
    """

    processes: int = 1
    producer: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)
    heap_mib: int = 256  # default of Kafka's tools
    round_trip_ms: float | None = None
    partitions: int | None = None
    cores: int | None = None
    settle_s: float = SETTLE_S

    @property
    def settle_bytes(self) -> float:
        """Bytes of keys and values after which each producer knows how its batches compress, and fills them.

        Until its expectation is r, the batches it fills hold batch.size / r: that, added up over all steps.
        """
        if self.producer.get("compression.type", "none") == "none":
            return 0.0
        batch = float(self.producer.get("batch.size", _BATCH_BYTES))
        return self.processes * batch / _LEARNT_A_BATCH * math.log(_LEARNT_RATIO)


def measures(processes: int) -> dict[str, Case]:
    """Return defaults and each measure of the article alone."""
    return {
        "defaults": Case(),
        "gzip": Case(producer={"compression.type": "gzip"}),
        "linger and batch": Case(producer={"batch.size": "50000", "linger.ms": "15000"}),
        f"{processes} processes": Case(processes),
        "buffer memory": Case(producer={"buffer.memory": str(128 << 20)}, heap_mib=512),
        "socket buffers": Case(producer={"send.buffer.bytes": "-1"}, consumer={"receive.buffer.bytes": "-1"}),
    }


def planned(
    partitions: int,
    round_trip_ms: float,
    cores: int,
    advice: str,
    mm2: Mapping[str, Any] | None = None,
    ratio: float = NAIVE_RATIO,
) -> Case:
    """Return what the plan gives one host for the flow; ``documented`` is the article.

    ``mm2`` is more of the flow, which MirrorMaker 2 then carries; ``ratio`` its max_compression_ratio.

    Raises:
        ValueError: with the plan's errors.
    """
    kind, version = ("classic", "3.9.2") if mm2 is None else ("mirror_maker_2", "4.3.1")
    variables: dict[str, Any] = {
        "advice": advice,
        "host_cores": cores,
        "host_memory_mib": 32_768,
        "kafka_clusters": {
            name: {"version": "4.3.1", "bootstrap_servers": f"{name}:9092", "broker_count": 1}
            for name in ("leaf", "agg")
        },
        "mirror_maker_kind": kind,
        "mirror_maker_version": version,
        "mirror_maker_flows": {
            FLOW: {
                "source": "leaf",
                "target": "agg",
                "topics": ["bench"],
                "priority": "latency",
                "latency_budget_ms": 60_000,
                "round_trip_ms": round_trip_ms,
                "largest_topic_partitions": partitions,
                "target_partitions": partitions,
                "max_message_bytes": 1_000_000,
                "max_compression_ratio": ratio,
                **(mm2 or {}),
            }
        },
    }
    plan = make_plan(Inventory({"here": variables}, {"mirror_maker": ("here",)}))
    errors = [finding.message for finding in plan.findings if finding.severity == "error"]
    if errors:
        raise ValueError("; ".join(errors))
    instances = plan.services["here"]["mirror_maker"]
    files: dict[str, dict[str, str]] = {
        "producer.properties": {},
        "consumer.properties": {},
        "mm2.properties": {},
    }
    heap = ""
    for setting in instances[0].settings:
        name = setting.file.rpartition("/")[2]
        if name in files and setting.key not in _OF_THE_PLACE:
            files[name][setting.key] = setting.value
        if setting.key == "KAFKA_HEAP_OPTS":
            heap = setting.value
    mib = int(heap.rpartition("-Xmx")[2].removesuffix("m"))
    return Case(
        len(instances),
        files["producer.properties"],
        files["consumer.properties"],
        files["mm2.properties"],
        mib,
    )


def all_cases(
    partitions: int, round_trip_ms: float, cores: int, processes: int = 4, ratio: float = 0.1
) -> dict[str, Case]:
    """Return every case by its name; the codecs are those of the planned case.

    ``ratio`` is the best that batches of the workload compress, which the last case has been told.
    The article has a process for each partition; of them this machine gets as many as its cores can start.
    """
    plan = planned(partitions, round_trip_ms, cores, "measured")
    codecs = {
        f"planned with {codec}": with_codec(plan, codec)
        for codec in CODECS
        if codec != plan.producer["compression.type"]
    }
    article = planned(partitions, round_trip_ms, cores, "documented")
    article = replace(
        article, processes=min(article.processes, _JVMS_A_CORE * cores), settle_s=_CROWDED_SETTLE_S
    )
    told = planned(partitions, round_trip_ms, cores, "measured", ratio=ratio)
    cases = {**measures(processes), "article": article, "planned": plan, **codecs}
    return {**cases, "planned, ratio known": told}


def with_codec(plan: Case, codec: str) -> Case:
    """Return a case with another codec, and nothing else changed."""
    return replace(plan, producer={**plan.producer, "compression.type": codec})


def by_transactions(partitions: int, round_trip_ms: float, cores: int) -> dict[str, Case]:
    """Return MirrorMaker 2 exactly once, by Connect's default and as planned, and planned at least once."""
    flow = {"replication_policy": "identity", "latency_budget_ms": 5000}
    once = planned(partitions, round_trip_ms, cores, "measured", flow | {"exactly_once": True})
    by_poll = {key: value for key, value in once.worker.items() if ".transaction.boundary" not in key}
    cases = {
        "by poll": replace(once, worker=by_poll),
        "by interval": once,
        "at least once": planned(partitions, round_trip_ms, cores, "measured", flow),
    }
    return {name: replace(case, settle_s=_CROWDED_SETTLE_S) for name, case in cases.items()}


def by_buffers(partitions: int, round_trip_ms: float, cores: int) -> dict[str, Case]:
    """Return MirrorMaker 2 with the planned buffer of a task's producer, and with Kafka's default of 32 MiB.

    With a task for each partition, with two tasks, and with two whose batches are ten times as large.
    """
    cases = {}
    for line, tasks, ratio in (
        ("a task each", partitions, NAIVE_RATIO),
        ("2 tasks", 2, NAIVE_RATIO),
        ("2 tasks, large batches", 2, 10 * NAIVE_RATIO),
    ):
        flow = {"replication_policy": "identity", "settings": {"tasks.max": str(tasks)}}
        plan = planned(partitions, round_trip_ms, cores, "measured", flow, ratio)
        more = {"agg.producer.buffer.memory": str(_DEFAULT_BUFFER)}
        heap = plan.heap_mib + tasks * _DEFAULT_BUFFER // MIB
        for buffer, case in (("planned", plan), ("32 MiB", replace(plan, worker={**plan.worker, **more}))):
            cases[f"{line}, {buffer}"] = replace(case, heap_mib=heap, settle_s=_CROWDED_SETTLE_S)
    return cases


def by_processes(partitions: int, round_trip_ms: float, cores: int) -> dict[str, Case]:
    """Return defaults and the plan with more and more processes: far, near, few partitions, one core.

    Near, the plan is bound by cores alone; defaults waits for answers, whatever cores it has.
    """
    defaults, plan = Case(), planned(partitions, round_trip_ms, cores, "measured")
    far, few = f"{round_trip_ms:g} ms", f"{round_trip_ms:g} ms, {_FEW_PARTITIONS} partitions"
    lines = {
        f"defaults, {far}": defaults,
        "defaults, 0 ms": replace(defaults, round_trip_ms=0.0),
        f"defaults, {few}": replace(defaults, partitions=_FEW_PARTITIONS),
        f"planned, {far}": plan,
        f"planned, {few}": replace(plan, partitions=_FEW_PARTITIONS),
        f"planned, {far}, 1 core": replace(plan, cores=1),
    }
    return {
        f"{line}, {count}": replace(case, processes=count)
        for line, case in lines.items()
        for count in PROCESSES
    }
