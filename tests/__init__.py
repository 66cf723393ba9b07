"""The tests, and the programs beside them (``python -m tests.fuzz`` and others)."""

from pathlib import Path

import ansible.module_utils

# Ansible ships a module with its helpers as ansible.module_utils; tests import the modules the same way.
ansible.module_utils.__path__.append(str(Path(__file__).resolve().parents[1] / "plugins" / "module_utils"))
