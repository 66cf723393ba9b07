"""The variables of the role kafka_broker."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kedge.plan.inventory.security import KeyPair, Name
from kedge.plan.variables import DefaultRule, HeapMib, Port, Positive, Scalar, Since, Strict


class KafkaBroker(Strict):
    """The variables of the role kafka_broker."""

    id: Annotated[Annotated[int, Field(ge=0, le=2**31 - 1)] | None, DefaultRule("broker.identity")] = None
    """The broker's node.id; required if the host's name has no number."""
    controller: bool = True
    """Whether the broker is also a controller; set false for a host added to a running cluster."""
    heap_mib: HeapMib = 1024
    """Heap of the broker."""
    ready_seconds: Positive = 60
    """How long a broker may take to be ready."""
    stop_seconds: Positive = 180
    """How long a broker may take to stop before it is killed."""
    port: Port = 9092
    """Port for clients; controllers listen on port 9093."""
    bind_address: Annotated[Name | None, Since("0.2.0")] = None
    """Address at which the broker and its controller listen; by default that which other machines use."""
    tls: KeyPair | None = None
    """Certificate and key of the broker; required if the cluster's security.protocol has TLS."""
    certificate_name: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._-]+$")] = None
    """Common name (CN) of the broker's certificate, if it is not the host's name in the inventory."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Keys of server.properties; they override the plan."""
    open_files: Positive = 100000
    """Limit of open files of the broker."""
    replicas_seconds: Positive = 600
    """How long replicas may take to be in sync before and after a restart."""
