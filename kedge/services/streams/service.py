"""The record of the Streams applications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.jvm_flags import JAVA_FACTS
from kedge.plan.plan import PlannedInstance
from kedge.plan.restart_waits import GROUPS_BACK, ready
from kedge.plan.service import Archive, Away, JavaNeed, OfHosts, Service, own_clusters, room_of
from kedge.plan.version_numbers import numbers
from kedge.services.streams.load import LOAD_TEST, applications
from kedge.services.streams.planner import SERVICE, plan_streams
from kedge.services.streams.variables import OF_ROLE, StreamsApp


def _java(_: Inventory, variables: Mapping[str, Any], __: tuple[PlannedInstance, ...]) -> JavaNeed:
    version = str(variables.get(f"{SERVICE}_version", ""))
    return JavaNeed(11 if numbers(version) >= (4,) else 8, f"{SERVICE} {version}", JAVA_FACTS)


def _jars(variables: Mapping[str, Any]) -> Iterator[Archive]:
    """Yield the jars, which lie on the control machine or are built there."""
    jars = variables.get(f"{SERVICE}_jars")
    for number, jar in enumerate(jars if isinstance(jars, list) else ()):
        if isinstance(jar, Mapping):
            name = f"{SERVICE}_jars[{number}]"
            yield Archive(name, f"{name}.sha256", jar.get("path"), jar.get("sha256"))


def _away(_: Inventory, of_hosts: OfHosts, percent: int) -> Away:
    instances = [instance for of_host in of_hosts.values() for instance in of_host]
    standbys = min(int(instance.value("num.standby.replicas", "0")) for instance in instances)
    room = room_of(len(instances), percent)
    if room.most <= max(1, standbys):
        return room
    return Away(
        max(1, standbys),
        f"{standbys} standby replicas of a task: with more instances unavailable all copies of a store "
        f"could be, "
        "and it would be read back from its changelog",
        "Kafka Streams documentation, num.standby.replicas",
        "derived",
    )


STREAMS_APP: Final = Service(
    name=SERVICE,
    variables=StreamsApp,
    of_role=tuple(sorted(OF_ROLE)),
    plan=lambda given: plan_streams(given.inventory, given.advice),
    clusters=own_clusters(SERVICE),
    java=_java,
    memory=f"{SERVICE}_rocksdb_mib",
    away=_away,
    waits=(
        ready(
            "an estimate: an application that kept its state runs once it has joined; a restore is held "
            "against it",
            "Kafka Streams documentation, Memory Management",
            "estimate",
        ),
        *GROUPS_BACK,
    ),
    archives=_jars,
    kinds=("streams",),
    noticed=dict.fromkeys(("stop", "start", "restart"), "a rebalance, and a restore where it keeps stores"),
    load=applications,
    load_test=LOAD_TEST,
    tuning=(
        "streams.batch",
        "streams.buffer",
        "streams.commit",
        "streams.descriptors",
        "streams.gc",
        "streams.heap",
        "streams.jemalloc",
        "streams.linger",
        "streams.memory",
        "streams.rocksdb",
        "streams.threads",
    ),
)
