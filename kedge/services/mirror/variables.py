"""The variables of the role mirror_maker, validated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, PositiveFloat, model_validator

from kedge.keys.accepted_values import check_names, check_values
from kedge.keys.catalogue import Component, known_keys, takes
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.security import HostFile, KeyPair, Password, Principal
from kedge.plan.measured_capacity import Measured
from kedge.plan.metrics import Metrics
from kedge.plan.restart_waits import GATE_MAX_LAG, GATE_SECONDS
from kedge.plan.variable_messages import contradiction, wrong_variable
from kedge.plan.variables import (
    Asked,
    Count,
    DefaultRule,
    MessageBytes,
    Positive,
    Predecessor,
    Scalar,
    Strict,
    Version,
    role_variables,
)
from kedge.services.clients.profiles import Profile

ROLE = "mirror_maker"
#: What reads the keys of a MirrorMaker 2 beside its own.
BESIDE: Final[tuple[Component, ...]] = ("consumer", "producer", "admin", "connect")


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        message = f"no regular expression ({error}); .* stands for any text"
        raise ValueError(message) from error
    if "," in value or any(c.isspace() for c in value):
        message = "a pattern has no comma and no space; write two patterns"
        raise ValueError(message)
    return value


class MirrorFlow(Strict):
    """A flow of topics from one cluster to another.

    Of its topics, what kafka_topics declares is taken from there.
    """

    source: str
    """The cluster to copy from, a name of kafka_clusters."""
    target: str
    """The cluster to copy to, a name of kafka_clusters."""
    topics: Annotated[list[Annotated[str, AfterValidator(_pattern)]], Field(min_length=1)]
    """Topics to mirror, as regular expressions that match whole names."""
    latency_budget_ms: Annotated[Positive, Asked(600_000)]
    """Largest age of a record when it arrives."""
    priority: Annotated[Literal["bulk", "latency"], Asked("latency")] = "bulk"
    """Whether batches fill for 30 s (bulk) or for 15 s (latency), unless fill times are given."""
    direction: Literal["push", "pull"] = "push"
    """Whether the mirrors' hosts are near the source (push) or near the target (pull)."""
    round_trip_ms: Annotated[float, Field(ge=0, le=10_000), Asked()] = 0
    """Round trip between the clusters."""
    link_mbit_per_s: Annotated[PositiveFloat | None, Asked(beside={"round_trip_ms": 100})] = None
    """Bandwidth that the flow may use between the clusters."""
    mb_per_s: Annotated[PositiveFloat | None, Asked()] = None
    """Rate of the flow at its peak, before compression, in 10^6 bytes a second."""
    largest_topic_partitions: Annotated[Positive | None, Asked()] = None
    """Partitions of its largest topic, if that topic is not in kafka_topics."""
    target_partitions: Positive | None = None
    """Number of partitions that it writes to at the target, if they are not in kafka_topics."""
    max_message_bytes: Annotated[MessageBytes | None, Asked()] = None
    """max.message.bytes of its topics, if they are not in kafka_topics."""
    max_compression_ratio: Annotated[float, Field(gt=0, le=1), Asked(0.5)] = 0.05
    """Compressed size of a batch, divided by its size, at worst; verify.yml measures it."""
    fill_ms_p95: Annotated[Positive | None, Asked()] = None
    """Time within which 95 percent of the batches fill; verify.yml measures it."""
    fill_ms_p99: Annotated[Positive | None, Asked(5000)] = None
    """Time within which 99 percent of the batches fill; verify.yml measures it."""
    processes: Annotated[Positive | None, DefaultRule("mirror.processes")] = None
    """Number of processes on all hosts together."""
    heap_mib: Annotated[Positive | None, DefaultRule("mirror.heap")] = None
    """Heap of one process."""
    source_bootstrap_servers: str | None = None
    """Bootstrap servers of the source for the mirrors; if not set, those of kafka_clusters."""
    target_bootstrap_servers: str | None = None
    """Bootstrap servers of the target for the mirrors; if not set, those of kafka_clusters."""
    source_user: Principal | None = None
    """Login to the source, if its security requires one."""
    source_password: Password | None = None
    """Password of the login to the source, best from a vault."""
    source_client_tls: KeyPair | None = None
    """Certificate and key towards the source, where its brokers ask for one."""
    source_keytab: HostFile | None = None
    """Path on the hosts of the keytab of `source_user`; the service's group has to read it (GSSAPI)."""
    target_user: Principal | None = None
    """Login to the target, if its security requires one."""
    target_password: Password | None = None
    """Password of the login to the target, best from a vault."""
    target_client_tls: KeyPair | None = None
    """Certificate and key towards the target, where its brokers ask for one."""
    target_keytab: HostFile | None = None
    """Path on the hosts of the keytab of `target_user`; the service's group has to read it (GSSAPI)."""
    replication_policy: Literal["default", "identity"] = "default"
    """Topic names on the target: with the source as prefix (default), or unchanged (MirrorMaker 2)."""
    exactly_once: bool = False
    """Whether copies are exactly once, by transactions (MirrorMaker 2)."""
    profile: Profile | None = None
    """Profile of its Kafka clients, as in kafka_clients, in addition to the rules for mirrors."""
    consumer_settings: dict[str, Scalar] = Field(default_factory=dict)
    """Consumer keys; they override the plan."""
    producer_settings: dict[str, Scalar] = Field(default_factory=dict)
    """Producer keys; they override the plan."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Keys of mm2.properties (MirrorMaker 2); they override the plan."""
    environment: dict[str, Scalar] = Field(default_factory=dict)
    """Environment variables of the processes."""
    metrics: Metrics | None = None
    """Metrics for Prometheus: process N of the flow has port first_port + N. Without it, none."""

    @model_validator(mode="after")
    def _more_batches_take_longer(self) -> MirrorFlow:
        if self.fill_ms_p95 and self.fill_ms_p99 and self.fill_ms_p99 < self.fill_ms_p95:
            raise contradiction(
                "fill_ms_p99",
                f"99 of 100 batches fill within {self.fill_ms_p99} ms, and 95 of 100 within "
                f"{self.fill_ms_p95} ms",
            )
        return self


