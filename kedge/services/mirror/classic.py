"""The settings of a classic mirror process: what its files hold."""

from __future__ import annotations

from kedge.plan.settings import MIB, Choice, Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.services.mirror.consumer import plan_consumer
from kedge.services.mirror.flow import ARTICLE, CLASSIC, Flow, commit_interval
from kedge.services.mirror.memory import BASE_MIB, check_held, fetched_mib, heap_of
from kedge.services.mirror.process import SettingsAndFindings, put_jvm, together
from kedge.services.mirror.producer import plan_producer


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
