#!/usr/bin/python
"""Holds services of a host for a run of a playbook."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_lease
short_description: Hold services of a host for this run, so that no other run changes them meanwhile
description:
  - C(taken) fails where another run holds one of the services, and says who, from where, since when and by
    which playbook. It then takes none. In check mode it takes none either, and warns.
  - A lease holds for 15 minutes, and is renewed while its run lives. With C(kept), a process of the control
    machine renews the leases on C(hosts), and gives them back when the run's process has ended. If the
    control machine is lost, they end by themselves.
  - The lease of a run that was begun on the same control machine, and has ended, does not count.
options:
  services:
    type: list
    elements: str
    default: []
    description: "The services, by their groups; {run} in a name stands for the id of the run."
  state:
    type: str
    choices: [taken, kept, renewed, returned]
    default: taken
    description: "What becomes true. C(kept) is done on the control machine."
  hosts: {type: list, elements: str, default: [], description: "With C(kept), the hosts."}
  take_over: {type: str, default: "", description: "The id of a run whose leases do not count."}
  root: {type: path, default: /var/lib/kedge, description: "Where leases are kept."}
  run: {type: dict, default: {}, description: "Set by Kedge: the run of the playbook (id, who, playbook)."}
  ended: {type: list, elements: str, default: [], description: "Set by Kedge: runs that have ended."}
author: Kedge
"""

EXAMPLES = r"""
- name: Hold the host's proxies for this run
  kedge_lease:
    services: [kafka_rest]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.leases import give_back, leases, others, renew, said, take
from ansible.module_utils.node_lock import ROOT

ARGUMENTS: dict[str, dict[str, Any]] = {
    "services": {"type": "list", "elements": "str", "default": []},
    "state": {"type": "str", "choices": ["taken", "kept", "renewed", "returned"], "default": "taken"},
    "hosts": {"type": "list", "elements": "str", "default": []},
    "take_over": {"type": "str", "default": ""},
    "root": {"type": "path", "default": str(ROOT)},
    "run": {"type": "dict", "default": {}},
    "ended": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """Run the module."""
    play(AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True))


def play(module: AnsibleModule) -> None:
    """Do what is asked for."""
    p, root = module.params, type(ROOT)(module.params["root"])
    ended = [*p["ended"], p["take_over"]]
    try:
        if p["state"] != "taken":
            done = (renew if p["state"] == "renewed" else give_back)(p["run"]["id"], root)
            module.exit_json(changed=done)
        if module.check_mode or not p["run"]:
            theirs = others(leases(root), p["run"], p["services"], ended)
        else:
            theirs = take(p["run"], p["services"], ended, root)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{error}. No instance was touched. Fix that, then run the playbook again")
    runs = sorted({lease["run"]["id"] for lease in theirs.values()})
    held = {
        said(lease): sorted(s for s in theirs if theirs[s]["run"] == lease["run"])
        for lease in theirs.values()
    }
    by = "; ".join(f"{', '.join(services)} is held {who}" for who, services in held.items())
    if module.check_mode and by:
        module.warn(f"a deploy would be refused now: {by}")
    elif by:
        module.fail_json(
            msg=f"{by}. No host was touched. Wait until that run has ended, then run the playbook again. If "
            f"you know that it has, add -e take_over={runs[0]}",
            runs=runs,
        )
    module.exit_json(changed=False, runs=runs)


if __name__ == "__main__":
    main()
