"""The record of the mirrors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.jvm_flags import JAVA_FACTS
from kedge.plan.plan import PlannedInstance
from kedge.plan.restart_waits import GROUPS_BACK, ready
from kedge.plan.service import FastLink, JavaNeed, Service
from kedge.plan.version_numbers import numbers
from kedge.services.mirror.adopting import MAINS, adopted
from kedge.services.mirror.links import bandwidth_delay_bytes
from kedge.services.mirror.load import LOAD_TEST, mirrored
from kedge.services.mirror.notices import INSTEAD, notices
from kedge.services.mirror.planner import SERVICE, mirrored_clusters, plan_mirrors
from kedge.services.mirror.topics_and_groups import flow_facts
from kedge.services.mirror.variables import MirrorMaker, mirror_makers


def _java(_: Inventory, variables: Mapping[str, Any], __: tuple[PlannedInstance, ...]) -> JavaNeed:
    version = str(variables.get(f"{SERVICE}_version", ""))
    return JavaNeed(17 if numbers(version) >= (4,) else 8, f"{SERVICE} {version}", JAVA_FACTS)


def _links(inventory: Inventory) -> Iterator[FastLink]:
    for host, variables in mirror_makers(inventory)[0].items():
        for name, flow in variables.flows.items():
            if kept := bandwidth_delay_bytes(flow):
                because = f"{flow.round_trip_ms:g} ms at {flow.link_mbit_per_s:g} Mbit/s of flow {name}"
                yield FastLink(host, kept, because)


def _idle(inventory: Inventory, cluster: str, topics: Sequence[str]) -> tuple[str, str] | None:
    flows = [flow for flow in flow_facts(inventory).values() if flow.source == cluster]
    if any(flow.copy_of(topic) for flow in flows for topic in topics):
        return None
    return (
        f"no flow mirrors {', '.join(topics)} from cluster {cluster}",
        f"load a topic that one of {SERVICE}_flows matches",
    )


MIRROR_MAKER: Final = Service(
    name=SERVICE,
    variables=MirrorMaker,
    plan=lambda given: plan_mirrors(given.inventory, given.topics, given.advice),
    clusters=mirrored_clusters,
    java=_java,
    waits=(
        ready(
            "an estimate: a process is ready once the target has acknowledged records, after it joined "
            "its group",
            "MirrorMaker facts",
            "estimate",
        ),
        *GROUPS_BACK,
    ),
    links=_links,
    idle=_idle,
    alone=True,
    kinds=("classic", "mm2"),
    mains=frozenset(MAINS.values()),
    adopts=adopted,
    taking_over="stop what mirrors now on all hosts, go on at its positions",
    noticed={
        "adopt": "a delay of the flow",
        **dict.fromkeys(("stop", "restart"), "a delay of the flow; some records are repeated"),
    },
    notices=notices,
    instead=INSTEAD,
    load=mirrored,
    load_test=LOAD_TEST,
    tuning=(
        "mirror.consumer.socket",
        "mirror.files",
        "mirror.gc",
        "mirror.heap",
        "mirror.memory",
        "mirror.producer.batch",
        "mirror.producer.buffer",
        "mirror.producer.compression",
        "mirror.producer.linger",
        "mirror.producer.socket",
        "mirror.streams",
        "mirror.tasks",
        "mirror.threads",
    ),
)
