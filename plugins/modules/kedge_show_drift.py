"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_show_drift
short_description: Show what a deploy would change, hosts that differ alike together
description:
  - Prints what C(kedge_drift) and roles found on all hosts, and how the topics differ from
    the plan.
  - Runs on the control machine, once.
options:
  declared:
    type: list
    elements: dict
    default: []
    description: "C(kafka_topics) of the inventory; to some of them partitions may be added."
author: Kedge
"""

EXAMPLES = r"""
- name: Show what a deploy would change
  kedge_show_drift:
    declared: "{{ kafka_topics | default([]) }}"
  check_mode: true
"""

RETURN = r"""
would_change:
  type: str
  returned: always
  description: What a deploy would change and what could not be compared, in a line; empty where nothing.
"""
