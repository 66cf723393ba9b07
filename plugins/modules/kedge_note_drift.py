"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_note_drift
short_description: Note what a deploy would change of something that is no instance
description:
  - Adds to the fact C(kedge_drift) what a task found out in check mode, for C(kedge_show_drift) to show.
  - One of C(diff), C(lines), C(failed) and C(unreachable) says what was found.
options:
  name: {type: str, required: true, description: "What is compared, such as a service."}
  diff:
    type: raw
    description: "What a module returned in check mode (before, after, before_header); one or a list."
  lines: {type: list, elements: str, description: "The difference in words; none where all is as planned."}
  failed: {type: str, description: "Why it is not known: what the host answered."}
  unreachable: {type: str, description: "Why it is not known: how the host was not reached."}
author: Kedge
"""

EXAMPLES = r"""
- name: Note that the host has no Java
  kedge_note_drift:
    name: java
    lines: ["-no Java", "+openjdk-17-jdk-headless"]
"""

RETURN = r"""
ansible_facts:
  description: C(kedge_drift), with what was noted.
  returned: always
  type: dict
"""
