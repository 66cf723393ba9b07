"""The consumer of a mirror process: its group, where it begins, its socket buffer and its profile.

How much it fetches, Kafka's defaults or a profile say (kedge/services/clients/profiles.py); what memory that
takes, kedge/services/clients/fetches.py counts.
"""

from __future__ import annotations

from kedge.plan.settings import Choice, Sheet
from kedge.plan.values import value_of
from kedge.services.clients.client_checks import check_consumer
from kedge.services.clients.profile_settings import put_profile
from kedge.services.mirror.flow import CLASSIC, NUMBER, Flow, plan_login
from kedge.services.mirror.links import socket_buffer
from kedge.services.mirror.producer import SET_BY_MIRRORS
from kedge.services.mirror.topics_and_groups import consumer_group


def put_receive_buffer(sheet: Sheet, flow: Flow, file: str, prefix: str) -> None:
    """Plan the socket buffer of the consumer; ``prefix`` is that of its keys."""
    key = f"{prefix}receive.buffer.bytes"
    socket_buffer(sheet, flow.flow, file, key, "mirror.consumer.socket", "64 KiB")


def put_consumer_profile(sheet: Sheet, flow: Flow, file: str, prefix: str) -> None:
    """Put the keys of the flow's profile; ``prefix`` is that of the consumer's keys."""
    put_profile(sheet, file, prefix, "consumer", flow.flow.profile, flow.version, SET_BY_MIRRORS)


def check_beginning(sheet: Sheet, prefix: str) -> None:
    """Warn of a mirror that begins at the end of partitions; ``prefix`` is that of its consumer's keys.

    MirrorMaker 2 leaves a partition of which no offset is stored to its consumer (MirrorSourceTask).
    """
    key = f"{prefix}auto.offset.reset"
    if value_of(sheet, key) == "latest":
        by = "" if any(s.key == key and s.by == "person" for s in sheet.settings) else " by default"
        sheet.warning(
            "mirror.consumer.offset",
            f"{key}{sheet.of(sheet.where)} is latest{by}: records of a partition without a "
            f"{'stored' if prefix else 'committed'} offset are skipped, those written before the first start "
            "and those of new topics and partitions",
            f"write {key}: earliest",
            key,
        )


def plan_consumer(sheet: Sheet, flow: Flow) -> None:
    """Plan the consumer of a classic process, which has a file of its own."""
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
    put_receive_buffer(sheet, flow, file, "")
    put_consumer_profile(sheet, flow, file, "")
    plan_login(sheet, flow, "source", file, "")
    sheet.rest_of_own(file, "mirror.own")
    check_consumer(sheet, sheet.where, "", flow.version)
    check_beginning(sheet, "")
    if value_of(sheet, "enable.auto.commit") == "true":
        sheet.error(
            "mirror.consumer.commit",
            sheet.either(
                f"consumer_settings of flow {flow.name} set enable.auto.commit", "enable.auto.commit is true"
            )
            + ": records read and not yet "
            "mirrored would be lost with the process",
            "take enable.auto.commit out: MirrorMaker commits after its producer has flushed",
            "enable.auto.commit",
        )
