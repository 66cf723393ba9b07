"""What verification has to know of Streams applications, for the plan's JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kedge.plan.hosts import Inventory
from kedge.services.streams.changelog_checks import needs
from kedge.services.streams.variables import streams_apps


def applications_json(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Return by name where each application runs, what it makes of a record, and what its changelogs keep."""
    return {
        spec.name: {
            "cluster": spec.cluster,
            "exactly_once": spec.exactly_once,
            "delivery": spec.delivery.model_dump() if spec.delivery else None,
            "changelogs": asdict(needs(spec)),
        }
        for spec in streams_apps(inventory)[0].values()
    }
