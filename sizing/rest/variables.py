"""The inventory's variables, validated: the border between what a person writes and what the rules read.

A role's variables are flat and begin with the role's name (``kafka_rest_workload``); the model of a role
holds them without that prefix. Every complaint names the variable in full, the host, what is wrong and how
to mend it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sizing import complaints
from sizing.client_profiles import Profile
from sizing.complaints import contradiction
from sizing.model import Finding, Inventory
from sizing.security import KeyPair, Name, Password, RestTls, Security

wrong_variable = complaints.wrong_variable

Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
HeapMib = Annotated[int, Field(ge=64, le=1024 * 1024)]
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
    other_partitions: Count = 0
    security: Security | None = None


class RestWorkload(Strict):
    """What the REST proxies of one host have to carry, spread evenly over its instances.

    Attributes:
        consumers: consumer instances that clients keep open.
        readers: how many of them read at the same time; all, unless said otherwise.
        largest_group: members of the largest consumer group, over all hosts.
        partitions: partitions assigned to one reader.
        full_reads: reads at the same time that fill up to consumer.request.max.bytes; usually none.
        records_per_s: records that clients produce.
        records_per_request: records in one produce request.
        record_bytes: size of one record.
        concurrent_requests: produce requests in flight; from the rate, unless said otherwise.
        connections: connections that clients keep open; no limit is planned without it.
        delivery_latency_ms: how long after its append a record may reach a reader.
        client_pause_ms: longest time for which a client that lives asks for nothing.
    """

    consumers: Count = 0
    readers: Count | None = None
    largest_group: Count = 0
    partitions: Annotated[int, Field(gt=0, le=100_000)] = 1
    full_reads: Count = 0
    records_per_s: Positive | None = None
    records_per_request: Positive = 100
    record_bytes: Positive = 100
    concurrent_requests: Positive | None = None
    connections: Positive | None = None
    delivery_latency_ms: Annotated[int, Field(ge=5, le=600_000)] = 1000
    client_pause_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 6000

    @model_validator(mode="after")
    def _readers_are_consumers(self) -> RestWorkload:
        if self.readers is not None and self.readers > self.consumers:
            raise contradiction("readers", f"{self.readers} readers are more than {self.consumers} consumers")
        if self.full_reads > self.consumers:
            raise contradiction(
                "full_reads", f"{self.full_reads} full reads are more than {self.consumers} consumers"
            )
        return self


class OtherBalancer(Strict):
    """A balancer in front of the proxies that the kit does not run: does it keep a consumer's home?"""

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
    sticky: bool


class Metrics(Strict):
    """Where each instance tells its metrics (Prometheus): a port each from ``first_port`` up."""

    first_port: Port
    address: str = "127.0.0.1"


class KafkaRest(Strict):
    """The variables of the role kafka_rest.

    ``heap_mib`` fixes the heap of a process. ``profile`` is that of the clients inside, as of
    ``kafka_clients``. ``consumers_via`` says where the URL points that a new consumer is told to follow: its
    own instance, or the balancer. ``user`` and ``password`` are its login to the cluster, ``users`` those who
    may log in to it (HTTP basic). ``install`` says how its software comes to a host: unpacked from
    ``archive``, or as ``package``, from the host's repositories or from a file that ``archive`` names; MapR's
    always is a package, all others are unpacked unless said otherwise. ``log_mib`` bounds the log of a
    process, ``plugin_keys`` are keys that its plugins read, or what such keys begin with. Of the MapR build
    are ``default_stream`` (a path), ``stream_nodes`` (nodes that hold the stream), ``stream_ttl_s``.
    """

    cluster: str
    distribution: Literal["confluent", "mapr", "strimzi", "sandbox"]
    version: Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+){0,2}$")]
    instances_per_host: Annotated[int, Field(gt=0, le=64)] | None = None
    first_port: Port = 8082
    heap_mib: HeapMib | None = None
    consumers_via: Literal["instance", "balancer"] = "instance"
    profile: Profile | None = None
    balancer: OtherBalancer | None = None
    schema_registry_url: str = ""
    zookeeper_connect: str | None = None
    default_stream: Annotated[str, Field(pattern=r"^/[^\s:]+$")] | None = None
    stream_nodes: Positive = 1
    stream_ttl_s: Count = 604_800
    tls: RestTls | None = None
    user: Name | None = None
    password: Password | None = None
    users: dict[Name, Password] = {}
    workload: RestWorkload = RestWorkload()
    settings: dict[str, Scalar] = {}
    plugin_keys: list[str] = []
    log_mib: Annotated[int, Field(ge=10, le=1024 * 1024)] = 500
    metrics: Metrics | None = None
    install: Literal["archive", "package"] | None = None
    package: str | None = None
    node: str | None = None
    archive: str | None = None
    archive_checksum: Annotated[str, Field(pattern=r"^((sha256:)?[0-9a-fA-F]{64})?$")] = ""
    ready_topic: str = "kedge-ready"
    ready_seconds: Positive = 60
    stop_seconds: Positive = 60
    gate_seconds: Positive = 120
    gate_max_lag: Count = 10_000
    open_files: Positive = 100000

    @model_validator(mode="after")
    def _ports_exist(self) -> KafkaRest:
        last = self.first_port + (self.instances_per_host or 1) - 1
        if last > 65535:
            raise contradiction(
                "first_port", f"{self.instances_per_host} instances from it would need port {last}"
            )
        return self


