"""Computes the plan of the whole inventory once, on the control machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

# The kit's packages lie beside its plugins; Ansible puts neither on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sizing.model import Inventory
from sizing.plan import make_plan
from sizing.workload import bootstrap, clusters

#: What the rules read; other variables stay where they are, secrets included.
_PREFIXES = (
    "advice",
    "ansible_host",
    "data_center",
    "fleet",
    "host_",
    "kafka_",
    "mirror_maker_",
    "rest_balancer_",
    "service_levels",
    "streams_app_",
    "verify",
)


class ActionModule(ActionBase):
    """Returns the plan as the fact ``kedge_plan``; fails when it holds an error."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"dest"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plan; ``dest`` names a file that takes the plan as JSON."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        hostvars = task_vars["hostvars"]
        groups = {name: tuple(hosts) for name, hosts in task_vars["groups"].items()}
        hosts = {
            host: {k: hostvars[host][k] for k in hostvars[host] if k.startswith(_PREFIXES)}
            for host in groups.get("all", ())
        }
        inventory = Inventory(hosts=hosts, groups=groups)
        plan = make_plan(inventory)
        errors = [f for f in plan.findings if f.severity == "error"]
        if errors:
            lines = [f"{f.where}: {f.message}. Mend: {f.fix}" for f in errors]
            raise AnsibleActionFail("the plan has errors, no host was touched:\n  " + "\n  ".join(lines))
        document = plan.to_json()
        document["clusters"] = {
            name: {"bootstrap_servers": bootstrap(inventory, name, cluster)}
            for name, cluster in clusters(inventory)[0].items()
        }
        if dest := self._task.args.get("dest"):
            Path(dest).write_text(json.dumps(document, indent=1) + "\n")
        result["ansible_facts"] = {"kedge_plan": document}
        result["warnings"] = [
            f"{f.where}: {f.message}. Mend: {f.fix}" for f in plan.findings if f.severity == "warning"
        ]
        return result
