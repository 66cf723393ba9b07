"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_local
short_description: Run a program of the kit on the control machine, and show its output as it comes
description:
  - Runs a command in the kit's folder, with the environment of the interpreter. Does not run in check mode.
options:
  argv: {type: list, elements: str, required: true, description: "The command."}
  input: {type: str, default: "", description: "What the command reads on its standard input, of any size."}
  log: {type: path, description: "File that takes the output; without one it is shown line by line."}
  background:
    type: bool
    default: false
    description:
      - Start it and go on. The command finds the process id of the playbook in C(KEDGE_PARENT_PID) and has
        to end when that process has ended.
  secrets: {type: dict, default: {}, description: "Passwords, handed over as JSON in C(KEDGE_SECRETS)."}
  ok: {type: list, elements: int, default: [0], description: "Exit statuses that are no failure of the task."}
author: Kedge
"""

EXAMPLES = r"""
- name: Audit the evidence of a run
  kedge_local:
    argv: ["{{ ansible_playbook_python }}", -m, spark_checks, --evidence, runs/latest/evidence]
    ok: [0, 3]
"""

RETURN = r"""
rc:
  description: The exit status.
  returned: where it did not go to the background
  type: int
last_line:
  description: The last line of the output that is not empty.
  returned: where it did not go to the background
  type: str
pid:
  description: The process id.
  returned: where it went to the background
  type: int
"""
