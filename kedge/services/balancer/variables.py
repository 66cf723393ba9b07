"""The variables of the role rest_balancer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kedge.plan.inventory.security import KeyPair, Name, Password
from kedge.plan.variables import Port, Positive, Since, Strict


class RestBalancer(Strict):
    """The variables of the role rest_balancer."""

    port: Port = 8080
    """Port that clients use."""
    address: Name | None = None
    """Address for clients that moves between several balancers, if there is one."""
    bind_address: Annotated[Name | None, Since("0.2.0")] = None
    """Address at which the balancer listens; by default the host's, or all if the inventory has a name."""
    consumer_minutes: Positive = 10
    """How long a balancer remembers a consumer's owning instance after its last request."""
    ready_seconds: Positive = 30
    """How long a balancer may take until it sees an instance up and serves a client's request."""
    tls: KeyPair | None = None
    """TLS for clients; without it, plain HTTP."""
    users: dict[Name, Password] = Field(default_factory=dict)
    """Users and passwords of clients (HTTP basic)."""
