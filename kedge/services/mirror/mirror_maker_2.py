"""The settings of a MirrorMaker 2 worker in dedicated mode: what its files hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from kedge.plan.findings import with_names
from kedge.plan.settings import MIB, Basis, Choice, Sheet
from kedge.plan.values import int_or_zero, value_of
from kedge.services.clients.client_checks import check_consumer, check_producer
from kedge.services.mirror.clients import (
    check_beginning,
    check_kept,
    plan_producer,
    put_consumer_profile,
    put_receive_buffer,
    spare_ms,
)
from kedge.services.mirror.flow import ARTICLE, Flow, commit_interval, plan_login
from kedge.services.mirror.keys import GIVEN_BY_WORKERS, holding, plan_key
from kedge.services.mirror.memory import BASE_MIB, check_held, fetched_mib, heap_of
from kedge.services.mirror.process import SettingsAndFindings, put_jvm, together
from kedge.services.mirror.topics_and_groups import consumer_group, offsets_topic, worker_group

_MM2: Final = "Kafka documentation, Geo-Replication"
_POLL_RECORDS: Final = 500  # default of max.poll.records
_TRANSACTION_MS: Final = 30_000  # half of the default of transaction.timeout.ms
_REBALANCE_DELAY_MS: Final = 300_000  # default of scheduled.rebalance.max.delay.ms

#: Stands for the address of the host that a process runs on.
ADDRESS: Final = "\x01"


def mirror_maker_2(flow: Flow) -> SettingsAndFindings:
    """Return the settings and findings of a MirrorMaker 2 process in dedicated mode."""
    ends = flow.flow.source, flow.flow.target
    own = {f"{flow.flow.target}.producer.{k}": v for k, v in flow.flow.producer_settings.items()}
    own |= {f"{flow.flow.source}.consumer.{k}": v for k, v in flow.flow.consumer_settings.items()}
    given = own | dict(flow.flow.settings)
    # Planned and checked under the plan's own names, and written under those that the person has.
    names = {name: key for key in given if (name := plan_key(key, *ends)) != key}
    names = {name: held for name in names if (held := holding(name, given, *ends)) != name}
    beaten = {name: value for name, value in given.items() if name in names}
    rest = {key: value for key, value in given.items() if key not in names.values()}
    own = {key: value for key, value in own.items() if key not in names}
    sheet = flow.sheet(rest | {name: given[key] for name, key in names.items()})
    for end, client in ((flow.flow.target, "producer"), (flow.flow.source, "consumer")):
        sheet.held |= dict.fromkeys(
            (k for k in own if k.startswith(f"{end}.{client}.")), f"{flow.variable}.{client}_settings"
        )
    file = f"{flow.folder}/mm2.properties"
    _connect(sheet, flow, file)
    # Kafka starts no more tasks than there are partitions.
    tasks = max(1, int_or_zero(value_of(sheet, "tasks.max")))
    if sheet.reader.known(f"{flow.variable}.largest_topic_partitions"):
        tasks = min(tasks, max(1, flow.limits.source_partitions))
    buffer = plan_producer(sheet, flow, file, f"{flow.flow.target}.producer.", tasks)
    prefix = f"{flow.flow.source}.consumer."
    put_consumer_profile(sheet, flow, file, prefix)
    sheet.rest_of_own(file, "mirror.own")
    of_producer = f"{flow.flow.target}.producer."
    check_producer(sheet, sheet.where, of_producer, flow.version, given=GIVEN_BY_WORKERS)
    check_kept(sheet, of_producer)
    check_consumer(sheet, sheet.where, prefix, flow.version)
    check_beginning(sheet, prefix)
    environment = flow.sheet(flow.flow.environment, "environment")
    because = "only this target's workers: the other direction is no flow"
    environment.put(
        f"{flow.folder}/environment",
        "MIRROR_CLUSTERS",
        "mirror.flow",
        Choice(flow.flow.target, because, _MM2, "derived"),
    )
    # Tasks keep the partition numbers of the source: over all of them, a batch and a fetch a partition.
    fetched, said = fetched_mib(flow, tasks)
    buffers = math.ceil(tasks * buffer / MIB)
    because = (
        f"an estimated {BASE_MIB} MiB, {buffers} MiB for {tasks} producers' buffers of {buffer} bytes, one a "
        f"task, and {said}, as if one process ran all tasks"
    )
    mib = heap_of(BASE_MIB + buffers + fetched)
    codec = value_of(sheet, f"{flow.flow.target}.producer.compression.type")
    heap = put_jvm(environment, flow, mib, because, buffer // MIB, tasks=tasks, codec=codec)
    check_held(
        sheet, flow, heap, buffers, fetched, f"{tasks} tasks, each with a producer of its own, hold up to"
    )
    _name(sheet, names)
    for key, value in beaten.items():
        sheet.give(key, str(value))
    sheet.rest_of_own(file, "mirror.own")
    return together(sheet, environment)


def _name(sheet: Sheet, names: Mapping[str, str]) -> None:
    """Give settings, and what is said of them, the names that a person has for them."""
    if not names:
        return
    sheet.settings = [replace(s, key=names.get(s.key, s.key)) for s in sheet.settings]
    sheet.findings = [f.rewritten(partial(with_names, names=names)) for f in sheet.findings]


def _connect(sheet: Sheet, flow: Flow, file: str) -> None:
    spec, limits = flow.flow, flow.limits
    here, there = spec.source, spec.target

    def put(key: str, rule: str, value: str | int, because: str, source: str = _MM2) -> None:
        sheet.put(file, key, f"mirror.{rule}", Choice(value, because, source, "derived"))

    put("clusters", "flow", f"{here}, {there}", "source and target")
    put(f"{here}.bootstrap.servers", "cluster", flow.source_servers, f"the brokers of cluster {here}")
    put(f"{there}.bootstrap.servers", "cluster", flow.target_servers, f"the brokers of cluster {there}")
    # What stands under a cluster's name holds for all clients of it, those of the workers among them.
    plan_login(sheet, flow, "source", file, f"{here}.")
    plan_login(sheet, flow, "target", file, f"{there}.")
    put(f"{here}->{there}.enabled", "flow", "true", "the direction of the flow")
    put(f"{here}->{there}.topics", "flow", ",".join(spec.topics), "the topics of the flow")
    put(f"{there}->{here}.enabled", "flow", "false", "no flow goes back")
    put(f"{there}->{here}.emit.heartbeats.enabled", "flow", "false", "no heartbeats go back either")
    because = (
        f"a task, with a producer of its own, for each of the largest topic's {limits.largest} partitions"
    )
    tasks = Choice(limits.largest, because, f"{ARTICLE}, Increase parallelism", "documented")
    sheet.put(file, "tasks.max", "mirror.tasks", tasks)
    because = "flows between the same clusters are workers apart; by default they would share one group"
    put(f"{there}.group.id", "group", worker_group(flow.name), because)
    for kind, topic in (
        ("offset", offsets_topic(flow.name)),
        ("config", f"mm2-configs.{flow.name}.internal"),
        ("status", f"mm2-status.{flow.name}.internal"),
    ):
        put(
            f"{kind}.storage.topic", "group", topic, "the workers' own topic, apart from those of other flows"
        )
    of_target, of_source = (limits.target_copies, there), (limits.source_copies, here)
    location = "offset-syncs.topic.location"
    at_target = (sheet.own(f"{here}->{there}.{location}") or sheet.own(location)) == "target"
    alone: dict[tuple[int, str], dict[str, str]] = {}
    for key, end, held in (
        ("replication.factor", of_target, "mirrored records"),
        ("checkpoints.topic.replication.factor", of_target, "the translated offsets of groups"),
        ("heartbeats.topic.replication.factor", of_target, "the heartbeats"),
        (
            "offset-syncs.topic.replication.factor",
            of_target if at_target else of_source,
            "what group offsets are translated with",
        ),
        ("offset.storage.replication.factor", of_target, "the positions of the flow"),
        ("status.storage.replication.factor", of_target, "the states of its tasks"),
        ("config.storage.replication.factor", of_target, "the configuration of its tasks"),
    ):
        put(key, "replication", end[0], f"what the brokers of cluster {end[1]} can hold, 3 at most")
        if value_of(sheet, key) == "1" and end[0] > 1:
            alone.setdefault(end, {})[key] = held
    for (copies, where), lost in alone.items():
        first, *others = lost
        more = f" and {len(others)} more factors are" if others else " is"
        sheet.warning(
            "mirror.replication",
            f"{first}{sheet.of(sheet.where)}{more} 1, one copy: losing a broker of {where} loses "
            f"{', '.join(lost.values())}",
            f"set {', '.join(lost)} to {copies}",
            *lost,
        )
    policy = (
        "IdentityReplicationPolicy" if spec.replication_policy == "identity" else "DefaultReplicationPolicy"
    )
    named = (
        "the source's own name"
        if spec.replication_policy == "identity"
        else f"a name that begins with {here}."
    )
    put(
        "replication.policy.class",
        "policy",
        f"org.apache.kafka.connect.mirror.{policy}",
        f"replication_policy is {spec.replication_policy}: a target topic has {named}",
    )
    put(
        "dedicated.mode.enable.internal.rest",
        "rest",
        "true",
        "workers forward changes of tasks to their leader",
    )
    put("listeners", "rest", f"http://{ADDRESS}:0", "any free port of this host, for the other workers only")
    delay = min(_REBALANCE_DELAY_MS, max(10_000, spec.latency_budget_ms // 2))
    because = (
        "tasks of a worker that went wait this long for it: half of the latency budget of "
        f"{spec.latency_budget_ms} ms, 10 s at least, the default of 5 minutes at most"
    )
    basis: Basis = "documented" if delay == _REBALANCE_DELAY_MS else "estimate"
    waited = Choice(delay, because, _MM2, basis)
    sheet.put(file, f"{there}.scheduled.rebalance.max.delay.ms", "mirror.rebalance", waited)
    sheet.put(file, f"{there}.offset.flush.interval.ms", "mirror.commit", commit_interval(flow))
    put(
        f"{here}.consumer.group.id",
        "migration",
        consumer_group(flow.name),
        "a partition of which no offset is known here begins where the flow's classic processes committed; "
        "nothing is committed to the group",
        "MirrorSourceTask of Kafka; a flow moved under load, tests/kafka/test_mirror_maker_2.py",
    )
    put_receive_buffer(sheet, flow, file, f"{here}.consumer.")
    if spec.exactly_once:
        because = "exactly_once is true"
        put(f"{there}.exactly.once.source.support", "exactly_once", "enabled", because)
        put(f"{here}.consumer.isolation.level", "exactly_once", "read_committed", because)
        _transactions(sheet, flow, file)


def _transactions(sheet: Sheet, flow: Flow, file: str) -> None:
    """Plan how long a transaction of an exactly-once task is: what is in it is seen when it ends."""
    spec = flow.flow
    keys = f"{spec.source}->{spec.target}.transaction.boundary"
    because = (
        f"by default one ends with each poll, of {_POLL_RECORDS} records at most, and takes some round "
        f"trips of {spec.round_trip_ms:g} ms in which its task sends nothing; over 60 ms, "
        "ending by time gave 2.7 times the records/s"
    )
    source = "KIP-618; TransactionBoundary of Kafka Connect"
    boundary = Choice("interval", because, f"{source}; MirrorMaker facts, Exactly once", "measured")
    sheet.put(file, keys, "mirror.transactions", None, boundary)
    half = max(1, math.floor(spare_ms(spec) / 2))
    because = (
        f"half of what is left of the latency budget of {spec.latency_budget_ms} ms after a round trip and a "
        "fetch, because consumers see records when their transaction ends; at most "
        f"{_TRANSACTION_MS} ms, half of the time after which a broker ends it"
    )
    value = Choice(min(half, _TRANSACTION_MS), because, source, "estimate")
    sheet.put(file, f"{keys}.interval.ms", "mirror.transactions", None, value)
