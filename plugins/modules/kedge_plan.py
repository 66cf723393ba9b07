"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_plan
short_description: Plan the whole inventory, and stop where the plan has an error
description:
  - Plans every host of the inventory, and leaves the plan as the fact C(kedge_plan), with a mark in the
    place of each secret. What the marks stand for is in the fact C(kedge_secrets).
  - Fails, with every error of the plan, before a host is touched. Runs on the control machine.
options:
  show:
    type: bool
    default: false
    description: "Print the plan; with -v every setting of it with its reason."
  archives:
    type: str
    choices: [ignore, look, need]
    default: ignore
    description:
      - What to do about the archives that services are installed from, and about certificates and keys.
        C(look) reads them, and what is wrong is a warning; to C(need) it is an error. Each archive is read
        once, however many hosts use it.
  dest: {type: path, description: "File that takes the plan as JSON, also one with errors."}
  inventory:
    type: path
    description: "File that takes hosts, groups and how each host is reached, for other tools."
  logins:
    type: path
    description: "File that takes the secrets of the clusters' logins; its reader removes it at once."
author: Kedge
"""

EXAMPLES = r"""
- name: Plan the inventory, and show what would be deployed
  kedge_plan:
    show: true
    archives: look
"""

RETURN = r"""
ansible_facts:
  description: C(kedge_plan), C(kedge_secrets) and C(kedge_ways), how each host is reached.
  returned: where the plan is made
  type: dict
"""
