"""Says which file of the inventory's variables Ansible cannot read: it stops with neither file nor line."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kedge_inventory
type: notification
short_description: Name the file of variables that Ansible cannot read
description:
  - Before the first play, the files of C(group_vars) and C(host_vars) are parsed; one that Ansible
    cannot read is an error with its file, line and column, and Ansible then stops by itself.
author: Kedge
"""

EXAMPLES = r"""
# In ansible.cfg
#   [defaults]
#   callbacks_enabled = kedge_inventory
"""

from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

from sizing.inventory.yaml_files import AnsibleStopsError, check_variables, inventories


class CallbackModule(CallbackBase):
    """Adds a line to what Ansible says, and changes nothing."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "kedge_inventory"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Look at the variables of every source of the inventory."""
        del playbook
        for path in inventories(context.CLIARGS.get("inventory") or ()):
            try:
                check_variables(path)
            except AnsibleStopsError as error:
                self._display.error(str(error), wrap_text=False)
