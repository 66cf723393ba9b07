"""The variables of the role kafka_rest, validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kedge.plan.inventory.security import HostFile, KeyPair, Name, Password, Principal, RestTls
from kedge.plan.measured_capacity import Measured
from kedge.plan.metrics import Metrics
from kedge.plan.restart_waits import GATE_MAX_LAG, GATE_SECONDS
from kedge.plan.variable_messages import contradiction
from kedge.plan.variables import (
    Asked,
    Count,
    DefaultRule,
    HeapMib,
    Port,
    Positive,
    Predecessor,
    Scalar,
    Strict,
)
from kedge.services.clients.profiles import Profile


class RestWorkload(Strict):
    """What the REST proxies of one host have to carry, spread evenly over its instances."""

    consumers: Annotated[Count, Asked()] = 0
    """Consumer instances that clients keep open."""
    readers: Annotated[Count | None, Asked(beside={"consumers": 100})] = None
    """How many of them read at the same time; if not set, all."""
    reader_records_per_s: Annotated[Positive | None, Asked()] = None
    """Records that one of them reads a second; if not set, 100 are assumed."""
    largest_group: Annotated[Count, Asked(beside={"consumers": 100})] = 0
    """Members of the largest consumer group, on all hosts together."""
    partitions: Annotated[int, Field(gt=0, le=100_000), Asked(beside={"consumers": 100})] = 1
    """Partitions that one reader is assigned."""
    full_reads: Count = 0
    """Reads at the same time whose answer reaches consumer.request.max.bytes, if more than readers."""
    records_per_s: Annotated[Positive | None, Asked()] = None
    """Records that clients produce a second."""
    records_per_request: Annotated[Positive, Asked()] = 100
    """Records in one produce request."""
    record_bytes: Annotated[Positive, Asked()] = 100
    """Size of one record."""
    concurrent_requests: Annotated[Positive | None, DefaultRule("jetty.threads")] = None
    """Produce requests in flight; if not set, computed from records_per_s."""
    connections: Annotated[Positive | None, Asked()] = None
    """Connections that clients keep open; without it no limit is planned."""
    produce_wait_ms: Annotated[int, Field(ge=3000, le=600_000), Asked()] = 30_000
    """How long a client waits for the answer to a produce request."""
    delivery_latency_ms: Annotated[int, Field(ge=5, le=600_000), Asked()] = 1000
    """Time from a record's append within which a reader has to get it."""
    client_pause_ms: Annotated[int, Field(ge=100, le=3_600_000), Asked()] = 6000
    """Longest time for which a live client sends no request."""

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
    """A balancer in front of the proxies that the kit does not run."""

    url: Annotated[str, Field(pattern=r"^https?://[^/\s]+$")]
    """Its URL for clients, http://host:port or https://host:port."""
    sticky: bool
    """Whether it sends a consumer's requests to the consumer's owning instance."""
    drain: list[str] = Field(default_factory=list)
    """Command that drains an instance, and ends when that is done; may use {host}, {address}, {port}."""
    undrain: list[str] = Field(default_factory=list)
    """Command that puts the instance back; may use the same names."""

    @model_validator(mode="after")
    def _what_goes_out_comes_back(self) -> OtherBalancer:
        for name, other in (("drain", "undrain"), ("undrain", "drain")):
            words = getattr(self, name)
            if not words and getattr(self, other):
                raise contradiction(name, f"is missing beside {other}", "give both commands, or none")
            if words and not any("{port}" in word for word in words):
                raise contradiction(
                    name, "names no instance: none of its words has {port}", "write {port} where it belongs"
                )
        return self


class Adopted(Predecessor):
    """A proxy that Kedge did not start and that one of its instances takes over from, on one port."""

    port: Port
    """Port of the predecessor, and of the instance that takes over."""

    @model_validator(mode="after")
    def _is_not_the_instance(self) -> Adopted:
        if self.unit == f"kafka-rest@{self.port}.service":
            raise contradiction(
                "unit", f"{self.unit} is the instance that takes over", "name its predecessor"
            )
        return self


class MeasuredCapacity(Measured):
    """What proxies of this kind carry, as capacity.yml measured it."""

    distribution: str
    """Distribution of the measured proxies."""
    instances_per_host: Positive
    """Instances on each host."""
    records_per_request: Positive
    """Records in one produce request of the load."""


