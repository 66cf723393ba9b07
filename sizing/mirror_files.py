"""The settings of a mirror process: what its files hold, classic MirrorMaker and MirrorMaker 2."""

from __future__ import annotations

import math
from typing import Final

from sizing import jvm
from sizing.keys import numbers
from sizing.mirror_flows import consumer_group, offsets_topic, worker_group
from sizing.mirror_producer import (
    ARTICLE,
    CLASSIC,
    NUMBER,
    SET_BY_MIRRORS,
    UNIT,
    Flow,
    plan_login,
    plan_producer,
    socket_buffer,
    spare_ms,
)
from sizing.model import MIB, Choice, Finding, Setting, Sheet
from sizing.profiled import put_profile
from sizing.rollout import put_stop
from sizing.values import value_of

OFFSET_COMMIT_MS: Final = 60_000  # default of --offset.commit.interval.ms
_MM2: Final = "Kafka documentation, Geo-Replication"
_FETCHED_MIB: Final = 100  # fetch.max.bytes is 50 MiB: as it came, and unpacked
_THREADS: Final = 512  # a JVM has a few for each core and a client three; hosts have at most some dozens
#: Of MirrorMaker 2: the task, its producer, consumer, offset syncs and their heartbeats.
_THREADS_A_TASK: Final = 8
_BASE_MIB: Final = 256  # default heap of Kafka's tools
_BESIDE_HEAP_MIB: Final = 256  # metaspace, code, threads and direct buffers of a client JVM
#: What zstd keeps outside the heap for a batch that is open: 2 MiB of window and the tables of its level 3.
_ZSTD_BATCH_MIB: Final = 3.5
_POLL_RECORDS: Final = 500  # default of max.poll.records
_TRANSACTION_MS: Final = 30_000  # half of the default of transaction.timeout.ms
_REBALANCE_DELAY_MS: Final = 300_000  # default of scheduled.rebalance.max.delay.ms

#: Stands for the address of the host that a process runs on.
ADDRESS: Final = "\x01"

Planned = tuple[list[Setting], list[Finding]]


def classic(flow: Flow) -> Planned:
    """Return the settings and findings of a classic process."""
    consumer = flow.sheet(flow.flow.consumer_settings)
    _consumer(consumer, flow)
    producer = flow.sheet(flow.flow.producer_settings)
    buffer = plan_producer(producer, flow, f"{flow.folder}/producer.properties", "")
    environment = flow.sheet(flow.flow.environment)
    _arguments(environment, flow)
    codec = value_of(producer, "compression.type")
    _jvm(environment, flow, *_heap(flow, buffer), tasks=1, codec=codec)
    return _together(consumer, producer, environment)


