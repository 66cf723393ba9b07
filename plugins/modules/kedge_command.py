"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_command
short_description: Tell how to run another playbook as this one was run
description:
  - Returns the words of ansible-playbook with the inventories, variables and vaults of this call. Fails where
    passwords are asked for at the terminal, as nobody could type them again. Runs on the control machine.
options: {}
author: Kedge
"""

EXAMPLES = r"""
- name: Know how other playbooks reach these hosts
  kedge_command:
  register: again
"""

RETURN = r"""
command:
  description: The words before the name of a playbook, with a place for each of its variables.
  returned: success
  type: list
  elements: str
variables:
  description: Those variables, a text in JSON for each place. They may be passwords.
  returned: success
  type: list
  elements: str
"""
