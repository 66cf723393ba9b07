"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_drift
short_description: Tell what a deploy would change of a service on a host
description:
  - Renders the files of the host's instances as C(kedge_release) does and compares them with what is in
    force. Changes nothing.
  - A host that cannot be reached, or cannot answer, is no failure. The answer says so.
options:
  name: {type: str, required: true, description: "Name of the service."}
  unit: {type: str, required: true, description: "Name of the template unit, without @."}
  owner: {type: str, required: true, description: "Group that may read the files."}
  instances: {type: list, elements: dict, required: true, description: "The instances as the plan has them."}
  links:
    type: dict
    default: {}
    description: "Links inside each release, such as the software that it runs."
  service:
    type: dict
    required: true
    description: "What the unit template needs (description, exec_start)."
  controls: {type: dict, default: {}, description: "Instance name to who runs it, where that is not systemd."}
  adopts: {type: dict, default: {}, description: "Instance name to its predecessor, as of C(kedge_release)."}
  left_out:
    type: str
    default: ""
    description: >-
      A host that C(--limit) leaves out, to which the task is delegated. What it runs that C(instances) must
      not start beside is added to the comparison of the task's own host.
author: Kedge
"""

EXAMPLES = r"""
- name: Compare the mirrors with what is in force
  kedge_drift:
    name: mirror_maker
    unit: mirror-maker
    owner: mirror-maker
    instances: "{{ _mirror_maker_planned }}"
    service: {description: MirrorMaker, exec_start: /usr/bin/java}
  check_mode: true
"""

RETURN = r"""
ansible_facts:
  description: C(kedge_drift), service to what a deploy would change.
  returned: always
  type: dict
"""
