"""The packed job is found by Python in its archive, with its page and its logging, away from this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_checks import package

READS = """
from importlib import resources
import spark_checks.command
from jinja2 import PackageLoader
print(spark_checks.__file__)
print(PackageLoader("spark_checks.report", "").get_source(None, "frame.html.j2")[0][:15])
with resources.as_file(resources.files("spark_checks.engine") / "log4j2.properties") as file:
    print(file.stat().st_size > 0)
"""


@pytest.mark.process
def test_the_packed_job_runs_from_its_archive(tmp_path: Path) -> None:
    archive = tmp_path / "kedge-audit.zip"
    package.pack(archive)
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", READS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        f"{archive}/spark_checks/__init__.py",
        "<!doctype html>",
        "True",
    ], done.stderr


def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package.pack(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
