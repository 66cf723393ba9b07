"""The variables of the role rest_balancer."""

from __future__ import annotations

from pydantic import Field

from sizing.core.variables import Port, Positive, Strict
from sizing.inventory.security import KeyPair, Name, Password


class RestBalancer(Strict):
    """The variables of the role rest_balancer; ``address`` is one that moves between several balancers."""

    port: Port = 8080
    address: Name | None = None
    consumer_minutes: Positive = 10
    ready_seconds: Positive = 30
    tls: KeyPair | None = None
    users: dict[Name, Password] = Field(default_factory=dict)
