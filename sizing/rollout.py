"""Rules for what a rollout waits for: an instance to be ready, and its groups to be back after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from sizing.balancer.planner import SERVICE as BALANCER
from sizing.balancer.planner import drain_settings
from sizing.balancer.variables import RestBalancer
from sizing.broker.variables import KafkaBroker
from sizing.core.inventory import Inventory
from sizing.core.plan import Instance, Part
from sizing.core.settings import Choice, Setting, Sheet
from sizing.mirror.variables import MirrorMaker
from sizing.rest.variables import KafkaRest
from sizing.streams.variables import StreamsApp

_GROUPS: Final = "REST proxy measurements, Groups and restarts"
_POLL: Final = "Kafka documentation, max.poll.records"
_SERVICES: Final[Mapping[str, type[BaseModel]]] = {
    "kafka_rest": KafkaRest,
    "kafka_broker": KafkaBroker,
    "mirror_maker": MirrorMaker,
    "streams_app": StreamsApp,
    BALANCER: RestBalancer,
}
#: What is waited for, why that long, and where that is known from.
_READY: Final[Mapping[str, tuple[str, str]]] = {
    "kafka_rest": (
        "a proxy answered 1.5 to 2.8 s after its start; the rest is for a slow host, and for brokers that "
        "are starting too",
        "REST proxy facts, Observed on running proxies",
    ),
    "kafka_broker": (
        "an estimate: a broker registers within seconds after a clean stop; after a crash it reads its logs "
        "first",
        "Kafka documentation, Operations",
    ),
    "mirror_maker": (
        "an estimate: a process is ready once the target has acknowledged records, after it joined its group",
        "MirrorMaker facts",
    ),
    "streams_app": (
        "an estimate: an application that kept its state runs once it has joined; a restore is held against "
        "it",
        "Kafka Streams documentation, Memory Management",
    ),
    BALANCER: (
        "an estimate: a balancer answers at once and sees an instance within a second; before a reload it "
        "may have to learn for 10 s what it is to hand over",
        "HAProxy 2.6 configuration manual, peers",
    ),
}
_REPLICAS: Final = (
    "an estimate: a broker that was down for a restart fetches what it missed in that time before its "
    "replicas count as in sync"
)
_GATE: Final = (
    "a member that was killed is missed after its session of 45 s, and the group was seen to get nothing "
    "for 40; that, a rebalance and the catching up fit into it"
)
_LAG: Final = (
    "so many records behind count as caught up whatever it was before: an estimate, 20 answers of 500 "
    "records, for a lag breathes with what is being read"
)


def plan_rollouts(inventory: Inventory, services: Mapping[str, Mapping[str, tuple[Instance, ...]]]) -> Part:
    """Plan what a deploy or a rolling restart of each service of a host waits for."""
    found: dict[str, dict[str, tuple[Setting, ...]]] = {}
    for host, of_host in services.items():
        for service in of_host.keys() & _SERVICES.keys():
            planned = _rollout(service, inventory.hosts[host])
            if service == BALANCER:
                planned += drain_settings(services, of_host[service])
            found.setdefault(host, {})[service] = planned
    return Part(rollouts=found)


def put_stop(sheet: Sheet, dropin: str, service: str, seconds: int, because: str, source: str) -> None:
    """Plan how long systemd lets an instance stop before it kills it."""
    why = f"{service}_stop_seconds is {seconds}: {because}"
    sheet.put(dropin, "TimeoutStopSec", "rollout.stop", Choice(seconds, why, source))


def _rollout(service: str, variables: Mapping[str, Any]) -> tuple[Setting, ...]:
    ready, source = _READY[service]
    rows = [("ready_seconds", "rollout.ready", ready, source)]
    if "gate_seconds" in _SERVICES[service].model_fields:
        rows += [
            ("gate_seconds", "rollout.gate", _GATE, _GROUPS),
            ("gate_max_lag", "rollout.lag", _LAG, _POLL),
        ]
    if "replicas_seconds" in _SERVICES[service].model_fields:
        rows.append(("replicas_seconds", "rollout.replicas", _REPLICAS, "Kafka documentation, Replication"))
    found = []
    for key, rule, because, said in rows:
        own = variables.get(f"{service}_{key}")
        default = _SERVICES[service].model_fields[key].default
        if own is None or own == default:
            found.append(Setting("", key, str(default), rule, because, said))
        else:
            why = f"set in the inventory; the plan would have said {default}: {because}"
            found.append(Setting("", key, str(own), rule, why, "the inventory", by="person"))
    return tuple(found)
