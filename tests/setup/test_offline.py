"""A control machine without a network sets up from a bundle, and plans.

It is this machine, in a network namespace of its own with another home and a clone of the project.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kedge.setup import bundle
from kedge.setup.paths import PROJECT
from kedge.setup.targets import BUNDLE

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

#: A namespace that has nothing but a loopback that is down; an ordinary account is root in one of users.
OFFLINE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
EXAMPLE = "inventories/example"


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Pack a bundle and clone the project; yield what runs a command in the clone, without a network."""
    if subprocess.run([*OFFLINE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("network namespaces are not allowed here")
    folder = tmp_path_factory.mktemp("offline")
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(folder / "kedge")], check=True)
    made = bundle.make(folder)
    # Only what any machine has: nothing of this one's caches, configuration and virtual environment.
    home = {"HOME": str(folder / "home"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

    def run(*command: str) -> str:
        done = subprocess.run(
            [*OFFLINE, *command],
            cwd=folder / "kedge",
            env=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout

    try:
        run("make", "setup", f"BUNDLE={made}", f"PYTHON={getattr(sys, '_base_executable', sys.executable)}")
        made.unlink()
        yield run
    finally:
        shutil.rmtree(folder)


def test_set_up_is_complete_and_leaves_nothing_of_the_bundle(offline: Callable[..., str]) -> None:
    home = Path(offline("sh", "-c", "echo ~").strip())
    assert sorted(path.name for path in (home / ".cache" / "kedge").iterdir()) == ["archives", "jars"]
    said = offline(".venv/bin/python", "-m", "kedge.setup.jars", "get", *BUNDLE.jars)
    assert said.count(": complete, packed as ") == len(BUNDLE.jars)
    # What an audit starts Spark from, and what a load sends with.
    offline(".venv/bin/python", "-c", "import confluent_kafka, pyspark, spark_checks.job, verify.load")


def test_inventory_is_planned(offline: Callable[..., str]) -> None:
    assert "0 errors" in offline(".venv/bin/python", "-m", "kedge", "plan", "--inventory", EXAMPLE)
    said = offline(".venv/bin/ansible-playbook", "-i", EXAMPLE, "plan.yml")
    assert "0 errors" in said
    assert "cannot be reached" in said


def test_playbooks_are_read(offline: Callable[..., str]) -> None:
    for playbook in ("deploy.yml", "verify.yml"):
        offline(".venv/bin/ansible-playbook", "-i", EXAMPLE, "--syntax-check", playbook)
