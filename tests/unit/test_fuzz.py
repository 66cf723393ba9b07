"""What reads files of others holds some inputs of the fuzzer; `make fuzz` throws more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzz import KINDS, thrown

pytestmark = pytest.mark.process

#: Of each kind; a plan is slower than a source.
INPUTS = {"inventory": 12, "review": 8, "border": 40}


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_the_fuzzer_end_in_no_traceback_and_in_bounds(kind: str) -> None:
    failed = {number: why for number in range(INPUTS[kind]) if (why := thrown(kind, 54, number))}
    assert failed == {}


def test_an_input_that_ends_in_a_traceback_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "border", lambda draw, folder: [][draw.randrange(9)])
    assert thrown("border", 1, 2).startswith("IndexError")


def test_the_fuzzer_by_itself_finds_every_source() -> None:
    """Nothing but its own imports is there: other tests import all of border."""
    words = ("--seed", "20261127", "--first", "18", "--inputs", "4", "border")
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *words], capture_output=True, text=True, check=False
    )
    assert "0 failures of 4 inputs" in done.stdout, done.stdout + done.stderr
