"""When an instance of an application counts as ready: the probe that its host runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.plan.document import planned_value


def state_file_probe(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the probe that waits until an application tells in its file that it runs."""
    path = planned_value(instance, "KEDGE_STATE_FILE")
    return {"kind": "state_file", "path": path, "unit": f"streams-app@{instance['name']}", "state": "RUNNING"}
