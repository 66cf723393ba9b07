"""What leaves the brokers of a cluster for all that reads from it, held against their links."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import clusters
from kedge.plan.plan import Part
from kedge.plan.settings import MBIT
from kedge.plan.values import int_or_zero
from kedge.plan.variables import role_variables
from kedge.services.mirror.variables import mirror_makers
from kedge.services.rest.distribution import SERVICE as REST
from kedge.services.rest.traffic import read_per_s
from kedge.services.rest.variables import KafkaRest
from kedge.services.streams.variables import streams_apps
from kedge.services.topics.cluster_limits import ClusterTopics, replicated_per_s
from kedge.services.topics.planner import with_topics


def check_broker_links(inventory: Inventory, topics: Part) -> Iterator[Finding]:
    """Find clusters whose copies and readers take more than the links of their brokers send.

    By what the inventory says of them: target rates, flows, applications, and readers of REST proxies with
    their rate. Batches may be smaller than their records, so that it is a warning.
    """
    known, _ = clusters(inventory)
    declared = with_topics(inventory, topics)
    for name, cluster in known.items():
        hosts = inventory.group(cluster.brokers) if cluster.brokers else ()
        links = [
            link for h in hosts if (link := int_or_zero(inventory.hosts[h].get("host_link_mbit_per_s"))) > 0
        ]
        if not links:
            continue
        taken = _taken(inventory, name, declared.get(name))
        each, link = sum(taken.values()) / len(hosts), min(links)
        if each <= link * MBIT:
            continue
        replicated = replicated_per_s(of, many=True) if (of := declared.get(name)) else 0
        more = sum(taken.values()) - taken["replication"] + replicated
        said = ", ".join(f"{what} {rate / 1e6:.1f}" for what, rate in taken.items() if rate)
        yield Finding(
            "warning",
            "topics.link",
            f"cluster {name}",
            f"what reads from cluster {name} takes {each / 1e6:.1f} MB/s out of each of {len(hosts)} brokers "
            f"({said} MB/s in all, before compression), and host_link_mbit_per_s is {link}, "
            f"{link * MBIT / 1e6:g} MB/s each way",
            f"use {math.ceil(more / (link * MBIT))} brokers or more, or links of "
            f"{math.ceil(each / MBIT)} Mbit/s",
        )


def _taken(inventory: Inventory, name: str, of: ClusterTopics | None) -> Mapping[str, float]:
    """Return the bytes a second that leave a cluster's brokers, by what takes them."""
    flows = {n: f for v in mirror_makers(inventory)[0].values() for n, f in v.flows.items()}
    apps = {spec.name: spec for spec in streams_apps(inventory)[0].values()}
    return {
        "replication": replicated_per_s(of) if of else 0,
        "mirrors": sum((f.mb_per_s or 0) * 1e6 for f in flows.values() if f.source == name),
        "applications": sum(
            (spec.records_per_s or 0) * spec.record_bytes for spec in apps.values() if spec.cluster == name
        ),
        "REST proxies": _read(inventory, name),
    }


def _read(inventory: Inventory, name: str) -> float:
    """Return what readers of REST proxies take of a cluster, where their rate is known."""
    variables = [
        each
        for host in inventory.group(REST)
        if not isinstance(each := role_variables(KafkaRest, REST, host, inventory.hosts[host]), list)
        and each.cluster == name
        and each.workload.reader_records_per_s
    ]
    # A host's workload is what it has while another one is away.
    away = 1 if len(variables) > 1 else 0
    return sum(read_per_s(each.workload) for each in variables) * (1 - away / max(1, len(variables)))
