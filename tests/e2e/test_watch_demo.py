"""A rolling restart under a watch on real nodes, beside a load that the watch takes for somebody else's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.playing import ROOT, local_fleet

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(1500)]


def test_what_a_watch_saw_is_what_the_clients_saw_within_its_error() -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lab.demo", "--trials=watch", "--load=5000"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        assert "What the watch saw" in done.stdout
        assert "pass      traffic" in done.stdout
    finally:
        local_fleet("down", "inventories/local")
