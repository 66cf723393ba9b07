"""What a host says drives no terminal: it stands in messages as one line, without control characters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kedge.deploy.drift import hide_secrets
from kedge.evidence.printable import plain_lines
from lab.bench.hosts.__main__ import played, write_inventory

ROOT = Path(__file__).resolve().parents[2]
#: What clears a screen, by ESC and by C1, and turns the direction of writing.
DRIVING = "\x1b[2J\x9b31m\u202e"
#: Where a text of a host stands in an expression of a role or a playbook.
_HOST_TEXT = re.compile(r"ansible_failed_result|_found\.(msg|occupied)|\.stdout\b(?!_lines)")
_MESSAGE = re.compile(r"^(\s*)(- )?(fail_msg|success_msg|msg|_instances_why):(.*(?:\n\1 .*)*)", re.MULTILINE)


def test_messages_of_roles_show_what_a_host_said_in_one_printable_line() -> None:
    found = [
        (path.relative_to(ROOT), expression)
        for path in [*(ROOT / "roles").rglob("*.yml"), *ROOT.glob("*.yml")]
        for message in _MESSAGE.finditer(path.read_text())
        for expression in re.findall(r"\{\{.*?\}\}", message[4], re.DOTALL)
        if _HOST_TEXT.search(expression)
    ]
    assert len(found) >= 5
    assert [one for one in found if "| shown" not in one[1]] == []


@pytest.mark.process
def test_what_is_in_the_way_on_a_host_is_printed_without_control_characters(tmp_path: Path) -> None:
    write_inventory(tmp_path, 1)
    says = tmp_path / "says"
    says.write_text(json.dumps({"rest1 kedge_occupied": {"occupied": [f"port 8082 {DRIVING} is held"]}}))
    with pytest.raises(RuntimeError):
        played(tmp_path, ["deploy.yml"], KEDGE_SAYS=str(says))
    output = (tmp_path / "output").read_text()
    assert r"port 8082 \x1b[2J\x9b31m\u202e is held" in re.sub(r"\s+", " ", output)
    assert not set(DRIVING) - set("[2J31m") & set(output)


def test_differences_are_lines_without_control_characters() -> None:
    before, after = hide_secrets(f"a={DRIVING}\n\tb=1\n", "a=1\n")
    assert before == "a=\\x1b[2J\\x9b31m\\u202e\n\tb=1\n"
    assert after == "a=1\n"
    assert plain_lines("") == ""
