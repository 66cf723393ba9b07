"""When a balancer counts as ready: the probe that its host runs (plugins/module_utils/probes.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.plan.document import planned_value
from kedge.services.balancer.security import ANY
from kedge.services.rest.distribution import LISTENER

#: The runtime socket of a balancer, as plugins/module_utils/haproxy.py has it for what runs on hosts.
SOCKET: Final = "/run/rest-balancer/haproxy/admin.sock"
#: Stands for the password with which a balancer is asked; the role knows it.
_LOGIN: Final = "<the login of a client>"


def balancer_probe(balancer: Mapping[str, Any], socket: str = SOCKET, *, changing: bool) -> dict[str, Any]:
    """Return the probe that asks a balancer as a client would; a login in it has a mark for its secret."""
    name, _, port = planned_value(balancer, "bind").rpartition(":")
    address = "127.0.0.1" if name == ANY else name
    listener = next((s["file"] for s in balancer["settings"] if s["file"].endswith(f"/{LISTENER}")), None)
    user = balancer["software"]["login"]
    return {
        "kind": "haproxy",
        "socket": socket,
        "backend": "rest",
        "changing": changing,
        "front": f"{'https' if listener else 'http'}://{address}:{port}",
        "port": int(port),
        "host": planned_value(balancer, "check host"),
        "topic": planned_value(balancer, "health uri").removeprefix("/topics/"),
        **({"ca": listener, "pinned": True} if listener else {}),
        **({"user": user, "login": _LOGIN} if user else {}),
    }
