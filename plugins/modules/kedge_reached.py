"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_reached
short_description: Find the hosts that answer and the services that can be compared
description:
  - Knocks at every host that has something to compare, many at once, before a task is spent on each of them.
  - Runs on the control machine.
options: {}
author: Kedge
"""

EXAMPLES = r"""
- name: Find the hosts that answer and the services that can be compared
  kedge_reached:
"""

RETURN = r"""
ansible_facts:
  description:
    - C(kedge_reached). C(comparable) is host to the planned services whose roles can compare; C(unreached)
      is host to why it takes no connection; C(uncompared) is service to why no role compares it.
  returned: always
  type: dict
"""
