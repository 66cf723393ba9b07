"""The variables of the role kafka_broker."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sizing.core.variables import DefaultRule, HeapMib, Port, Positive, Scalar, Strict
from sizing.inventory.security import KeyPair


class KafkaBroker(Strict):
    """The variables of the role kafka_broker."""

    id: Annotated[Annotated[int, Field(ge=0, le=2**31 - 1)] | None, DefaultRule("broker.identity")] = None
    """The broker's node.id, needed where the host's name has no number."""
    controller: bool = True
    """Whether the broker is a controller too; false on hosts that are added to a running cluster."""
    heap_mib: HeapMib = 1024
    """Heap of the broker."""
    ready_seconds: Positive = 60
    """How long a broker may take to be ready."""
    stop_seconds: Positive = 180
    """How long a broker may take to stop before it is killed."""
    port: Port = 9092
    """Port of the clients' listener; the controller's is another one."""
    tls: KeyPair | None = None
    """Certificate and key of the broker, needed where security.protocol of the cluster has TLS."""
    certificate_name: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._-]+$")] = None
    """The common name (CN) in the broker's certificate, where it is not the inventory's name of the host."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Keys of server.properties of your own; they win over the plan's, and are checked."""
    open_files: Positive = 100000
    """Limit of open files of the broker."""
    replicas_seconds: Positive = 600
    """How long replicas may take to be in sync before and after a restart."""
