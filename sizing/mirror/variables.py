"""The variables of the role mirror_maker, validated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, PositiveFloat, model_validator

from sizing.clients.profiles import Profile
from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import contradiction, wrong_variable
from sizing.core.variables import Count, Positive, Scalar, Strict, Version, role_variables
from sizing.inventory.security import Name, Password
from sizing.keys.catalogue import Component, takes
from sizing.keys.values import check_names, check_values

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

    What kafka_topics declares is taken from there; ``largest_topic_partitions``, ``target_partitions`` (all
    partitions that the flow's producers write to) and ``max_message_bytes`` say what it does not declare.
    ``fill_ms_p95`` and ``fill_ms_p99`` are the time within which that share of batches fills, measured.
    ``source_bootstrap_servers`` and ``target_bootstrap_servers`` are where mirrors reach a cluster, if not
    where everyone does: a listener for the way between the data centres. ``source_user`` and ``target_user``
    are its logins, with their passwords, to clusters whose ``security`` asks for one.
    """

    source: str
    target: str
    topics: Annotated[list[Annotated[str, AfterValidator(_pattern)]], Field(min_length=1)]
    latency_budget_ms: Positive
    priority: Literal["bulk", "latency"] = "bulk"
    direction: Literal["push", "pull"] = "push"
    round_trip_ms: Annotated[float, Field(ge=0, le=10_000)] = 0
    link_mbit_per_s: PositiveFloat | None = None
    mb_per_s: PositiveFloat | None = None
    largest_topic_partitions: Positive | None = None
    target_partitions: Positive | None = None
    max_message_bytes: Positive | None = None
    max_compression_ratio: Annotated[float, Field(gt=0, le=1)] = 0.05
    fill_ms_p95: Positive | None = None
    fill_ms_p99: Positive | None = None
    processes: Positive | None = None
    heap_mib: Positive | None = None
    source_bootstrap_servers: str | None = None
    target_bootstrap_servers: str | None = None
    source_user: Name | None = None
    source_password: Password | None = None
    target_user: Name | None = None
    target_password: Password | None = None
    replication_policy: Literal["default", "identity"] = "default"
    exactly_once: bool = False
    profile: Profile | None = None
    consumer_settings: dict[str, Scalar] = Field(default_factory=dict)
    producer_settings: dict[str, Scalar] = Field(default_factory=dict)
    settings: dict[str, Scalar] = Field(default_factory=dict)
    environment: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _more_batches_take_longer(self) -> MirrorFlow:
        if self.fill_ms_p95 and self.fill_ms_p99 and self.fill_ms_p99 < self.fill_ms_p95:
            raise contradiction(
                "fill_ms_p99",
                f"99 of 100 batches fill within {self.fill_ms_p99} ms, and 95 of 100 within "
                f"{self.fill_ms_p95} ms",
            )
        return self


class MirrorMaker(Strict):
    """The variables of the role mirror_maker."""

    kind: Literal["classic", "mirror_maker_2"]
    version: Version
    flows: Annotated[
        dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,60}$")], MirrorFlow], Field(min_length=1)
    ]
    ready_seconds: Positive = 120
    stop_seconds: Positive = 120
    gate_seconds: Positive = 120
    gate_max_lag: Count = 10_000
    open_files: Positive = 100000


def mirror_makers(inventory: Inventory) -> tuple[dict[str, MirrorMaker], list[Finding]]:
    """Read the variables of every host of the group mirror_maker.

    A flow has the same definition on every host that runs it.
    """
    found: dict[str, MirrorMaker] = {}
    wrong: list[Finding] = []
    first: dict[str, tuple[str, MirrorFlow]] = {}
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
        for name, flow in variables.flows.items():
            other, same = first.setdefault(name, (host, flow))
            if same != flow:
                wrong.append(
                    wrong_variable(
                        f"mirror_maker_flows.{name}",
                        host,
                        f"is not what it is on {other}",
                        "define a flow once, in group_vars/mirror_maker",
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
    prefix = re.compile(rf"^(({ends})->({ends})\.|({ends})\.((consumer|producer|admin)\.)?)")
    return {key: prefix.sub("", key) for key in flow.settings}


def _values(where: str, host: str, flow: MirrorFlow, version: str) -> Iterator[Finding]:
    """Complain of values that a process of the flow would refuse to start with."""
    known: dict[str, str] = {}
    for component in (*BESIDE, "mm2"):
        # One that says nothing of a key takes nothing back of what another says.
        known |= {key: form for key, form in takes(component, version).items() if form}
    of_flow = {key: known.get(bare, "") for key, bare in bare_keys(flow).items()}
    yield from check_values(f"{where}.settings", host, flow.settings, of_flow)
    settings = flow.producer_settings
    yield from check_values(f"{where}.producer_settings", host, settings, takes("producer", version))
    settings = flow.consumer_settings
    yield from check_values(f"{where}.consumer_settings", host, settings, takes("consumer", version))
