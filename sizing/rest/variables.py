"""The variables of the role kafka_rest, validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sizing.clients.profiles import Profile
from sizing.core.messages import contradiction
from sizing.core.variables import Count, HeapMib, Port, Positive, Scalar, Strict
from sizing.inventory.security import Name, Password, RestTls


class RestWorkload(Strict):
    """What the REST proxies of one host have to carry, spread evenly over its instances.

    Attributes:
        consumers: consumer instances that clients keep open.
        readers: how many of them read at the same time; all, unless said otherwise.
        largest_group: members of the largest consumer group, over all hosts.
        partitions: partitions assigned to one reader.
        full_reads: reads at the same time that fill up to consumer.request.max.bytes, if more than readers.
        records_per_s: records that clients produce.
        records_per_request: records in one produce request.
        record_bytes: size of one record.
        concurrent_requests: produce requests in flight; from the rate, unless said otherwise.
        connections: connections that clients keep open; no limit is planned without it.
        produce_wait_ms: how long a client waits for the answer to a produce request.
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
    produce_wait_ms: Annotated[int, Field(ge=3000, le=600_000)] = 30_000
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

    ``distribution`` is the name of one of ``sizing.rest.distributions``, whose records need this model:
    the planner holds it against them. ``heap_mib`` fixes the heap of a process. ``profile`` is that of
    the clients inside, as of ``kafka_clients``. ``consumers_via`` says where the URL points that a new
    consumer is told to follow: its own instance, or the balancer. ``user`` and ``password`` are its login
    to the cluster, ``users`` those who may log in to it (HTTP basic). ``install`` says how its software
    comes to a host: unpacked from ``archive``, or as ``package``, from the host's repositories or from a
    file that ``archive`` names; MapR's always is a package, all others are unpacked unless said
    otherwise. ``log_mib`` bounds the log of a process, ``plugin_keys`` are keys that its plugins read, or
    what such keys begin with. Of the MapR build are ``default_stream`` (a path), ``stream_nodes`` (nodes
    that hold the stream), ``stream_ttl_s``.
    """

    cluster: str
    distribution: str
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
    users: dict[Name, Password] = Field(default_factory=dict)
    workload: RestWorkload = RestWorkload()
    settings: dict[str, Scalar] = Field(default_factory=dict)
    plugin_keys: list[str] = Field(default_factory=list)
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


def ready_topic(variables: Mapping[str, Any]) -> str:
    """Return the topic to which readiness and the balancers' health checks of a REST host produce."""
    return str(variables.get("kafka_rest_ready_topic", KafkaRest.model_fields["ready_topic"].default))
