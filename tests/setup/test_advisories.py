"""No locked package has a vulnerability that is known; where nobody can be asked, the test says so."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kedge.setup.paths import PROJECT

pytestmark = pytest.mark.long
LOCKS = sorted(
    str(f.relative_to(PROJECT)) for f in [PROJECT / "requirements.txt", *PROJECT.glob("requirements/*.txt")]
)
#: Vulnerabilities that do not reach Kedge: the id, and why.
LEFT: dict[str, str] = {}


def audited(lock: str) -> list[dict[str, Any]]:
    """Return the packages of a lock with what PyPI knows of each; installs nothing."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", lock]
    done = subprocess.run(
        [*command, "--format", "json", "--progress-spinner", "off"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not done.stdout:
        assert "rror" in done.stderr
        pytest.skip(f"advisories cannot be had here: {done.stderr.splitlines()[-1]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    return found


@pytest.fixture(scope="module")
def answering() -> None:
    """Ask for the shortest lock first: without network, or with a mirror of files alone, nobody knows of any."""
    if unknown := [one["skip_reason"] for one in audited("requirements/uv.txt") if "skip_reason" in one]:
        pytest.skip(f"advisories cannot be had here: {unknown[0]}")


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize("lock", LOCKS)
def test_no_locked_package_has_a_known_vulnerability(lock: str) -> None:
    found = audited(lock)
    assert found
    known = {
        f"{one['name']} {one['version']}": [v["id"] for v in one.get("vulns", ())]
        for one in found
        if "version" in one
    }
    assert {name: left for name, ids in known.items() if (left := sorted({*ids} - LEFT.keys()))} == {}
    # A package that was not looked up is none without vulnerabilities.
    assert [one["skip_reason"] for one in found if "skip_reason" in one] == []
