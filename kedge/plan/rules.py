"""Since which release each rule gives the values that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The release that brought every rule which is not named below.
_FIRST: Final = "0.1.0"
#: Rules that a later release brought, changed or took away, with the last release that did; CHANGELOG.md
#: names each under that release.
CHANGED: Final[Mapping[str, str]] = {
    "balancer.bind": "0.2.0",
    "balancer.health": "0.2.0",
    "broker.cluster": "0.2.0",
    "client.stores": "0.2.0",
    "inventory.facts": "0.2.0",
    "inventory.hidden": "0.2.0",
    "clients.poll": "0.2.0",
    "clients.session": "0.2.0",
    "clients.transactions": "0.2.0",
    "java.flags": "0.2.0",
    "mirror.flows": "0.2.0",
    "mirror.producer.retries": "0.2.0",
    "mirror.round_trip": "0.2.0",
    "rest.consumer.pause": "0.2.0",
    "rest.consumer.poll_records": "0.2.0",
    "rest.heap.consumers": "0.2.0",
    "rest.host_check": "0.2.0",
    "rest.producer.batch": "0.2.0",
    "review.code": "0.2.0",
    "review.converter": "0.2.0",
    "review.login": "0.2.0",
    "review.loopback": "0.2.0",
    "review.missing": "0.2.0",
    "review.tls": "0.2.0",
    "streams.cache": "0.2.0",
    "streams.offsets": "0.2.0",
    "streams.transactions": "0.2.0",
}


def since(rule: str) -> str:
    """Return the release that brought a rule, or that last changed the values it gives."""
    return CHANGED.get(rule, _FIRST)
