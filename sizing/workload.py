"""The inventory's variables, validated: the border between what a person writes and what the rules read.

A role's variables are flat and begin with the role's name (``kafka_rest_workload``); the model of a role
holds them without that prefix. Every complaint names the variable in full, the host, what is wrong and how
to mend it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sizing.model import Finding, Inventory

Positive = Annotated[int, Field(gt=0)]
Port = Annotated[int, Field(ge=1, le=65535)]
Version = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]
Scalar = str | int | float | bool


class Strict(BaseModel):
    """No unknown keys, no silent conversion between kinds, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class KafkaCluster(Strict):
    """A Kafka cluster: ours (``brokers`` names the group of its hosts) or somebody else's.

    Of somebody else's, the plan cannot count or read what it does not run: ``broker_count``,
    ``message_max_bytes`` (the brokers' message.max.bytes), ``other_partitions`` (beside the declared topics).
    """

    version: Version
    brokers: str | None = None
    bootstrap_servers: str | None = None
    data_center: str | None = None
    broker_count: Positive | None = None
    message_max_bytes: Positive | None = None
    other_partitions: Annotated[int, Field(ge=0)] = 0


class RestWorkload(Strict):
    """What the REST proxies of a host have to carry."""

    consumers: Annotated[int, Field(ge=0)] = 0
    largest_group: Annotated[int, Field(ge=0)] = 0
    partitions: Positive = 1
    records_per_request: Positive = 100
    record_bytes: Positive = 100
    delivery_latency_ms: Positive = 1000


class KafkaRest(Strict):
    """The variables of the role kafka_rest."""

    cluster: str
    distribution: Literal["confluent", "mapr", "strimzi", "sandbox"]
    version: Version
    instances_per_host: Positive | None = None
    first_port: Port = 8082
    workload: RestWorkload = RestWorkload()
    settings: dict[str, Scalar] = {}
    archive: str | None = None
    archive_checksum: str = ""
    ready_topic: str = "kedge-ready"
    ready_seconds: Positive = 60
    stop_seconds: Positive = 60
    open_files: Positive = 100000


class KafkaBroker(Strict):
    """The variables of the role kafka_broker."""

    heap_mib: Positive = 1024
    port: Port = 9092
    settings: dict[str, Scalar] = {}
    open_files: Positive = 100000


class RestBalancer(Strict):
    """The variables of the role rest_balancer."""

    port: Port = 8080
    consumer_minutes: Positive = 10


class HostFacts(Strict):
    """The machine itself, as the inventory states it."""

    cores: Positive
    memory_mib: Positive


M = TypeVar("M", bound=BaseModel)


def role_variables(
    model: type[M], role: str, host: str, variables: Mapping[str, Any], ignore: frozenset[str] = frozenset()
) -> M | list[Finding]:
    """Read the variables of a role on a host; return the model, or what is wrong with them."""
    prefix = f"{role}_"
    own = {
        k.removeprefix(prefix): v for k, v in variables.items() if k.startswith(prefix) and k not in ignore
    }
    return read_model(model, own, prefix, host)


def host_facts(host: str, variables: Mapping[str, Any]) -> HostFacts | list[Finding]:
    """Read ``host_cores`` and ``host_memory_mib``."""
    return role_variables(HostFacts, "host", host, {k: v for k, v in variables.items() if k in _HOST_FACTS})


_HOST_FACTS = frozenset({"host_cores", "host_memory_mib"})


def clusters(inventory: Inventory) -> tuple[dict[str, KafkaCluster], list[Finding]]:
    """Read ``kafka_clusters``."""
    found: dict[str, KafkaCluster] = {}
    wrong: list[Finding] = []
    for name, value in (inventory.common("kafka_clusters") or {}).items():
        cluster = read_model(KafkaCluster, value, f"kafka_clusters.{name}.", "all")
        if isinstance(cluster, list):
            wrong += cluster
        else:
            found[name] = cluster
    return found, wrong


def bootstrap(inventory: Inventory, name: str, cluster: KafkaCluster, port: int = 9092) -> str:
    """Return the bootstrap servers of a cluster."""
    if cluster.bootstrap_servers:
        return cluster.bootstrap_servers
    brokers = inventory.group(cluster.brokers or f"kafka_{name}")
    return ",".join(
        f"{inventory.address(b)}:{inventory.hosts[b].get('kafka_broker_port', port)}" for b in brokers
    )


def read_model(model: type[M], value: Any, prefix: str, where: str) -> M | list[Finding]:
    """Read one mapping; ``prefix`` begins the full name of its variables, ``where`` is a host or ``all``."""
    if not isinstance(value, Mapping):
        return [wrong_variable(prefix.rstrip("._"), where, f"is {value!r}", "write a mapping")]
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        return [_complaint(model, prefix, where, e) for e in error.errors()]


def _complaint(model: type[BaseModel], prefix: str, where: str, error: Any) -> Finding:
    path = ""
    for step in error["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    name = f"{prefix}{path}"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1]), model.model_fields, n=1)
        return wrong_variable(
            name, where, "is not known", f"did you mean {prefix}{near[0]}?" if near else "take it out"
        )
    if error["type"] == "missing":
        return wrong_variable(name, where, "is missing", "add it")
    return wrong_variable(name, where, f"is {error['input']!r}: {error['msg'].lower()}", "correct the value")


def wrong_variable(name: str, where: str, what: str, fix: str) -> Finding:
    """Return the complaint about one variable: ``name`` in full, what is wrong with it, how to mend it."""
    return Finding("error", "inventory.variable", f"{where}: {name}", f"{name} {what}", fix)
