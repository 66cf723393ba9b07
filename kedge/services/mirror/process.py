"""What both kinds of mirror process have: their environment, logging and unit; and a classic one's files."""

from __future__ import annotations

from typing import Final

from kedge.plan import jvm_flags
from kedge.plan.findings import Finding
from kedge.plan.inventory.security import ALLOWED, WHY_ALLOWED, java_option
from kedge.plan.metrics import plan_agent
from kedge.plan.service import put_stop
from kedge.plan.settings import MIB, Choice, Setting, Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.plan.variables import basis_of
from kedge.plan.version_numbers import numbers
from kedge.services.mirror.clients import plan_consumer, plan_producer
from kedge.services.mirror.flow import (
    ARTICLE,
    CLASSIC,
    FROM_PORT,
    NUMBER,
    UNIT,
    Flow,
    commit_interval,
    securities_of,
)
from kedge.services.mirror.memory import (
    BASE_MIB,
    check_held,
    fetched_mib,
    heap_of,
    put_heap,
    put_memory_limit,
)
from kedge.services.mirror.variables import MirrorMaker

_THREADS: Final = 512  # a JVM has a few for each core and a client three; hosts have at most some dozens
#: Of MirrorMaker 2: the task, its producer, consumer, offset syncs and their heartbeats.
_THREADS_A_TASK: Final = 8

SettingsAndFindings = tuple[list[Setting], list[Finding]]


def together(*sheets: Sheet) -> SettingsAndFindings:
    """Return the settings and findings of all sheets of a process."""
    return [s for sheet in sheets for s in sheet.settings], [f for sheet in sheets for f in sheet.findings]


def put_jvm(
    sheet: Sheet, flow: Flow, mib: int, because: str, buffer_mib: int, *, tasks: int, codec: str
) -> int:
    """Plan the environment, the logging and the unit of a process; return its heap in MiB.

    Args:
        sheet: takes them; its own settings are those of the environment.
        flow: what the process does.
        mib: the heap that is planned, and ``because`` why.
        because: see ``mib``.
        buffer_mib: what of the heap its producers' buffers take.
        tasks: how many tasks it may come to run.
        codec: compression.type of its producers.
    """
    file = f"{flow.folder}/environment"
    logs = f"/var/log/{UNIT}/{flow.name}-{NUMBER}"
    heap = put_heap(sheet, flow, file, mib, because, buffer_mib)
    collector = f"{jvm_flags.KAFKA_G1} {jvm_flags.gc_log(logs, flow.java)}"
    start = "kafka-run-class.sh of Kafka 4.3"
    gc = Choice(collector, "the flags that Kafka's own start script sets", start, "documented")
    sheet.put(file, "KAFKA_JVM_PERFORMANCE_OPTS", "mirror.gc", gc)
    sheet.put(file, "LOG_DIR", "mirror.logs", Choice(logs, "one log folder a process", start, "derived"))
    old = numbers(flow.version) < (4,)
    properties = f"{flow.folder}/{'log4j' if old else 'log4j2'}.properties"
    option = f"-Dlog4j.configuration=file:{properties}" if old else f"-Dlog4j2.configurationFile={properties}"
    _options(sheet, flow, file, option)
    sheet.rest_of_own(file, "mirror.own")
    if old:
        _log4j1(sheet, properties)
    else:
        jvm_flags.console_logging(sheet, properties, "mirror")
    _progress_logging(sheet, flow, properties, old)
    least = 17 if numbers(flow.version) >= (4,) else 8
    jvm_flags.check_flags(sheet, flow.flow.environment, least, flow.java, f"MirrorMaker {flow.version}")
    unit = f"/etc/systemd/system/{UNIT}@{flow.name}-{NUMBER}.service.d/10-kedge.conf"
    put_memory_limit(sheet, flow, unit, heap, codec)
    because = "jars, logs and a connection to each broker, with much to spare"
    files = Choice(
        flow.open_files,
        because,
        "the inventory",
        basis_of(MirrorMaker, "open_files", flow.open_files, "estimate"),
    )
    sheet.put(unit, "LimitNOFILE", "mirror.files", files)
    because = (
        f"{_THREADS} for the JVM and its clients, {_THREADS_A_TASK} for each of {tasks} tasks that one "
        "process may come to run: a bound on a leak, an estimate"
    )
    threads = Choice(_THREADS + _THREADS_A_TASK * tasks, because, "systemd.resource-control(5)", "estimate")
    sheet.put(unit, "TasksMax", "mirror.threads", threads)
    because = (
        "the producer sends what it holds before it commits; a kill before that mirrors it a second time"
    )
    put_stop(
        sheet,
        unit,
        "mirror_maker",
        flow.stop_seconds,
        because,
        "kafka.tools.MirrorMaker of Kafka 3.9",
        basis_of(MirrorMaker, "stop_seconds", flow.stop_seconds, "estimate"),
    )
    return heap


