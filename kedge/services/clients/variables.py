"""The declared clients, validated."""

from __future__ import annotations

from pydantic import Field

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.variable_messages import wrong_variable
from kedge.plan.variables import Scalar, Strict, Version, read_list
from kedge.services.clients.profiles import Library, Profile
from kedge.services.topics.variables import Name


class ClientProfile(Strict):
    """Settings for somebody's producer and consumer: a profile for a library and its version."""

    name: Name
    """Name of the application, and of the files that the plan writes for it."""
    cluster: str
    """Its cluster, a name of kafka_clusters."""
    library: Library
    """The client library."""
    version: Version
    """Version of the library."""
    profile: Profile
    """What the plan optimizes its settings for."""
    topics: list[str] = Field(default_factory=list)
    """Topics that it writes or reads."""
    producer_settings: dict[str, Scalar] = Field(default_factory=dict)
    """Producer keys; they override the plan."""
    consumer_settings: dict[str, Scalar] = Field(default_factory=dict)
    """Consumer keys; they override the plan."""


def clients(inventory: Inventory) -> tuple[list[ClientProfile], list[Finding]]:
    """Read ``kafka_clients``; two clients of one name are a finding."""
    found, wrong = read_list(ClientProfile, inventory, "kafka_clients")
    seen: dict[str, str] = {}
    for where, client in found:
        if client.name in seen:
            wrong.append(
                wrong_variable(
                    f"{where}.name",
                    "all",
                    f"is {client.name!r}, as {seen[client.name]} is",
                    "give each client a name of its own",
                )
            )
        seen.setdefault(client.name, where)
    return [c for _, c in found], wrong
