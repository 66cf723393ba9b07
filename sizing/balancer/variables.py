"""The variables of the role rest_balancer."""

from __future__ import annotations

from pydantic import Field

from sizing.core.variables import Port, Positive, Strict
from sizing.inventory.security import KeyPair, Name, Password


class RestBalancer(Strict):
    """The variables of the role rest_balancer."""

    port: Port = 8080
    """Port that clients use."""
    address: Name | None = None
    """An address that moves between several balancers, if there is one."""
    consumer_minutes: Positive = 10
    """How long a consumer's instance is remembered after the consumer's last request."""
    ready_seconds: Positive = 30
    """How long a balancer may take until it answers and sees an instance up."""
    tls: KeyPair | None = None
    """Certificate and key that clients see; plain HTTP without it."""
    users: dict[Name, Password] = Field(default_factory=dict)
    """Who may log in (HTTP basic), each with a password; anybody without it."""
