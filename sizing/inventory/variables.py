"""The variables of no service: what holds for the whole inventory, and what a host says of its place.

What an entry of a mapping or list holds is a model of its subject.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from sizing.core.variables import Strict


class Shared(Strict):
    """Read once for all hosts; set in group_vars/all."""

    advice: Literal["measured", "documented"] = "measured"
    """Which values the plan takes: those of measurements, or the documents to the letter."""
    kafka_clusters: dict[str, Any] = Field(default_factory=dict)
    """The Kafka clusters, by names of your own."""
    kafka_topics: list[Any] = Field(default_factory=list)
    """The topics to have."""
    kafka_clients: list[Any] = Field(default_factory=list)
    """Applications that you configure yourself, for which the plan says with what."""
    kafka_partition_rates: list[Any] = Field(default_factory=list)
    """What partitions were measured to sustain; python -m verify.measure writes it to a file of variables."""
    recommended: dict[str, Any] = Field(default_factory=dict)
    """Values that verify.yml recommends, in its recommendations.yml; they are laid over the inventory."""
    service_levels: dict[str, Any] = Field(default_factory=dict)
    """What verify.yml holds the deployment against; what has no level is measured, and not judged."""
    verify: dict[str, Any] | None = None
    """What verify.yml loads, and for how long; it stops without it."""
    verify_loads: dict[str, Any] = Field(default_factory=dict)
    """Further loads by names of your own, each as `verify` is; `-e verify_load=NAME` chooses one."""


class OfHost(Strict):
    """Of a host or a group of hosts."""

    data_center: str | None = None
    """Where the host stands, held against data_center of the clusters."""
    rack: str | None = None
    """What fails together with it (a rack, a zone, a host pair): two hosts of one never restart together."""
    rollout: dict[str, Any] = Field(default_factory=dict)
    """How the instances of a service are restarted; the same for all its hosts."""
    fleet: bool = False
    """Whether the host is of a local fleet; only there the sandbox proxy is deployed."""