class KafkaBroker(Strict):
    """The variables of the role kafka_broker; ``id`` is the broker's node.id where its name has no number."""

    id: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    heap_mib: HeapMib = 1024
    ready_seconds: Positive = 60
    stop_seconds: Positive = 180
    port: Port = 9092
    tls: KeyPair | None = None
    settings: dict[str, Scalar] = {}
    open_files: Positive = 100000
    replicas_seconds: Positive = 600


class RestBalancer(Strict):
    """The variables of the role rest_balancer; ``address`` is one that moves between several balancers."""

    port: Port = 8080
    address: Name | None = None
    consumer_minutes: Positive = 10
    ready_seconds: Positive = 30
    tls: KeyPair | None = None
    users: dict[Name, Password] = {}


class HostFacts(Strict):
    """The machine itself, as the inventory states it.

    ``link_mbit_per_s`` and ``round_trip_ms`` are those of the longest way that its traffic takes; without
    them no bandwidth-delay product is planned.
    """

    cores: Annotated[int, Field(gt=0, le=4096)]
    memory_mib: Annotated[int, Field(ge=256, le=64 * 1024 * 1024)]
    link_mbit_per_s: Positive | None = None
    round_trip_ms: Annotated[float, Field(gt=0, le=10_000)] | None = None


class HostTuning(Strict):
    """The variables of the role host_tuning: kernel settings of a person's own, by their sysctl names."""

    settings: dict[str, Scalar] = {}


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


def ready_topic(variables: Mapping[str, Any]) -> str:
    """Return the topic to which readiness and the balancers' health checks of a REST host produce."""
    return str(variables.get("kafka_rest_ready_topic", KafkaRest.model_fields["ready_topic"].default))


def host_facts(host: str, variables: Mapping[str, Any]) -> HostFacts | list[Finding]:
    """Read ``host_cores``, ``host_memory_mib`` and what else is known of the machine."""
    return role_variables(HostFacts, "host", host, {k: v for k, v in variables.items() if k in _HOST_FACTS})


_HOST_FACTS = frozenset(f"host_{name}" for name in HostFacts.model_fields)


def clusters(inventory: Inventory) -> tuple[dict[str, KafkaCluster], list[Finding]]:
    """Read ``kafka_clusters``."""
    found: dict[str, KafkaCluster] = {}
    wrong: list[Finding] = []
    declared = inventory.common("kafka_clusters") or {}
    if not isinstance(declared, Mapping):
        return found, [
            wrong_variable(
                "kafka_clusters",
                "all",
                complaints.no_mapping(declared),
                "write a mapping from name to cluster",
            )
        ]
    for name, value in declared.items():
        cluster = read_model(KafkaCluster, value, f"kafka_clusters.{name}.", "all")
        if isinstance(cluster, list):
            wrong += cluster
        else:
            found[name] = cluster
    return found, wrong


def cluster_names(inventory: Inventory) -> frozenset[str]:
    """Return the names of ``kafka_clusters``, also those of clusters that are declared wrongly."""
    declared = inventory.common("kafka_clusters")
    return frozenset(map(str, declared)) if isinstance(declared, Mapping) else frozenset()


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
        return [wrong_variable(prefix.rstrip("._"), where, complaints.no_mapping(value), "write a mapping")]
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        return complaints.complaints(model, prefix, where, error.errors(include_url=False))