def mirror_maker_2(flow: Flow) -> Planned:
    """Return the settings and findings of a MirrorMaker 2 process in dedicated mode."""
    own = {f"{flow.flow.target}.producer.{k}": v for k, v in flow.flow.producer_settings.items()}
    own |= {f"{flow.flow.source}.consumer.{k}": v for k, v in flow.flow.consumer_settings.items()}
    sheet = flow.sheet(own | dict(flow.flow.settings))
    file = f"{flow.folder}/mm2.properties"
    _connect(sheet, flow, file)
    buffer = plan_producer(sheet, flow, file, f"{flow.flow.target}.producer.")
    prefix = f"{flow.flow.source}.consumer."
    put_profile(sheet, file, prefix, "consumer", flow.flow.profile, flow.version, SET_BY_MIRRORS)
    sheet.rest_of_own(file, "mirror.own")
    environment = flow.sheet(flow.flow.environment)
    because = "only this target's workers: the other direction is no flow"
    environment.put(
        f"{flow.folder}/environment",
        "MIRROR_CLUSTERS",
        "mirror.flow",
        Choice(flow.flow.target, because, _MM2),
    )
    # Tasks keep the partition numbers of the source: over all of them, a batch and a fetch a partition.
    fetched = math.ceil(flow.limits.source_partitions * 2)
    because = (
        f"an estimated {_BASE_MIB} MiB, buffers of {buffer // MIB} MiB and twice 1 MiB fetched for each of "
        f"{flow.limits.source_partitions} partitions, as if one process ran all tasks"
    )
    mib = _round(_BASE_MIB + buffer // MIB + fetched)
    codec = value_of(sheet, f"{flow.flow.target}.producer.compression.type")
    _jvm(environment, flow, mib, because, buffer // MIB, tasks=flow.limits.largest, codec=codec)
    return _together(sheet, environment)


def _together(*sheets: Sheet) -> Planned:
    return [s for sheet in sheets for s in sheet.settings], [f for sheet in sheets for f in sheet.findings]


def _consumer(sheet: Sheet, flow: Flow) -> None:
    file = f"{flow.folder}/consumer.properties"

    def put(key: str, rule: str, value: str | int, because: str, source: str = CLASSIC) -> None:
        sheet.put(file, key, f"mirror.consumer.{rule}", Choice(value, because, source))

    put("bootstrap.servers", "cluster", flow.source_servers, f"the brokers of cluster {flow.flow.source}")
    put("group.id", "group", consumer_group(flow.name), "all processes of the flow share one group")
    if str(flow.flow.environment.get("MIRROR_NUM_STREAMS", 1)) == "1":
        put(
            "group.instance.id",
            "member",
            f"{flow.name}-{NUMBER}",
            "a process that is back within session.timeout.ms, after a restart or a crash, goes on with its "
            "own partitions; without it all wait for a dead member's session before anyone mirrors again",
            "KIP-345, static membership",
        )
    put(
        "partition.assignment.strategy",
        "assignor",
        "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "spreads the partitions of all topics evenly over the processes; without one it warns at each start",
    )
    put(
        "auto.offset.reset",
        "offset",
        "earliest",
        "a new flow mirrors what is there; latest would leave it out",
    )
    socket_buffer(sheet, flow, file, "receive.buffer.bytes", "mirror.consumer.socket", "64 KiB")
    put_profile(sheet, file, "", "consumer", flow.flow.profile, flow.version, SET_BY_MIRRORS)
    plan_login(sheet, flow, "source", file, "")
    sheet.rest_of_own(file, "mirror.own")
    if value_of(sheet, "enable.auto.commit") == "true":
        sheet.error(
            "mirror.consumer.commit",
            f"consumer_settings of flow {flow.name} set enable.auto.commit: records read and not yet "
            "mirrored would be lost with the process",
            "take it out: MirrorMaker commits after its producer has flushed",
        )


def _heap(flow: Flow, buffer: int) -> tuple[int, str, int]:
    mib = _round(_BASE_MIB + buffer // MIB + _FETCHED_MIB)
    because = (
        f"an estimated {_BASE_MIB} MiB, a producer buffer of {buffer // MIB} MiB, and {_FETCHED_MIB} MiB for "
        "a fetch of 50 MiB and what it unpacks to"
    )
    return mib, because, buffer // MIB


def _round(mib: float) -> int:
    return math.ceil(mib / 64) * 64


def _jvm(
    sheet: Sheet, flow: Flow, mib: int, because: str, buffer_mib: int, *, tasks: int, codec: str
) -> None:
    own_mib = flow.flow.heap_mib
    file = f"{flow.folder}/environment"
    logs = f"/var/log/{UNIT}/{flow.name}-{NUMBER}"
    heap = own_mib or mib
    if own_mib:
        planned = f"set in the inventory; the plan would have said {mib} MiB: {because}"
        setting = Setting(
            file, "KAFKA_HEAP_OPTS", jvm.heap(heap), "mirror.heap", planned, "the inventory", "person"
        )
        sheet.settings.append(setting)
        if heap < buffer_mib + 128:
            sheet.error(
                "mirror.heap",
                f"mirror_maker_flows.{flow.name}.heap_mib is {heap}, and the producer's buffer alone takes "
                f"{buffer_mib} MiB",
                f"set heap_mib to {mib}, or leave it out",
            )
    else:
        source = f"{ARTICLE}, Enough buffer memory for all the partitions"
        sheet.put(file, "KAFKA_HEAP_OPTS", "mirror.heap", Choice(jvm.heap(heap), because, source))
    flags = f"{jvm.KAFKA_G1} {jvm.gc_log(logs)}"
    start = "kafka-run-class.sh of Kafka 4.3"
    sheet.put(file, "KAFKA_JVM_PERFORMANCE_OPTS", "mirror.gc",
              Choice(flags, "the flags that Kafka's own start script sets", start))  # fmt: skip
    sheet.put(file, "LOG_DIR", "mirror.logs", Choice(logs, "one log folder a process", start))
    old = numbers(flow.version) < (4,)
    properties = f"{flow.folder}/{'log4j' if old else 'log4j2'}.properties"
    option = f"-Dlog4j.configuration=file:{properties}" if old else f"-Dlog4j2.configurationFile={properties}"
    sheet.put(file, "KAFKA_OPTS", "mirror.logging", Choice(option, "logs go to the journal", "log4j manual"))
    sheet.rest_of_own(file, "mirror.own")
    if old:
        _log4j1(sheet, properties)
    else:
        jvm.console_logging(sheet, properties, "mirror")
    _progress_logging(sheet, flow, properties, old)
    zstd = math.ceil(_ZSTD_BATCH_MIB * flow.limits.target_partitions) if codec == "zstd" else 0
    limit = heap + _BESIDE_HEAP_MIB + zstd
    unit = f"/etc/systemd/system/{UNIT}@{flow.name}-{NUMBER}.service.d/10-kedge.conf"
    because = (
        f"heap of {heap} MiB and an estimated {_BESIDE_HEAP_MIB} MiB for metaspace, code, threads and direct "
        "buffers"
    )
    if zstd:
        because += f"; an estimated {zstd} MiB for zstd, which compresses a batch for each target partition"
    sheet.put(unit, "MemoryMax", "mirror.memory", Choice(f"{limit}M", because, "systemd.resource-control(5)"))
    because = "mirror_maker_open_files: jars, logs and a connection to each broker, with much to spare"
    files = Choice(flow.open_files, because, "the inventory")
    sheet.put(unit, "LimitNOFILE", "mirror.files", files)
    because = (
        f"{_THREADS} for the JVM and its clients, {_THREADS_A_TASK} for each of {tasks} tasks that one "
        "process may come to run: a bound on a leak, an estimate"
    )
    threads = Choice(_THREADS + _THREADS_A_TASK * tasks, because, "systemd.resource-control(5)")
    sheet.put(unit, "TasksMax", "mirror.threads", threads)
    because = "its producer sends what it holds before it commits; what is killed is mirrored a second time"
    put_stop(sheet, unit, "mirror_maker", flow.stop_seconds, because, "kafka.tools.MirrorMaker of Kafka 3.9")


def _log4j1(sheet: Sheet, file: str) -> None:
    because = "the journal keeps, rotates and bounds what a service prints"
    for key, value in (
        ("log4j.rootLogger", "INFO, stdout"),
        ("log4j.appender.stdout", "org.apache.log4j.ConsoleAppender"),
        ("log4j.appender.stdout.layout", "org.apache.log4j.PatternLayout"),
        ("log4j.appender.stdout.layout.ConversionPattern", "%p %c{1}: %m%n"),
    ):
        sheet.put(file, key, "mirror.logging", Choice(value, because, "reload4j manual"))


def _progress_logging(sheet: Sheet, flow: Flow, file: str, old: bool) -> None:
    """Have each commit in the journal: by it a start is known to have come to what it is for."""
    if flow.classic:
        logger, level = "kafka.tools.MirrorMaker$", "TRACE"
        because = "a line for each commit of what the target has acknowledged: readiness is read from it"
    else:
        logger, level = "org.apache.kafka.connect.runtime.WorkerSourceTask", "DEBUG"
        because = "a line for each commit of a task, also of nothing: readiness is read from it"
    keys = (
        {f"log4j.logger.{logger}": level}
        if old
        else {"logger.progress.name": logger, "logger.progress.level": level.lower()}
    )
    for key, value in keys.items():
        sheet.put(file, key, "mirror.ready", Choice(value, because, "the source of Kafka 3.9 and 4.3"))


def _arguments(sheet: Sheet, flow: Flow) -> None:
    file = f"{flow.folder}/environment"

    def put(key: str, rule: str, value: str | int, because: str, source: str = CLASSIC) -> str:
        return sheet.put(file, key, f"mirror.{rule}", Choice(value, because, source)) or ""

    put("MIRROR_INCLUDE", "flow", "|".join(flow.flow.topics), "the topics of the flow, as one expression")
    parallel = f"{ARTICLE}, Increase parallelism"
    because = (
        "one consumer a process, so that a topic's partitions spread over the processes and their producers"
    )
    streams = put("MIRROR_NUM_STREAMS", "streams", 1, because, parallel)
    if streams != "1":
        sheet.warning(
            "mirror.streams",
            f"MIRROR_NUM_STREAMS of flow {flow.name} is {streams}: its streams share one producer",
            "set it to 1 and use more processes",
        )
    sheet.put(file, "MIRROR_OFFSET_COMMIT_INTERVAL_MS", "mirror.commit", commit_interval(flow))
    abort = put(
        "MIRROR_ABORT_ON_SEND_FAILURE",
        "abort",
        "true",
        "a record that can't be sent ends the process; false would drop it and go on",
    )
    if abort != "true":
        sheet.error(
            "mirror.abort",
            f"MIRROR_ABORT_ON_SEND_FAILURE of flow {flow.name} is {abort}: records that fail are dropped",
            "set it to true",
        )


def commit_interval(flow: Flow) -> Choice:
    """Return how often offsets are committed, in milliseconds: the latency budget, the default at most."""
    budget = flow.flow.latency_budget_ms
    if flow.advice == "documented" or budget >= OFFSET_COMMIT_MS:
        because = "the default; each commit flushes the producer, so linger.ms above it has no effect"
        return Choice(OFFSET_COMMIT_MS, because, CLASSIC)
    because = (
        f"the latency budget of {budget} ms: the lag that a restart waits for is seen that often, and a "
        "process that is killed repeats at most what it mirrored since; an estimate, not measured"
    )
    return Choice(budget, because, f"mirror_maker_flows.{flow.name}.latency_budget_ms")


def _connect(sheet: Sheet, flow: Flow, file: str) -> None:
    spec, limits = flow.flow, flow.limits
    here, there = spec.source, spec.target

    def put(key: str, rule: str, value: str | int, because: str, source: str = _MM2) -> None:
        sheet.put(file, key, f"mirror.{rule}", Choice(value, because, source))

    put("clusters", "flow", f"{here}, {there}", "source and target")
    put(f"{here}.bootstrap.servers", "cluster", flow.source_servers, f"the brokers of cluster {here}")
    put(f"{there}.bootstrap.servers", "cluster", flow.target_servers, f"the brokers of cluster {there}")
    # What stands under a cluster's name holds for all clients of it, those of the workers among them.
    plan_login(sheet, flow, "source", file, f"{here}.")
    plan_login(sheet, flow, "target", file, f"{there}.")
    put(f"{here}->{there}.enabled", "flow", "true", "the direction of the flow")
    put(f"{here}->{there}.topics", "flow", ",".join(spec.topics), "the topics of the flow")
    put(f"{there}->{here}.enabled", "flow", "false", "no flow goes back")
    put(f"{there}->{here}.emit.heartbeats.enabled", "flow", "false", "no heartbeats go back either")
    put(
        "tasks.max",
        "tasks",
        limits.largest,
        f"a task, with a producer of its own, for each of the largest topic's {limits.largest} partitions",
        f"{ARTICLE}, Increase parallelism",
    )
    because = "flows between the same clusters are workers apart; by default they would share one group"
    put(f"{there}.group.id", "group", worker_group(flow.name), because)
    for kind, topic in (
        ("offset", offsets_topic(flow.name)),
        ("config", f"mm2-configs.{flow.name}.internal"),
        ("status", f"mm2-status.{flow.name}.internal"),
    ):
        put(
            f"{kind}.storage.topic", "group", topic, "the workers' own topic, apart from those of other flows"
        )
    for key, copies, where in (
        ("replication.factor", limits.target_copies, there),
        ("checkpoints.topic.replication.factor", limits.target_copies, there),
        ("heartbeats.topic.replication.factor", limits.target_copies, there),
        ("offset-syncs.topic.replication.factor", limits.source_copies, here),
        ("offset.storage.replication.factor", limits.target_copies, there),
        ("status.storage.replication.factor", limits.target_copies, there),
        ("config.storage.replication.factor", limits.target_copies, there),
    ):
        put(key, "replication", copies, f"what the brokers of cluster {where} can hold, 3 at most")
    policy = (
        "IdentityReplicationPolicy" if spec.replication_policy == "identity" else "DefaultReplicationPolicy"
    )
    named = (
        "the source's own name"
        if spec.replication_policy == "identity"
        else f"a name that begins with {here}."
    )
    put(
        "replication.policy.class",
        "policy",
        f"org.apache.kafka.connect.mirror.{policy}",
        f"replication_policy is {spec.replication_policy}: a target topic has {named}",
    )
    put(
        "dedicated.mode.enable.internal.rest",
        "rest",
        "true",
        "workers forward changes of tasks to their leader",
    )
    put("listeners", "rest", f"http://{ADDRESS}:0", "any free port of this host, for the other workers only")
    delay = min(_REBALANCE_DELAY_MS, max(10_000, spec.latency_budget_ms // 2))
    because = (
        "tasks of a worker that went wait this long for it: half of the latency budget of "
        f"{spec.latency_budget_ms} ms, 10 s at least, the default of 5 minutes at most"
    )
    put(f"{there}.scheduled.rebalance.max.delay.ms", "rebalance", delay, because)
    sheet.put(file, f"{there}.offset.flush.interval.ms", "mirror.commit", commit_interval(flow))
    put(
        f"{here}.consumer.group.id",
        "migration",
        consumer_group(flow.name),
        "a partition of which no offset is known here begins where the flow's classic processes committed; "
        "nothing is committed to the group",
        "MirrorSourceTask of Kafka, read in its source; not run",
    )
    socket_buffer(
        sheet, flow, file, f"{here}.consumer.receive.buffer.bytes", "mirror.consumer.socket", "64 KiB"
    )
    if spec.exactly_once:
        because = "exactly_once is true"
        put(f"{there}.exactly.once.source.support", "exactly_once", "enabled", because)
        put(f"{here}.consumer.isolation.level", "exactly_once", "read_committed", because)
        _transactions(sheet, flow, file)


def _transactions(sheet: Sheet, flow: Flow, file: str) -> None:
    """Plan how long a transaction of an exactly-once task is: what is in it is seen when it ends."""
    spec = flow.flow
    keys = f"{spec.source}->{spec.target}.transaction.boundary"
    because = (
        f"by default one ends with each poll, of {_POLL_RECORDS} records at most, and takes some round "
        f"trips of {spec.round_trip_ms:g} ms in which its task sends nothing"
    )
    source = "KIP-618; TransactionBoundary of Kafka Connect"
    sheet.put(file, keys, "mirror.transactions", None, Choice("interval", because, source))
    half = max(1, math.floor(spare_ms(spec) / 2))
    because = (
        f"half of what the latency budget of {spec.latency_budget_ms} ms leaves, since records are seen when "
        f"their transaction ends; {_TRANSACTION_MS} ms at most, half of the time after which a broker ends it"
    )
    value = Choice(min(half, _TRANSACTION_MS), because, source)
    sheet.put(file, f"{keys}.interval.ms", "mirror.transactions", None, value)
