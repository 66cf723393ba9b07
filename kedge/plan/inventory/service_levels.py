"""The service levels of an inventory, which rules of several subjects hold their settings against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from kedge.evidence.levels import Levels
from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.variable_messages import no_mapping, validation_findings, wrong_variable


def service_levels(inventory: Inventory) -> Mapping[str, Any]:
    """Return the service levels; none where they are wrong, which ``check_verification`` finds."""
    levels = inventory.common("service_levels")
    return {} if levels is None or check_model(Levels, "service_levels", levels) else levels


def check_model(model: type[BaseModel], name: str, value: Any) -> list[Finding]:
    """Return what is wrong with a variable of the whole inventory that a model of the evidence reads."""
    if not isinstance(value, Mapping):
        return [wrong_variable(name, "all", no_mapping(value), "write a mapping")]
    try:
        model.model_validate(dict(value), strict=True)
    except ValidationError as error:
        return validation_findings(model, f"{name}.", "all", error.errors(include_url=False))
    return []
