"""A double of the gate, for fleets without a cluster: open."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

#: Three looks, one fifth of a second apart.
GATE_SECONDS = 0.6


class ActionModule(ActionBase):
    """Answers as a gate that is open."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Wait for as long as a gate does that is open."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        with Path(os.environ["KEDGE_CALLS"]).open("a") as calls:
            calls.write(f"{(task_vars or {})['inventory_hostname']} gate\n")
        time.sleep(GATE_SECONDS * float(os.environ.get("KEDGE_ANSWER_SCALE", "0")))
        return result | {"changed": False, "lags": {}, "kedge_actions": []}