class AdoptedProcess(Predecessor):
    """A process of a mirror that Kedge did not start."""

    host: str
    """Host of the inventory on which it runs."""


class AdoptedMirror(Strict):
    """A mirror that Kedge did not start and that a flow takes over from: its processes and its positions."""

    group: str | None = None
    """Of a classic MirrorMaker: its consumer group on the source, group.id of its consumer."""
    offsets_topic: str | None = None
    """Of MirrorMaker 2: topic on the target with its positions, such as mm2-offsets.SOURCE.internal."""
    offset_reset: Literal["earliest", "latest"] | None = None
    """auto.offset.reset of its consumer, for partitions with records of which it committed no position."""
    leave_out: list[str] = Field(default_factory=list)
    """Topics, by name, of which it has positions and that nobody is to mirror from then on."""
    processes: Annotated[list[AdoptedProcess], Field(min_length=1)]
    """All processes of it, on all hosts."""

    @model_validator(mode="after")
    def _has_positions(self) -> AdoptedMirror:
        if bool(self.group) is bool(self.offsets_topic):
            both = "are both set" if self.group else "are both missing"
            raise contradiction(
                "group",
                f"group and offsets_topic {both}",
                "name group.id of a classic MirrorMaker, or offsets_topic of a MirrorMaker 2",
            )
        return self

    @property
    def kind(self) -> str:
        """The kind of MirrorMaker that keeps its positions so."""
        return "mirror_maker_2" if self.offsets_topic else "classic"


class MeasuredFlow(Measured):
    """What the processes of a flow carry, as capacity.yml measured it."""

    flow: str
    """Flow of mirror_maker_flows that was measured."""
    kind: Literal["classic", "mirror_maker_2"]
    """Kind of the flow's processes."""
    processes: Positive
    """Number of the flow's processes on all hosts together."""


