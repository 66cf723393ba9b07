#!/usr/bin/python
"""Keeps on every host what is deployed on all of them, so that a host that left the inventory is found."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_deployed
short_description: Note which host has which services, and find what is no longer planned
description:
  - Each host keeps the whole record, under /var/lib/kedge. A host that is taken out of the inventory is then
    known to those that are left.
  - Nothing is noted while a host has a service that others still have and it should not; that is left behind.
  - A service that no host is planned for may be another inventory's. It is told, and kept in the record.
options:
  planned:
    type: dict
    default: {}
    description: "Host to its C(services) and its C(address), of the whole plan."
  forget: {type: str, default: "", description: "A host whose entry goes, less what is planned for it."}
author: Kedge
"""

EXAMPLES = r"""
- name: Note what runs where
  kedge_deployed:
    planned: "{{ plan_made.plan.deployed }}"
  register: deployed_found
"""

RETURN = r"""
left:
  description: What was deployed and is planned no more, a host each (host, address, services, stops, said).
  returned: always
  type: list
  elements: dict
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        hosts = {
            str(host): {"address": str(has["address"]), "services": [str(s) for s in has["services"]]}
            for host, has in found["hosts"].items()
        }
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        message = (
            f"{file} is no record of what is deployed ({error!r}): put it back, or delete it; the next "
            "deploy writes it anew, and hosts that left the inventory before that are not found"
        )
        raise ValueError(message) from None
    return hosts


def left_behind(record: Hosts, planned: Hosts) -> list[dict[str, Any]]:
    """Return what the record has and the plan has not; a host under another name at its address has it."""
    served = {service for has in planned.values() for service in has["services"]}
    at: dict[str, set[str]] = {}
    for has in planned.values():
        at.setdefault(has["address"], set()).update(has["services"])
    found = []
    for host, had in sorted(record.items()):
        now = {*planned.get(host, {}).get("services", ()), *at.get(had["address"], ())}
        for stops in (True, False):
            gone = [s for s in had["services"] if s not in now and (s in served) is stops]
            if gone:
                one = {"host": host, "address": had["address"], "services": gone, "stops": stops}
                found.append(one | {"said": said(one, known=host in planned)})
    return found


def said(left: Mapping[str, Any], *, known: bool) -> str:
    """Return what a person reads of a host that was left behind, and what to do."""
    host, services = left["host"], ", ".join(left["services"])
    there = f"{host} ({left['address']}) had {services} deployed and "
    there += (
        f"is no longer in the group{'s' * (len(left['services']) > 1)}" if known else "left the inventory"
    )
    if not left["stops"]:
        return f"{there}, and no other host has that now: if it is not another inventory's, it may still run"
    return (
        f"{there}: its processes may still run, with the names and ids that other hosts get. Stop and clear "
        f"them: ansible-playbook -i INV remove_host.yml -e host={host} (-e gone={host} where the machine "
        "does not exist any more), or put the host back"
    )


def next_record(record: Hosts, planned: Hosts, forget: str = "") -> dict[str, Any]:
    """Return the record of what is planned, with what may be another inventory's."""
    addresses = {has["address"] for has in planned.values()}
    new = {host: dict(has) for host, has in planned.items()}
    for one in left_behind(record, planned):
        if one["host"] != forget and not (one["host"] not in planned and one["address"] in addresses):
            entry = new.setdefault(one["host"], {"address": one["address"], "services": []})
            entry["services"] = [*entry["services"], *one["services"]]
    return new


def write(file: Path, record: Hosts) -> None:
    """Write the record; half of one is never there."""
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.touch(mode=0o600)
    new.write_text(json.dumps({"format": FORMAT, "hosts": record}, indent=1, sort_keys=True) + "\n")
    new.replace(file)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "planned": {"type": "dict", "default": {}},
            "forget": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    planned, forget = module.params["planned"], module.params["forget"]
    try:
        record = read(FILE)
        left = [one for one in left_behind(record, planned) if one["host"] != forget]
        new = next_record(record, planned, forget)
        # While something is left behind nothing is noted, but forgotten is what was removed.
        if any(one["stops"] for one in left):
            new = {h: has for h, has in record.items() if h != forget}
        changes = new != record
        if changes and not module.check_mode:
            write(FILE, new)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{error}. No host was touched. Fix that, then run the playbook again")
    module.exit_json(changed=changes, left=left)


if __name__ == "__main__":
    main()
