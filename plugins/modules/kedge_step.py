"""Documents the action of this name, which calls modules."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_step
short_description: Do one of the steps in which an instance restarts
description:
  - Calls the module of a step (kedge.deploy.roll), with what earlier steps of a loop found.
  - After a step that failed, those alone are done that are always due in its part, such as to put the
    instance back at its balancers.
  - Looped, with the loop's own result in C(before).
options:
  step: {type: dict, required: true, description: "The step."}
  before: {type: dict, required: true, description: "The answer to the step before, or to the turn before."}
author: Kedge
"""

EXAMPLES = r"""
- name: Play the steps
  kedge_step:
    step: "{{ steps[number] }}"
    before: "{{ stepped | default({}) }}"
  delegate_to: "{{ steps[number].host | default(inventory_hostname, true) }}"
  loop: "{{ range(steps | length) | list }}"
  loop_control:
    loop_var: number
    label: "{{ steps[number].label }}"
  register: stepped
"""

RETURN = r"""
found:
  description: What steps found so far, by name, such as the lag of groups before a restart.
  returned: always
  type: dict
"""
