"""The record of the brokers of a cluster that Kedge runs itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.plan.jvm_flags import JAVA_FACTS
from kedge.plan.plan import PlannedInstance
from kedge.plan.restart_waits import Wait, ready
from kedge.plan.service import Away, JavaNeed, Kernel, Ports, Service
from kedge.plan.settings import Choice
from kedge.plan.version_numbers import numbers
from kedge.services.broker.notices import ALLOWED, INSTEAD, notices
from kedge.services.broker.planner import SERVICE, plan_brokers
from kedge.services.broker.probe import missed
from kedge.services.broker.variables import KafkaBroker
from kedge.services.host.variables import host_facts
from kedge.services.topics.cluster_limits import BROKER_MAPS, ClusterTopics, broker_files, broker_maps
from kedge.services.topics.planner import plan_topics, with_topics


def _facts(inventory: Inventory) -> Iterator[Finding]:
    """Ask for the facts of the hosts, for which no rule asks: their memory has to be known to be enough."""
    for host in inventory.group(SERVICE):
        facts = host_facts(host, inventory.hosts[host])
        if isinstance(facts, list):
            yield from facts


def _java(inventory: Inventory, _: Mapping[str, Any], instances: tuple[PlannedInstance, ...]) -> JavaNeed:
    declared = inventory.common("kafka_clusters") or {}
    version = str((declared.get(instances[0].name) or {}).get("version", ""))
    return JavaNeed(17 if numbers(version) >= (4,) else 8, f"{SERVICE} {version}", JAVA_FACTS)


def _version(inventory: Inventory, host: str) -> str | None:
    """Return the version of the cluster that a host belongs to."""
    of = (c.version for name, c in clusters(inventory)[0].items()
          if host in inventory.group(c.brokers or f"kafka_{name}"))  # fmt: skip
    return next(of, None)


def _controller_ports(instance: PlannedInstance) -> Iterator[int]:
    yield from map(int, re.findall(r"CONTROLLER://[^,]*:(\d+)", instance.value("listeners")))


def _maps(inventory: Inventory) -> Mapping[str, tuple[Kernel, ...]]:
    """Return how many maps the hosts of each cluster need, by the segments of its topics."""
    found: dict[str, tuple[Kernel, ...]] = {}
    planned = with_topics(inventory, plan_topics(inventory))
    for name, cluster in clusters(inventory)[0].items():
        of = planned.get(name) or ClusterTopics(name, cluster, {}, {})
        hosts = inventory.group(cluster.brokers) if cluster.brokers else ()
        if not hosts:
            continue
        maps, segments = broker_maps(inventory, of), broker_files(of, len(hosts)) // 2
        because = (
            f"two maps for each of about {segments} log segments of a broker here, and as many again; "
            f"{BROKER_MAPS} at least"
        )
        choice = Choice(maps, because, "Kafka documentation, Hardware and OS", "estimate")
        found |= {host: (Kernel("vm.max_map_count", "host.maps", choice),) for host in hosts}
    return found


KAFKA_BROKER: Final = Service(
    name=SERVICE,
    variables=KafkaBroker,
    plan=lambda given: plan_brokers(given.inventory, given.clusters, given.advice),
    check=_facts,
    java=_java,
    ports=Ports(f"{SERVICE}_port", others=_controller_ports),
    memory=f"{SERVICE}_heap_mib",
    changes_with=("topics", "users", "rights"),
    last=True,
    missed=missed,
    notices=notices,
    allowed=ALLOWED,
    instead=INSTEAD,
    version=_version,
    kernel_of=_maps,
    away=lambda *_: Away(
        1,
        "brokers hold the copies of one another's partitions",
        "Kafka documentation, Replication",
        "derived",
        always=True,
    ),
    waits=(
        ready(
            "an estimate: a broker registers within seconds after a clean stop; after a crash it reads its "
            "logs first",
            "Kafka documentation, Operations",
            "estimate",
        ),
        Wait(
            "replicas_seconds",
            "rollout.replicas",
            "an estimate: a broker that was down for a restart fetches what it missed in that time before "
            "its replicas count as in sync",
            "Kafka documentation, Replication",
            "estimate",
        ),
    ),
)
