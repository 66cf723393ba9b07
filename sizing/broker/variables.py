"""The variables of the role kafka_broker."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sizing.core.variables import HeapMib, Port, Positive, Scalar, Strict
from sizing.inventory.security import KeyPair


class KafkaBroker(Strict):
    """The variables of the role kafka_broker; ``id`` is the broker's node.id where its name has no number."""

    id: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    heap_mib: HeapMib = 1024
    ready_seconds: Positive = 60
    stop_seconds: Positive = 180
    port: Port = 9092
    tls: KeyPair | None = None
    settings: dict[str, Scalar] = Field(default_factory=dict)
    open_files: Positive = 100000
    replicas_seconds: Positive = 600
