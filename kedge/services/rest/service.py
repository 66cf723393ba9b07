"""The record of the REST proxies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kedge.plan.hosts import Inventory
from kedge.plan.plan import Part, PlannedInstance
from kedge.plan.restart_waits import GROUPS_BACK, ready
from kedge.plan.service import Archive, Away, Given, JavaNeed, OfHosts, Ports, Service, own_clusters, room_of
from kedge.plan.variables import role_variables
from kedge.services.host.variables import host_facts
from kedge.services.rest.distribution import SERVICE
from kedge.services.rest.distributions import DISTRIBUTIONS
from kedge.services.rest.instance_count import processes_with_cores, produced_per_s
from kedge.services.rest.load import LOAD_TEST, rest_load
from kedge.services.rest.notices import ALLOWED, INSTEAD, notices
from kedge.services.rest.planner import plan_rest
from kedge.services.rest.source_names import REAL
from kedge.services.rest.variables import KafkaRest


def _plan(given: Given) -> Part:
    inventory = given.inventory
    others = (service for service in given.services if service.java and service.name != SERVICE)
    busy = frozenset(host for service in others for host in service.hosts(inventory))
    return plan_rest(inventory, given.advice, busy)


def _java(_: Inventory, variables: Mapping[str, Any], __: tuple[PlannedInstance, ...]) -> JavaNeed | None:
    version = str(variables[f"{SERVICE}_version"])
    return DISTRIBUTIONS[variables[f"{SERVICE}_distribution"]].java_of(version)


def _archives(variables: Mapping[str, Any]) -> Iterator[Archive]:
    names = (f"{SERVICE}_archive", f"{SERVICE}_archive_checksum")
    yield Archive(*names, *(variables.get(name) for name in names))


def _away(inventory: Inventory, of_hosts: OfHosts, percent: int) -> Away:
    """Return how many proxies may be away: the others carry what is produced, and have room for the rest."""
    room = room_of(sum(map(len, of_hosts.values())), percent)
    rate, carried, most_each = 0, 0, 0
    for host, instances in of_hosts.items():
        variables, facts = (
            role_variables(KafkaRest, SERVICE, host, inventory.hosts[host]),
            host_facts(host, inventory.hosts[host]),
        )
        if isinstance(variables, list) or isinstance(facts, list):
            continue
        each = produced_per_s(DISTRIBUTIONS[variables.distribution].cost, variables.workload)
        rate += variables.workload.records_per_s or 0
        carried += each * min(len(instances), processes_with_cores(facts))
        most_each = max(most_each, each)
    spare = max(0, carried - rate) // most_each if rate else room.most
    if spare >= room.most:
        return room
    return Away(
        spare,
        f"{rate} records/s are planned; just started, proxies sustain {carried}, {most_each} each at most",
        f"{REAL}, What producing takes",
        "derived",
    )


def _bridge_ports(instance: PlannedInstance) -> Iterator[int]:
    """Yield the port on which Strimzi's bridge tells how it is."""
    yield from (int(s.value) for s in instance.settings if s.key == "http.management.port")


KAFKA_REST: Final = Service(
    name=SERVICE,
    variables=KafkaRest,
    plan=_plan,
    clusters=own_clusters(SERVICE),
    java=_java,
    ports=Ports(f"{SERVICE}_first_port", others=_bridge_ports),
    memory=f"{SERVICE}_heap_mib",
    many_connections=True,
    away=_away,
    waits=(
        ready(
            "kafka-rest took 33 to 65 s beside a load on two busy cores, a bridge 5 to 75; twice the "
            "longest. One that does not answer yet and goes on printing gets more",
            "Real proxy measurements, How long a start takes",
            "estimate",
        ),
        *GROUPS_BACK,
    ),
    archives=_archives,
    changes_with=("rest_balancer",),
    kinds=tuple(one.name for one in DISTRIBUTIONS.values() if one.signs),
    mains=frozenset(one.signs.main for one in DISTRIBUTIONS.values() if one.signs and not one.fleet_only),
    noticed=dict.fromkeys(("stop", "adopt", "restart"), "a rebalance of groups with consumers there"),
    notices=notices,
    allowed=ALLOWED,
    instead=INSTEAD,
    load=rest_load,
    load_test=LOAD_TEST,
    tuning=(
        "jetty.",
        "rest.consumer.",
        "rest.files",
        "rest.gc",
        "rest.heap.",
        "rest.log_flood",
        "rest.memory.",
        "rest.producer.",
        "rest.queue",
        "rest.threads",
    ),
)