class KafkaRest(Strict):
    """The variables of the role kafka_rest."""

    cluster: str
    """The cluster that the proxies serve, a name of kafka_clusters."""
    # A name of kedge.services.rest.distributions, whose records need this model: the planner holds it against
    # them.
    distribution: str
    """The software: confluent, strimzi, mapr, or sandbox on a local fleet."""
    version: Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+){0,2}$")]
    """Version of the proxy, such as 8.3.1."""
    instances_per_host: Annotated[
        Annotated[int, Field(gt=0, le=64)] | None, DefaultRule("rest.instances")
    ] = None
    """Number of instances on each host."""
    first_port: Port = 8082
    """Port of the first instance; each further instance has the next port."""
    heap_mib: Annotated[HeapMib | None, DefaultRule("rest.heap.consumers")] = None
    """Heap of one process, all of it from the start."""
    consumers_via: Annotated[Literal["instance", "balancer"] | None, DefaultRule("rest.identity")] = None
    """What the base URI of a new consumer names: its own instance, or the balancer."""
    profile: Profile | None = None
    """Profile of the proxy's Kafka clients, as in kafka_clients; without it, their own defaults."""
    balancer: OtherBalancer | None = None
    """Your own balancer in front of the proxies, if there is no group rest_balancer."""
    adopt: list[Adopted] = Field(default_factory=list)
    """Proxies on the host that Kedge did not start; the instance of the same port takes each over."""
    schema_registry_url: str = ""
    """URL of the schema registry."""
    zookeeper_connect: str | None = None
    """ZooKeeper, HOST:PORT,HOST:PORT; only for versions that read zookeeper.connect."""
    default_stream: Annotated[str, Field(pattern=r"^/[^\s:]+$")] | None = None
    """Path of the default stream (MapR)."""
    stream_nodes: Positive = 1
    """Nodes that hold the default stream (MapR)."""
    stream_ttl_s: Count = 604_800
    """How long the default stream keeps a record (MapR)."""
    tls: RestTls | None = None
    """TLS of the instances' listeners; without it, plain HTTP."""
    user: Principal | None = None
    """Login of the proxies to their cluster, if its security requires one."""
    password: Password | None = None
    """Password of that login, best from a vault."""
    client_tls: KeyPair | None = None
    """Certificate and key of the proxies towards their cluster, where brokers ask for one."""
    keytab: HostFile | None = None
    """Path on the hosts of the keytab of `kafka_rest_user`; the service's group has to read it (GSSAPI)."""
    users: dict[Name, Password] = Field(default_factory=dict)
    """Users and passwords of the proxies' clients (HTTP basic)."""
    workload: RestWorkload = RestWorkload()
    """Load that the proxies of one host have to sustain while another host is down."""
    measured_capacity: MeasuredCapacity | None = None
    """Load that such hosts sustained in a run of capacity.yml; from its recommendations.yml."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Keys of kafka-rest.properties; they override the plan."""
    plugin_keys: list[str] = Field(default_factory=list)
    """Keys that your plugins read, or prefixes of such keys; the plan does not report them as unknown."""
    log_mib: Annotated[int, Field(ge=10, le=1024 * 1024)] = 500
    """Largest size of one instance's log on disk."""
    metrics: Metrics | None = None
    """Metrics for Prometheus."""
    install: Literal["archive", "package"] | None = None
    """How the software is installed; if not set, in the way that its distribution is published."""
    package: str | None = None
    """Name of the package; if not set, the distribution's."""
    package_version: Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.+~:_-]*$")] | None = None
    """Exact version of the package; if not set, any package of kafka_rest_version."""
    node: str | None = None
    """The host's name in Warden (MapR); if not set, that of the inventory."""
    archive: str | None = None
    """Archive or package file to install, needed for an archive: a path on the control machine, or a URL."""
    archive_checksum: Annotated[str, Field(pattern=r"^((sha256:)?[0-9a-fA-F]{64})?$")] = ""
    """SHA-256 of kafka_rest_archive."""
    ready_topic: str = "kedge-ready"
    """Topic to which readiness and the balancers' health checks produce."""
    ready_seconds: Positive = 150
    """How long a started instance may take until a produce request gets an offset."""
    stop_seconds: Positive = 60
    """How long an instance may take to stop before it is killed."""
    gate_seconds: Positive = GATE_SECONDS
    """How long consumer groups may take to be stable again after a restart."""
    gate_max_lag: Count = GATE_MAX_LAG
    """Lag at which a group counts as caught up after a restart, whatever it was before."""
    open_files: Positive = 100000
    """Least limit of open files of an instance."""

    @model_validator(mode="after")
    def _ports_exist(self) -> KafkaRest:
        last = self.first_port + (self.instances_per_host or 1) - 1
        if last > 65535:
            raise contradiction(
                "first_port", f"{self.instances_per_host} instances from it would need port {last}"
            )
        return self

    @model_validator(mode="after")
    def _each_is_adopted_once(self) -> KafkaRest:
        ports = [f"port {one.port}" for one in self.adopt]
        units = [f"unit {one.unit}" for one in self.adopt if one.unit]
        if twice := [one for each in (ports, units) for one in each if each.count(one) > 1]:
            raise contradiction("adopt", f"{twice[0]} is in two of its entries", "name each predecessor once")
        return self


def ready_topic(variables: Mapping[str, Any]) -> str:
    """Return the topic to which readiness and the balancers' health checks of a REST host produce."""
    return str(variables.get("kafka_rest_ready_topic", KafkaRest.model_fields["ready_topic"].default))
