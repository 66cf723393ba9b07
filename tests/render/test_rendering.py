"""Rendered files say what the plan says, in the syntax of their reader, each key under its reason."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.deploy.rendering import render, render_instance, render_settings


def setting(key: str, value: str, file: str = "/etc/kafka-rest/8082/kafka-rest.properties") -> dict[str, Any]:
    return {
        "file": file,
        "key": key,
        "value": value,
        "rule": "rest.example",
        "because": "two and two are four",
        "source": "arithmetic",
        "basis": "derived",
    }


def read_properties(text: str) -> dict[str, str]:
    """Read properties as java.util.Properties does, for the escapes that the renderer writes."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        key, value = re.split(r"(?<!\\)=", line.replace("\\\\", "\0"), maxsplit=1)
        found[_unescape(key)] = _unescape(value)
    return found


def _unescape(text: str) -> str:
    text = re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text)
    text = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t", "r": "\r"}.get(m[1], m[1]), text)
    return text.replace("\0", "\\").encode("utf-16", "surrogatepass").decode("utf-16")


@given(
    st.dictionaries(
        st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#!"), min_size=1),
        st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30),
        min_size=1,
        max_size=5,
    )
)
def test_any_property_is_read_back_as_it_was_planned(properties: dict[str, str]) -> None:
    text = render_settings("kafka-rest.properties", [setting(k, v) for k, v in properties.items()])
    assert read_properties(text) == properties


def test_every_key_stands_under_its_reason_rule_and_source() -> None:
    lines = render_settings("kafka-rest.properties", [setting("id", "rest1-8082")]).splitlines()
    at = lines.index("id=rest1-8082")
    assert lines[at - 1] == "# two and two are four (rest.example; derived; arithmetic)"


@pytest.mark.process
@pytest.mark.parametrize("value", ["-Xms1g -Xmx1g", 'say "hi"', "a\\b", "cost: $5 `now`", "it's"])
def test_environment_is_read_back_by_a_shell_as_it_was_planned(value: str) -> None:
    # systemd and sh agree on double quotes and on the escapes that the renderer uses.
    text = render_settings("environment", [setting("OPTS", value)])
    read = subprocess.run(
        ["sh", "-c", f'{text}\nprintf %s "$OPTS"'], capture_output=True, text=True, check=True
    )
    assert read.stdout == value


def test_files_of_an_instance_are_told_apart_by_folder() -> None:
    dropin = "/etc/systemd/system/kafka-rest@8082.service.d/10-kedge.conf"
    settings = [setting("id", "a"), setting("MemoryMax", "2G", dropin)]
    files = render_instance("kafka-rest", {"name": "8082", "settings": settings})
    assert set(files) == {"kafka-rest.properties", "systemd/10-kedge.conf"}
    assert "[Service]" in files["systemd/10-kedge.conf"]


def test_a_file_outside_the_instance_is_refused() -> None:
    instance = {"name": "8082", "settings": [setting("x", "1", "/etc/passwd")]}
    with pytest.raises(ValueError, match="/etc/passwd is neither under"):
        render_instance("kafka-rest", instance)


@pytest.mark.process
def test_unit_file_is_accepted_by_systemd(tmp_path: Any) -> None:
    text = render(
        "service.j2",
        unit="kafka-rest",
        user="daemon",
        description="Kafka REST proxy",
        exec_start="/bin/true",
    )
    (tmp_path / "kafka-rest@.service").write_text(text.replace("kafka-rest.target", "multi-user.target"))
    (tmp_path / "kafka-rest@8082.service").symlink_to("kafka-rest@.service")
    try:
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(tmp_path / "kafka-rest@8082.service")],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("systemd-analyze is not on this machine")
    # The growing pause between starts is newer than some systemd that runs the units.
    newer = ("RestartSteps", "RestartMaxDelaySec")
    complaints = [
        x for x in done.stderr.splitlines() if "kafka-rest" in x and not any(f"'{key}'" in x for key in newer)
    ]
    assert not complaints
