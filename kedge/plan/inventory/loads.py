"""The loads of an inventory: ``verify``, and those of ``verify_loads`` by name; a run chooses one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kedge.plan.hosts import Inventory

UNNAMED: Final = "verify"
NAMED: Final = "verify_loads"
CHOSEN: Final = "verify_load"


def loads(inventory: Inventory) -> dict[str, Any]:
    """Return every load by the full name of its variable."""
    found = {UNNAMED: inventory.common(UNNAMED)}
    named = inventory.common(NAMED)
    if isinstance(named, Mapping):
        found |= {f"{NAMED}.{name}": load for name, load in named.items()}
    return {name: load for name, load in found.items() if load is not None}


def chosen(inventory: Inventory) -> Any:
    """Return the load of this run; None where there is none of the name that was given."""
    name = inventory.common(CHOSEN)
    return loads(inventory).get(f"{NAMED}.{name}" if name else UNNAMED)
