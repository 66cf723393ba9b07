"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_plan
short_description: Plan the whole inventory, and stop where the plan has an error
description:
  - Plans every host of the inventory. Register the answer as C(plan_made), where the kit's roles look for it.
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
  register: plan_made
"""

RETURN = r"""
plan:
  description: The plan of all hosts, with a mark in the place of each secret.
  returned: where the plan has no error
  type: dict
secrets:
  description: What the marks stand for (C(settings)), and the secrets of C(clusters), C(users) and C(load).
  returned: where the plan has no error
  type: dict
ways:
  description: Host to the variables that say how it is reached.
  returned: where the plan has no error
  type: dict
"""
