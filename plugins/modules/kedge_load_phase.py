"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_load_phase
short_description: Wait until a load or a watch has come to a phase
description:
  - Waits until the load of a run is in a phase or a later one, and fails where it has ended before. Does
    not run in check mode. Runs on the control machine.
options:
  run_dir: {type: path, required: true, description: "Folder of the run."}
  phase: {type: str, required: true, description: "The phase, such as C(running) or C(done)."}
  what: {type: str, default: load, choices: [load, watch], description: "What is waited for."}
  seconds: {type: float, required: true, description: "How long to wait."}
author: Kedge
"""

EXAMPLES = r"""
- name: Wait until the load is warm
  kedge_load_phase:
    run_dir: runs/latest
    phase: running
    seconds: 95
"""

RETURN = r"""
load:
  description: What the load said last, its C(phase) and counts of records.
  returned: success
  type: dict
"""
