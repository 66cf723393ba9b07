"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_reachable
short_description: Find the hosts that answer and the services that can be compared
description:
  - Knocks at every host that has something to compare, many at once, before a task is spent on each of them.
  - Takes the plan from C(plan_made). Runs on the control machine.
options: {}
author: Kedge
"""

EXAMPLES = r"""
- name: Find the hosts that answer and the services that can be compared
  kedge_reachable:
  register: plan_reached
"""

RETURN = r"""
comparable:
  description: Host to the planned services whose roles can compare.
  returned: always
  type: dict
unreached:
  description: Host to why it takes no connection.
  returned: always
  type: dict
uncompared:
  description: Service to why no role compares it.
  returned: always
  type: dict
"""
