"""Runs the kit's modules as a playbook does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kafka.loads import ROOT


def run_module(name: str, arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """Return what a module answers on the control machine, ``failed`` and ``printed`` (all of it) beside it."""
    ansible = str(Path(sys.executable).with_name("ansible"))
    words = [ansible, "localhost", "-m", name, "-a", json.dumps(arguments)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
                   "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_PYTHON_INTERPRETER": sys.executable}  # fmt: skip
    done = subprocess.run([*words, *(["--check"] if check else [])], cwd=ROOT, env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    printed = done.stdout + done.stderr
    found = re.search(r"=> (\{.*\})", done.stdout, flags=re.DOTALL)
    assert found, printed
    return {**json.loads(found[1]), "failed": done.returncode != 0, "printed": printed}
