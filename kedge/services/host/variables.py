"""The variables of the role host_tuning."""

from __future__ import annotations

from pydantic import Field

from kedge.plan.variables import Scalar, Strict


class HostTuning(Strict):
    """The variables of the role host_tuning."""

    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Kernel settings by any sysctl name; they override the plan, also where the host has more."""
