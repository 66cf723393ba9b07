"""The variables of no service: what holds for the whole inventory, and what a host says of its place.

What an entry of a mapping or list holds is a model of its subject.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kedge.plan.variables import Strict


class Shared(Strict):
    """Read once for all hosts; set in group_vars/all."""

    advice: Literal["measured", "documented"] = "measured"
    """`measured` lets measurements correct the documents' values; `documented` does not."""
    kafka_clusters: dict[str, Any] = Field(default_factory=dict)
    """The Kafka clusters that services use, by names of your own."""
    kafka_topics: list[Any] = Field(default_factory=list)
    """Topics that a deploy creates and keeps configured; it deletes none."""
    kafka_clients: list[Any] = Field(default_factory=list)
    """Applications that Kedge does not deploy, and for whose Kafka clients the plan chooses settings."""
    kafka_partition_rates: list[Any] = Field(default_factory=list)
    """What one partition sustained in measurements; `kedge measure` writes it."""
    recommended: dict[str, Any] = Field(default_factory=dict)
    """Set by the recommendations.yml of a run: values that replace those of the inventory."""
    service_levels: dict[str, Any] = Field(default_factory=dict)
    """What a run has to reach. A check without a level is measured, and neither passes nor fails."""
    verify: dict[str, Any] | None = None
    """The load of verify.yml; required for that playbook."""
    verify_loads: dict[str, Any] = Field(default_factory=dict)
    """Further loads by names of your own, each as `verify` is; `-e verify_load=NAME` chooses one."""


class OfHost(Strict):
    """Of a host or a group of hosts."""

    data_center: str | None = None
    """Data center of the host; the plan compares it with that of the clusters."""
    rack: str | None = None
    """Rack, zone or host pair that fails as a whole; two hosts of one rack never restart together."""
    rollout: dict[str, Any] = Field(default_factory=dict)
    """How instances of a service restart together; the same for all hosts of the service."""
    fleet: bool = False
    """Whether the host belongs to a local fleet, which alone may have the sandbox proxy."""
