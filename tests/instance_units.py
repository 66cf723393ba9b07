"""An instance's unit as ``kedge_instance`` makes it, for tests that play no module."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from plugins.modules import kedge_instance


def instance_unit(
    name: str, release: str | None, warn: Callable[[str], None] | None = None, **parameters: Any
) -> kedge_instance.InstanceUnit:
    """Return the unit of a proxy by the module's own defaults, with ``parameters`` in their place."""
    defaults = {
        "unit": "kafka-rest",
        "service": "kafka_rest",
        "ready": {},
        "secrets": {},
        "controls": {},
        "members": [],
        "adopts": {},
        "foreign": "",
        "ready_seconds": 5,
        "state": "restarted",
    }
    return kedge_instance.InstanceUnit(
        SimpleNamespace(params=defaults | parameters, warn=warn), name, release
    )
