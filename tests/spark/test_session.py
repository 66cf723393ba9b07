"""A session whose Java ends by itself, as of memory that does not suffice, in a process that goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: A process of its own: the session of these tests is shared.
PROGRAM = """
from pyspark import SparkContext
from spark_checks.engine import session

first = session.start("local[1]", "512m")
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
session.stop(first)
second = session.start("local[1]", "512m")
print(second.range(3).count(), "counted")
print("secret of its own:", second.sparkContext._jsc.sc().env().securityManager().isAuthenticationEnabled())
session.stop(second)
"""


def test_after_a_session_that_died_another_can_be_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "3 counted" in done.stdout, done.stderr[-2000:]
    assert "secret of its own: True" in done.stdout, "whoever has a login here may reach the session's ports"
