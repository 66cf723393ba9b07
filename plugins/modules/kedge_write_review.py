"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_write_review
short_description: Review what runs on all hosts, and write an inventory that plans it
description:
  - Writes what C(kedge_find_jvms) found into a folder, as C(kedge review) takes it, an inventory
    of it, and a report as Markdown and HTML. Prints the report.
  - Runs on the control machine, once. It never writes into a folder that holds something.
options:
  folder: {type: path, required: true, description: "The folder that is made."}
  check: {type: bool, default: false, description: "Only say whether the folder can be made."}
author: Kedge
"""

EXAMPLES = r"""
- name: Review what runs
  kedge_write_review:
    folder: inventories/found
"""

RETURN = r"""
errors:
  description: How many errors were found.
  returned: always
  type: int
"""
