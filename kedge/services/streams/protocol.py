"""Rules for the group protocol: static members of a classic group; who can have streams (KIP-1071), and what
it refuses and passes over.
"""

from __future__ import annotations

from typing import Final

from kedge.plan.inventory.clusters import KafkaCluster
from kedge.plan.settings import Choice, Sheet
from kedge.plan.version_numbers import numbers
from kedge.services.streams.variables import CONFIG, StreamsApp, read_by

_RULE: Final = "streams.protocol"
PROTOCOL: Final = "Kafka Streams documentation, Streams Rebalance Protocol"
_READY: Final = (4, 2)
#: Brokers of this version can damage a classic group that becomes a streams group: KAFKA-20254.
_DAMAGES: Final = frozenset({(4, 2), (4, 2, 0)})
_STATIC: Final = "group.instance.id"
_STATIC_READY: Final = (4, 4)
#: On the group or the brokers instead, or without a counterpart.
_IGNORED: Final = frozenset(
    {
        "acceptable.recovery.lag",
        "heartbeat.interval.ms",
        "max.warmup.replicas",
        "num.standby.replicas",
        "probing.rebalance.interval.ms",
        "rack.aware.assignment.non_overlap_cost",
        "rack.aware.assignment.strategy",
        "rack.aware.assignment.tags",
        "rack.aware.assignment.traffic_cost",
        "session.timeout.ms",
        "task.assignor.class",
    }
)


def put_protocol(sheet: Sheet, file: str, spec: StreamsApp, identity: str) -> None:
    """Plan the group protocol; a member of a classic group is static, by the instance's identity."""
    if spec.group_protocol == "classic":
        because = "a restart within session.timeout.ms gets its partitions back without a rebalance"
        key, static = f"main.consumer.{_STATIC}", Choice(identity, because, CONFIG, "derived")
        sheet.put(file, key, "streams.static_membership", static)
        return
    because = (
        "group_protocol is streams: tasks are given out by the brokers, and a rebalance stops those that "
        "move; a classic group becomes one, and back, when all of its members are stopped"
    )
    sheet.put(file, "group.protocol", _RULE, Choice("streams", because, PROTOCOL, "derived"))


def check_protocol(sheet: Sheet, spec: StreamsApp, cluster: KafkaCluster | None) -> None:
    """Find what is at odds with the streams group protocol, where an application is to speak it."""
    if spec.group_protocol != "streams":
        return
    brokers = cluster.version if cluster else "4.2"
    for what, running in (
        ("streams_app_version", spec.version),
        (f"kafka_clusters.{spec.cluster}.version", brokers),
    ):
        if numbers(running) < _READY:
            sheet.error(
                _RULE,
                f"streams_app_group_protocol is streams, and {what} is {running}: it is ready from 4.2 on",
                "set streams_app_group_protocol to classic",
                variable="streams_app_group_protocol",
            )
    if numbers(brokers) in _DAMAGES:
        sheet.warning(
            _RULE,
            f"kafka_clusters.{spec.cluster}.version is {brokers}, whose brokers can damage a classic group "
            "that becomes a streams group (KAFKA-20254); new groups are well",
            "give a new application the protocol, or use brokers of 4.2.1 or later",
            variable=f"kafka_clusters.{spec.cluster}.version",
        )
    own = {key: read_by(key)[1] for key in spec.settings}
    static = [key for key, bare in own.items() if bare == _STATIC]
    if static and min(numbers(spec.version), numbers(brokers)) < _STATIC_READY:
        sheet.error(
            _RULE,
            sheet.either(f"{sheet.variable} hold {static[0]}", f"{static[0]} is set")
            + ", and before 4.4 a streams group refuses static members: "
            f"the application would end ({PROTOCOL})",
            f"take {' and '.join(static)} out",
            *static,
        )
    if passed_over := sorted(key for key, bare in own.items() if bare in _IGNORED):
        sheet.warning(
            _RULE,
            sheet.either(f"{sheet.variable} hold {', '.join(passed_over)}", f"{', '.join(passed_over)}: set")
            + ", which the streams group protocol passes "
            f"over ({PROTOCOL})",
            f"take them out; sessions, heartbeats and standbys are settings of the group {spec.name}, by "
            "kafka-configs",
            *passed_over,
        )
