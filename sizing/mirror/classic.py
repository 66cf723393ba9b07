"""The settings of a classic mirror process: what its files hold."""

from __future__ import annotations

from sizing.clients.client_checks import check_heartbeat
from sizing.clients.profile_settings import put_profile
from sizing.core.settings import MIB, Choice, Sheet
from sizing.core.values import int_or_zero, value_of
from sizing.mirror.flow import ARTICLE, CLASSIC, NUMBER, Flow
from sizing.mirror.login import plan_login
from sizing.mirror.memory import BASE_MIB, heap_of
from sizing.mirror.process import SettingsAndFindings, commit_interval, put_jvm, together
from sizing.mirror.producer import SET_BY_MIRRORS, plan_producer
from sizing.mirror.sockets import socket_buffer
from sizing.mirror.topics_and_groups import consumer_group


def classic(flow: Flow) -> SettingsAndFindings:
    """Return the settings and findings of a classic process."""
    consumer = flow.sheet(flow.flow.consumer_settings)
    _consumer(consumer, flow)
    producer = flow.sheet(flow.flow.producer_settings)
    buffer = plan_producer(producer, flow, f"{flow.folder}/producer.properties", "")
    environment = flow.sheet(flow.flow.environment)
    _arguments(environment, flow)
    codec = value_of(producer, "compression.type")
    put_jvm(environment, flow, *_heap(flow, buffer), tasks=1, codec=codec)
    return together(consumer, producer, environment)


def _consumer(sheet: Sheet, flow: Flow) -> None:
    file = f"{flow.folder}/consumer.properties"

    def put(key: str, rule: str, value: str | int, because: str, source: str = CLASSIC) -> None:
        sheet.put(file, key, f"mirror.consumer.{rule}", Choice(value, because, source, "derived"))

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
    spread = (
        "spreads the partitions of all topics evenly over the processes; without one it warns at each start"
    )
    assignor = Choice("org.apache.kafka.clients.consumer.RoundRobinAssignor", spread, CLASSIC, "documented")
    sheet.put(file, "partition.assignment.strategy", "mirror.consumer.assignor", assignor)
    put(
        "auto.offset.reset",
        "offset",
        "earliest",
        "a new flow mirrors what is there; latest would leave it out",
    )
    socket_buffer(sheet, flow.flow, file, "receive.buffer.bytes", "mirror.consumer.socket", "64 KiB")
    put_profile(sheet, file, "", "consumer", flow.flow.profile, flow.version, SET_BY_MIRRORS)
    plan_login(sheet, flow, "source", file, "")
    sheet.rest_of_own(file, "mirror.own")
    check_heartbeat(sheet, f"flow {flow.name}", "", flow.version)
    if value_of(sheet, "enable.auto.commit") == "true":
        sheet.error(
            "mirror.consumer.commit",
            f"consumer_settings of flow {flow.name} set enable.auto.commit: records read and not yet "
            "mirrored would be lost with the process",
            "take it out: MirrorMaker commits after its producer has flushed",
        )


def _heap(flow: Flow, buffer: int) -> tuple[int, str, int]:
    fetched, said = flow.fetched_mib(int_or_zero(flow.flow.environment.get("MIRROR_NUM_STREAMS")) or 1)
    mib = heap_of(BASE_MIB + buffer // MIB + fetched)
    because = f"an estimated {BASE_MIB} MiB, a producer buffer of {buffer // MIB} MiB, and {said}"
    return mib, because, buffer // MIB


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
