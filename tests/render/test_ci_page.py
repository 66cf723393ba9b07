"""docs/ci.md: the pipelines are YAML, and the steps that need no host are run, in a clone as a runner has it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text()
GITLAB, GITHUB, NIGHTLY = (
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
)


def steps(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose last commit adds a host to the example's proxies."""
    path = tmp_path / "clone"

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.net")
        subprocess.run(["git", *who, *arguments], check=True, capture_output=True)

    git("clone", "--quiet", str(ROOT), str(path))
    git("-C", str(path), "update-ref", "refs/remotes/origin/main", "HEAD")
    (path / ".venv").symlink_to(ROOT / ".venv")
    hosts = path / "inventories" / "example" / "hosts.yml"
    text = hosts.read_text()
    assert "rest2:" in text
    hosts.write_text(re.sub(r"( +)rest2:(.*)\n", r"\1rest2:\2\n\1rest3:\2\n", text, count=1))
    git("-C", str(path), "commit", "--quiet", "--all", "--message", "x")
    return path


@pytest.mark.parametrize(
    ("script", "variables", "output"),
    [
        (GITLAB["plan"]["script"], {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}, "plan.md"),
        (
            steps(GITHUB["jobs"]["plan"])[1:],
            {"GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": "s.md"},
            "s.md",
        ),
    ],
    ids=["gitlab", "github"],
)
def test_a_merge_request_shows_what_it_changes(
    clone: Path, script: list[str], variables: dict[str, str], output: str
) -> None:
    for line in script:
        subprocess.run(["sh", "-euc", line], cwd=clone, env={**os.environ, **variables}, check=True)
    text = (clone / output).read_text()
    assert "## Kedge plan" in text
    assert "rest3" in text
    assert "your inventory changed" in text


def test_the_page_s_own_commands_end_as_it_says(clone: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 3
    for line in lines:
        subprocess.run(["sh", "-euc", line], cwd=clone, check=True, capture_output=True)


def test_the_nightly_run_names_steps_that_there_are() -> None:
    (line,) = NIGHTLY["verify"]["script"]
    assert "verify_steps=load" in line
    assert "verify_steps" in (ROOT / "verify.yml").read_text()
    assert "kedge_runs_dir" in (ROOT / "verify.yml").read_text()
