"""The actors of a load: its producers, and the processes that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kedge.evidence.border.load_generator import Columns, LoadProcess
from kedge.evidence.load_options import TO_INSTANCE_PER_S, LoadSpec
from kedge.evidence.run import REST_INSTANCE

WATCH: Final = "watch"
REST_CONSUMERS: Final = "rest-consumers"


@dataclass(frozen=True)
class Lane:
    """One producer: its number in the run, its way, and its share of the rate (records/s)."""

    actor: str
    producer: int
    via: Literal["kafka", "rest", "rest_instance"]
    topic: str
    rate: float
    record_bytes: int
    per_request: int


def group_actor(via: str) -> str:
    """Return the row of the board where the watcher tells what the group of that way is doing."""
    return f"group-{via}"


def mirror_actor(place: int) -> str:
    """Return the board's row of a mirror, by its place among the load's: how far its target has grown."""
    return f"mirror-{place}"


def lanes(load: LoadSpec) -> list[Lane]:
    """Return all producers: those by the Kafka protocol first, numbered on through REST's."""
    found = []
    if load.kafka:
        part = load.kafka
        found += [
            Lane(
                f"kafka-producer-{n}",
                n,
                "kafka",
                part.topic,
                part.records_per_s / part.producers,
                part.record_bytes,
                1,
            )
            for n in range(part.producers)
        ]
    if load.rest:
        rest, first = load.rest, len(found)
        found += [
            Lane(
                f"rest-producer-{n}",
                n,
                "rest",
                rest.topic,
                rest.records_per_s / rest.producers,
                rest.record_bytes,
                rest.records_per_request,
            )
            for n in range(first, first + rest.producers)
        ]
    if load.rest and load.rest_instances:
        # One for all of them, which takes them in turn.
        rate, number = TO_INSTANCE_PER_S * len(load.rest_instances), len(found)
        actor, size = f"rest-producer-{number}", load.rest.record_bytes
        found.append(Lane(actor, number, REST_INSTANCE, load.rest.topic, rate, size, 1))
    return found


def workers(load: LoadSpec) -> dict[str, list[str]]:
    """Return the processes to start, each with the actors that it runs."""
    watched = load.groups() or load.groups_of_others() or load.mirrors
    rows = [
        *(group_actor(via) for via, _, _ in load.groups().values()),
        *map(mirror_actor, range(len(load.mirrors))),
    ]
    found = {WATCH: [WATCH, *rows]} if watched else {}
    if load.kafka:
        found |= {f"kafka-consumer-{n}": [f"kafka-consumer-{n}"] for n in range(load.kafka.consumers)}
    if load.rest and load.rest.consumers:
        found[REST_CONSUMERS] = [f"rest-consumer-{n}" for n in range(load.rest.consumers)]
    return found | {lane.actor: [lane.actor] for lane in lanes(load)}


def processes(load: LoadSpec) -> dict[str, LoadProcess]:
    """Return what may come of each process that a generator runs: its actors, its tables, what is in them."""
    by_lane = {lane.actor: lane for lane in lanes(load)}
    found = {}
    for name, actors in workers(load).items():
        tables: dict[str, Columns] = {}
        if lane := by_lane.get(name):
            tables["ledger"] = {
                "producer": frozenset([lane.producer]),
                "topic": frozenset([lane.topic]),
                "via": frozenset([lane.via]),
                "bytes": frozenset([lane.record_bytes]),
                "outcome": frozenset(["acked", "failed", "unknown"]),
            }
        elif name != WATCH:
            part, via = (load.rest, "rest") if name == REST_CONSUMERS else (load.kafka, "kafka")
            assert part is not None
            member: Columns = {"group": frozenset([part.group]), "consumer": frozenset(actors)}
            of_topic: Columns = {**member, "topic": frozenset([part.topic])}
            tables["deliveries"] = {**of_topic, "via": frozenset([via])}
            if via == "rest":
                tables["homes"] = member
            else:
                tables["assignments"] = {**of_topic, "event": frozenset(["assigned", "revoked", "lost"])}
        found[name] = LoadProcess(tuple(actors), tables)
    return found
