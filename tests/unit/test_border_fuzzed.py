"""The parsers of untrusted data hold what libFuzzer finds for them; SECONDS for each (KEDGE_FUZZ_SECONDS)."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.untrusted import ROOT, SOURCES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None,
        reason="atheris is not installed: make test-long installs it where it has a wheel for the machine",
    ),
]
SECONDS = int(os.environ.get("KEDGE_FUZZ_SECONDS", "10"))


@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("name", SOURCES)
def test_what_a_fuzzer_finds_is_taken_in_bounds_or_refused_in_a_line(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzzing", name, str(SECONDS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4_000:]
    runs = re.search(r"Done (\d+) runs in (\d+) second", said)
    assert runs, said[-2_000:]
    # The slowest makes folders and files for each.
    assert int(runs[1]) > 100
    print(f"{name}: {int(runs[1]):,} inputs in {runs[2]} s")