class MirrorMaker(Strict):
    """The variables of the role mirror_maker."""

    kind: Literal["classic", "mirror_maker_2"]
    """Kafka's own tool (`classic`, up to 3.9), or MirrorMaker 2 in dedicated mode (`mirror_maker_2`)."""
    version: Version
    """Version of Kafka's jars: 3.9.2, 4.3.1, or another one with a lock in kafka_lock."""
    flows: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,60}$")], MirrorFlow], Field(min_length=1)
    ]
    """What is mirrored, by names of your own; the instances of a flow are mirror-maker@FLOW-N."""
    adopt: dict[str, AdoptedMirror] = Field(default_factory=dict)
    """Mirrors that Kedge did not start, by the flow that takes over from each (docs/adopt.md)."""
    measured_capacity: MeasuredFlow | None = None
    """Load that a flow sustained in a run of capacity.yml; from its recommendations.yml."""
    ready_seconds: Positive = 120
    """How long a process may take until the target has acknowledged records."""
    stop_seconds: Positive = 120
    """How long a process may take to stop before it is killed."""
    gate_seconds: Positive = GATE_SECONDS
    """How long consumer groups may take to be stable again after a restart."""
    gate_max_lag: Count = GATE_MAX_LAG
    """Lag at which a group counts as caught up after a restart, whatever it was before."""
    open_files: Positive = 100000
    """Limit of open files of a process."""


def mirror_makers(inventory: Inventory) -> tuple[dict[str, MirrorMaker], list[Finding]]:
    """Read the variables of every host of the group mirror_maker.

    A flow has the same definition on every host that runs it.
    """
    found: dict[str, MirrorMaker] = {}
    wrong: list[Finding] = []
    first: dict[str, tuple[str, object]] = {}
    for host in inventory.group(ROLE):
        variables = role_variables(MirrorMaker, ROLE, host, inventory.hosts[host])
        if isinstance(variables, list):
            wrong += variables
            continue
        found[host] = variables
        for name, flow in variables.flows.items():
            where = f"mirror_maker_flows.{name}"
            wrong += _values(where, host, flow, variables.version)
            if flow.settings and variables.kind == "classic":
                fix = "write them into producer_settings or consumer_settings"
                what = "is read by MirrorMaker 2 alone, and mirror_maker_kind is classic"
                wrong.append(wrong_variable(f"{where}.settings", host, what, fix))
            wrong += check_names(f"{where}.environment", host, flow.environment)
        shared: dict[str, object] = {f"mirror_maker_flows.{name}": f for name, f in variables.flows.items()}
        for name, told in (shared | {"mirror_maker_adopt": variables.adopt}).items():
            other, same = first.setdefault(name, (host, told))
            if same != told:
                wrong.append(
                    wrong_variable(
                        name,
                        host,
                        f"is not what it is on {other}",
                        "define it once, in group_vars/mirror_maker",
                    )
                )
    kinds = {(v.kind, v.version) for v in found.values()}
    if len(kinds) > 1:
        wrong.append(
            wrong_variable(
                "mirror_maker_kind",
                "mirror_maker",
                f"and mirror_maker_version are {' and '.join(' '.join(k) for k in sorted(kinds))}",
                "use one kind and version for all hosts of a deployment",
            )
        )
    return found, wrong


def bare_keys(flow: MirrorFlow) -> dict[str, str]:
    """Return the keys of ``settings`` of a flow, each without the cluster and client that it is for."""
    ends = f"{re.escape(flow.source)}|{re.escape(flow.target)}"
    client = r"((source|target)\.(cluster\.)?)?(producer\.override\.|(consumer|producer|admin)\.)?"
    prefix = re.compile(rf"^(({ends})->({ends})\.{client}|({ends})\.((consumer|producer|admin)\.)?)")
    # A cluster may be called as a key of MirrorMaker 2 begins: source.cluster.alias.
    whole = known_keys("mm2", "4.3.1")
    return {key: key if key in whole else prefix.sub("", key) for key in flow.settings}


@cache
def _taken(version: str) -> Mapping[str, str]:
    """Return what each key of MirrorMaker 2 and of its clients takes."""
    # One that says nothing of a key takes nothing back of what another says.
    return {k: form for one in (*BESIDE, "mm2") for k, form in takes(one, version).items() if form}


def _values(where: str, host: str, flow: MirrorFlow, version: str) -> Iterator[Finding]:
    """Complain of values that a process of the flow would refuse to start with."""
    known = _taken(version)
    of_flow = {key: known.get(bare, "") for key, bare in bare_keys(flow).items()}
    yield from check_values(f"{where}.settings", host, flow.settings, of_flow)
    settings = flow.producer_settings
    yield from check_values(f"{where}.producer_settings", host, settings, takes("producer", version))
    settings = flow.consumer_settings
    yield from check_values(f"{where}.consumer_settings", host, settings, takes("consumer", version))
