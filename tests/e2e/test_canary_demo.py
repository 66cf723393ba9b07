"""A canary of real nodes, whose broker loses records: alerts of a real Prometheus, and a verdict."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.e2e.playing import ROOT, local_fleet

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(1800)]


def test_lost_records_are_alerted_at_once_and_named_by_the_verdict() -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lab.demo", "--trials=canary"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        # Which comes first depends on which path was about to send when the broker died.
        assert re.search(r"KedgeCanary(NoAck|NoDelivery|Errors|Instance): .* on cluster leaf", done.stdout)
        assert "The audit of a window on cluster leaf failed" in done.stdout
        assert re.search("(lost|corrupted): producer ", done.stdout)
    finally:
        local_fleet("down", "inventories/local")