def _options(sheet: Sheet, flow: Flow, file: str, logging: str) -> None:
    """Plan further JVM flags, to which a person's own are added."""
    agent, allowed = _agent(sheet, flow), java_option(*securities_of(flow))
    flags = {"-Dlog4j": logging, "-javaagent": agent, ALLOWED: allowed}
    flags = {begin: flag for begin, flag in flags.items() if flag}
    own = sheet.own("KAFKA_OPTS")
    if own is not None:
        # The path has the process in it, so nobody can write it once a flow; readiness is read from the log.
        sheet.give("KAFKA_OPTS", " ".join([*(flags[begin] for begin in flags if begin not in own), own]))
    because = "logs go to the journal" + ("; the agent reads the beans without a JMX port" if agent else "")
    sheet.put(
        file,
        "KAFKA_OPTS",
        "mirror.logging",
        Choice(
            " ".join(flags.values()),
            f"{because}; {WHY_ALLOWED}" if allowed else because,
            "log4j manual",
            "derived",
        ),
    )


def _agent(sheet: Sheet, flow: Flow) -> str:
    """Plan what a process tells Prometheus; return the flag that starts the agent, empty where none is."""
    metrics = flow.flow.metrics
    if metrics is None:
        return ""
    return plan_agent(
        sheet,
        flow.folder,
        f"{metrics.address}:{FROM_PORT}{metrics.first_port}{FROM_PORT}",
        "mirror.metrics.agent",
        ("kafka.consumer", "kafka.producer")
        + (("kafka.tools",) if flow.classic else ("kafka.connect", "kafka.connect.mirror")),
        "the mirror's own beans, its clients' and the JVM's",
    )


def _log4j1(sheet: Sheet, file: str) -> None:
    because = "the journal keeps, rotates and bounds what a service prints"
    for key, value in (
        ("log4j.rootLogger", "INFO, stdout"),
        ("log4j.appender.stdout", "org.apache.log4j.ConsoleAppender"),
        ("log4j.appender.stdout.layout", "org.apache.log4j.PatternLayout"),
        ("log4j.appender.stdout.layout.ConversionPattern", "%p %c{1}: %m%n"),
    ):
        sheet.put(file, key, "mirror.logging", Choice(value, because, "reload4j manual", "derived"))


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
        sheet.put(
            file, key, "mirror.ready", Choice(value, because, "the source of Kafka 3.9 and 4.3", "documented")
        )


def classic(flow: Flow) -> SettingsAndFindings:
    """Return the settings and findings of a classic process."""
    consumer = flow.sheet(flow.flow.consumer_settings, "consumer_settings")
    plan_consumer(consumer, flow)
    producer = flow.sheet(flow.flow.producer_settings, "producer_settings")
    buffer = plan_producer(producer, flow, f"{flow.folder}/producer.properties", "")
    environment = flow.sheet(flow.flow.environment, "environment")
    _arguments(environment, flow)
    codec = value_of(producer, "compression.type")
    fetched, said = fetched_mib(flow, int_or_zero(flow.flow.environment.get("MIRROR_NUM_STREAMS")) or 1)
    buffers = buffer // MIB
    because = f"an estimated {BASE_MIB} MiB, a producer buffer of {buffers} MiB, and {said}"
    heap = put_jvm(
        environment, flow, heap_of(BASE_MIB + buffers + fetched), because, buffers, tasks=1, codec=codec
    )
    check_held(environment, flow, heap, buffers, fetched, "a process holds up to")
    return together(consumer, producer, environment)


def _arguments(sheet: Sheet, flow: Flow) -> None:
    file = f"{flow.folder}/environment"

    def put(key: str, rule: str, value: str | int, because: str, source: str = CLASSIC) -> str:
        return sheet.put(file, key, f"mirror.{rule}", Choice(value, because, source, "documented")) or ""

    included = Choice(
        "|".join(flow.flow.topics), "the topics of the flow, as one expression", CLASSIC, "derived"
    )
    sheet.put(file, "MIRROR_INCLUDE", "mirror.flow", included)
    parallel = f"{ARTICLE}, Increase parallelism"
    because = (
        "one consumer a process, so that a topic's partitions spread over the processes and their producers"
    )
    streams = put("MIRROR_NUM_STREAMS", "streams", 1, because, parallel)
    if streams != "1":
        sheet.warning(
            "mirror.streams",
            f"{sheet.name('MIRROR_NUM_STREAMS')}{sheet.of(sheet.where)} is {streams}: its streams share one "
            "producer",
            f"set {sheet.name('MIRROR_NUM_STREAMS')} to 1 and use more processes",
            "MIRROR_NUM_STREAMS",
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
            f"{sheet.name('MIRROR_ABORT_ON_SEND_FAILURE')}{sheet.of(sheet.where)} is {abort}: records that "
            "fail are dropped",
            f"set {sheet.name('MIRROR_ABORT_ON_SEND_FAILURE')} to true",
            "MIRROR_ABORT_ON_SEND_FAILURE",
        )
