#!/usr/bin/python
"""Keeps on every host what is deployed on all of them, so that a host that left the inventory is found."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_deployed_record
short_description: Note which host has which services, and find what is no longer planned
description:
  - Each host keeps the whole record, under /var/lib/kedge. A host that is taken out of the inventory is then
    known to those that are left.
  - On the host the record is read and written alone. What it means is judged on the control machine, where it
    is taken as that host's word. What is no such record is left out, with a warning that names the host.
  - Of a host that is planned, only its own record counts. Nobody else has it named as left behind.
  - Nothing is noted while a host has a service that others still have and it should not; that is left behind.
  - A service that no host is planned for may be another inventory's. It is reported, and kept in the record.
options:
  planned:
    type: dict
    default: {}
    description: "Host to its C(services) and its C(address), of the whole plan."
  forget: {type: str, default: "", description: "A host whose entry goes, less what is planned for it."}
  write: {type: dict, description: "What the host is to keep; the action of this name gives it."}
author: Kedge
"""

EXAMPLES = r"""
- name: Note what runs where
  kedge_deployed_record:
    planned: "{{ plan_made.plan.deployed }}"
  register: deployed_found
"""

RETURN = r"""
left:
  description:
    - What was deployed and is planned no more, a host each (host, address, services, stops, known, by).
    - C(left_together) puts that of several hosts together.
  returned: always
  type: list
  elements: dict
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils import atomic_files
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.node_lock import ROOT

FORMAT = 1
FILE = Path(ROOT) / ".deployed.json"
Hosts = Mapping[str, Mapping[str, Any]]


def read(file: Path) -> dict[str, Any]:
    """Return the record, empty where there is none; raises ValueError with what to do about another one."""
    try:
        found = json.loads(file.read_text())
        if found["format"] > FORMAT:
            message = f"{file} was written by a newer Kedge: deploy with one as new"
            raise ValueError(message)
        # A new field goes through kedge/evidence/border/deployed.py as well.
        hosts = {
            str(host): {"address": str(has["address"]), "services": [str(s) for s in has["services"]]}
            for host, has in found["hosts"].items()
        }
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        message = (
            f"{file} is no record of what is deployed ({error!r}): put it back, or delete it; the next "
            "deploy writes it anew, and hosts that left the inventory before that are not found"
        )
        raise ValueError(message) from None
    return hosts


def write(file: Path, record: Hosts) -> None:
    """Write the record; half of one is never there."""
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, "hosts": record}, indent=1, sort_keys=True)
    atomic_files.write(file, f"{text}\n", 0o600)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"write": {"type": "dict"}}, supports_check_mode=True)
    new = module.params["write"]
    try:
        record = read(FILE)
        if new is not None and not module.check_mode:
            write(FILE, new)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{error}. No host was touched. Fix that, then run the playbook again")
    module.exit_json(changed=new is not None and new != record, record=record)


if __name__ == "__main__":
    main()
