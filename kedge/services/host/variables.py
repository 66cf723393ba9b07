"""The machine as the inventory states it, and the variables of the role host_tuning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from kedge.plan.findings import Finding
from kedge.plan.variables import Positive, Scalar, Strict, role_variables


class HostFacts(Strict):
    """The machine itself, as the inventory states it."""

    cores: Annotated[int, Field(gt=0, le=4096)]
    """Cores of the machine."""
    memory_mib: Annotated[int, Field(ge=256, le=64 * 1024 * 1024)]
    """Memory of the machine."""
    link_mbit_per_s: Positive | None = None
    """Bandwidth of the host's longest network path. With host_round_trip_ms it sizes socket buffers."""
    round_trip_ms: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """Round trip of the host's longest network path. From 20 ms, kafka-rest may fill larger batches."""


#: The full names of these variables.
HOST_FACTS: Final = tuple(f"host_{name}" for name in HostFacts.model_fields)


def host_facts(host: str, variables: Mapping[str, Any]) -> HostFacts | list[Finding]:
    """Read ``host_cores``, ``host_memory_mib`` and what else is known of the machine."""
    return role_variables(HostFacts, "host", host, {k: v for k, v in variables.items() if k in HOST_FACTS})


class HostTuning(Strict):
    """The variables of the role host_tuning."""

    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Kernel settings by any sysctl name; they override the plan, also where the host has more."""
