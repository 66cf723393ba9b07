"""Documents the action of this name, which calls modules."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_step
short_description: Do one of the steps in which an instance restarts
description:
  - Calls the module of a step (kedge.deploy.roll), with what earlier steps of a loop found.
  - After a step that failed, those alone are done that are due after it, such as to put the
    instance back at its balancers.
  - A host that does not answer is a failure.
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
  delegate_to: "{{ steps[number].host | default(omit, true) }}"
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
gone:
  description: Whether the host of the step did not answer.
  returned: if the step was done
  type: bool
failed_step:
  description: Label of the step of this loop that failed, if any.
  returned: always
  type: str
"""
