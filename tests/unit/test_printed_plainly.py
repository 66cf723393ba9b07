"""What hosts say drives no terminal of whoever runs a playbook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.loads import ROOT

MODULE = r"""
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({}, supports_check_mode=True)
module.warn("warned \x1b[2J\u202e")
diff = {"before_header": "h\x1b]0;title\x07", "after_header": "after\u202e", "before": "a\x1b[8m\n", "after": "b\n"}
module.exit_json(changed=True, msg="answered\x1b[1A\r", diff=diff)
"""
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - hostile:
      register: found
    - ansible.builtin.debug:
        var: found.msg
"""


@pytest.mark.process
def test_results_differences_and_warnings_drive_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "hostile.py").write_text(MODULE)
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    options = ["-e", f"ansible_python_interpreter={sys.executable}", "-c", "local", "--diff", "-v"]
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i",
            "localhost,",
            *options,
            tmp_path / "play.yml",
        ],
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_FORCE_COLOR": "1", "ANSIBLE_LIBRARY": str(tmp_path / "library")},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "\x1b[0;3" in printed, "colours stay"
    plain = re.sub(r"\x1b\[(0|[01];3[0-7])m", "", printed)
    assert {c for c in plain if not c.isprintable()} == {"\n"}
    for said in (r"warned \x1b[2J\u202e", r"h\x1b]0;title\x07", r"after\u202e", r"a\x1b[8m"):
        assert said in plain
