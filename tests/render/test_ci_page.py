"""docs/ci.md: the pipelines are YAML, and the steps that need no host are run, in a checkout as a runner has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.outside import ROOT, git, repository, shell
from tests.render.test_plan_command import REST

pytestmark = pytest.mark.process

PAGE = (ROOT / "docs" / "ci.md").read_text()
GITLAB, GITHUB, NIGHTLY, NIGHTLY_GITHUB = (
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
)
(COMMENT,) = re.findall(r"````markdown\n(.*?)````", PAGE, re.DOTALL)


def steps(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """The inventory's repository: main, which has gone on, and a branch that changes a version."""
    small = tmp_path / "small"
    small.mkdir()
    (small / "hosts.yml").write_text(REST)
    path = repository(tmp_path / "upstream", small)
    git(path, "init", "-q")
    git(path, "add", ".")
    git(path, "commit", "-qm", "x")
    git(path, "checkout", "-q", "-b", "change")
    hosts = path / "inventories" / "prod" / "hosts.yml"
    hosts.write_text(REST.replace("8.3.1", "8.3.0"))
    git(path, "commit", "-qam", "y")
    git(path, "checkout", "-q", "main")
    (path / "README.md").write_text("later\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "z")
    return path


def shortened(comment: str) -> str:
    """Return a comment as the page shows it, the rows of its folded findings left out."""
    return re.sub(r"(?s)(</summary>\n).*?(?=</details>)", r"\1\n(a table of them)\n\n", comment, count=1)


def run(folder: Path, script: list[str], **variables: str) -> None:
    for line in script:
        done = shell(folder, line.replace("/opt/kedge", str(ROOT)), **variables)
        assert done.returncode == 0, done.stdout + done.stderr


def test_gitlab_s_checkout_of_one_ref_shows_what_a_merge_request_changes(
    upstream: Path, tmp_path: Path
) -> None:
    checkout = tmp_path / "runner" / "inventory"
    checkout.mkdir(parents=True)
    job = GITLAB["plan"]
    depth = ("--depth", str(job["variables"]["GIT_DEPTH"])) if job["variables"]["GIT_DEPTH"] else ()
    git(checkout, "init", "-q")
    git(checkout, "fetch", "-q", *depth, upstream.as_uri(), "refs/heads/change:refs/pipelines/1")
    git(checkout, "checkout", "-q", "--detach", "refs/pipelines/1")
    run(checkout, job["script"], CI_MERGE_REQUEST_DIFF_BASE_SHA=git(upstream, "merge-base", "main", "change"))
    assert shortened((checkout / "plan.md").read_text()) == COMMENT


def test_github_s_checkout_of_all_branches_shows_what_a_pull_request_changes(
    upstream: Path, tmp_path: Path
) -> None:
    checkout = tmp_path / "runner" / "inventory"
    checkout.parent.mkdir()
    git(tmp_path, "clone", "-q", upstream.as_uri(), str(checkout))
    git(checkout, "checkout", "-q", "--detach", "origin/main")
    git(checkout, "merge", "-q", "origin/change")
    run(checkout, steps(GITHUB["jobs"]["plan"]), GITHUB_BASE_REF="main", GITHUB_STEP_SUMMARY="s.md")
    assert shortened((checkout / "s.md").read_text()) == COMMENT


def test_the_page_s_own_commands_end_as_it_says(tmp_path: Path) -> None:
    path = repository(tmp_path)
    git(path, "init", "-q")
    git(path, "add", ".")
    git(path, "commit", "-qm", "x")
    git(path, "update-ref", "refs/remotes/origin/main", "HEAD")
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("../kedge/")]
    assert len(lines) == 3
    run(path, lines)


def test_a_branch_of_two_commits_is_compared_with_the_commit_at_which_it_left_main(upstream: Path) -> None:
    hosts = upstream / "inventories" / "prod" / "hosts.yml"
    hosts.write_text(REST.replace("host_cores: 16", "host_cores: 8"))
    git(upstream, "commit", "-qam", "what main changed since")
    git(upstream, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(upstream, "checkout", "-q", "change")
    git(upstream, "commit", "--allow-empty", "-qm", "the branch's second")
    (command,) = (line for line in re.findall(r"```sh\n(.*?)\n```", PAGE, re.DOTALL) if "merge-base" in line)
    done = shell(upstream, command)
    assert done.returncode == 0, done.stderr
    assert shortened(done.stdout) == COMMENT


def test_environments_of_one_repository_share_variables_and_are_planned_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "inventory"
    head, _, variables = REST.partition("  vars:\n")
    shared = re.sub(r"(?m)^    ", "", variables)
    (path / "shared").mkdir(parents=True)
    (tmp_path / "kedge").symlink_to(ROOT)
    (path / "shared" / "all.yml").write_text(re.sub(r"(?m)^host_cores.*\n", "", shared))
    for number, name in enumerate(("dev", "stage", "prod"), start=1):
        folder = path / "inventories" / name / "group_vars" / "all"
        folder.mkdir(parents=True)
        (folder.parents[1] / "hosts.yml").write_text(head)
        (folder / "own.yml").write_text(f"host_cores: {4 * number}\n")
        (folder / "shared.yml").symlink_to("../../../../shared/all.yml")
    git(path, "init", "-q")
    git(path, "add", ".")
    git(path, "commit", "-qm", "x")
    (command,) = (line for line in PAGE.splitlines() if line.startswith("for "))
    done = shell(path, command)
    assert done.stdout.splitlines() == ["no value changes"] * 3, done.stderr
    file = path / "shared" / "all.yml"
    file.write_text(file.read_text().replace("8.3.1", "8.3.0"))
    done = shell(path, command)
    assert done.stdout.count("8.3.1 -> 8.3.0") == 3, done.stdout + done.stderr


def test_the_nightly_runs_name_steps_that_there_are() -> None:
    playbook = (ROOT / "verify.yml").read_text()
    for job in ("state", "load"):
        assert f"          {NIGHTLY[job]['variables']['STEPS']}: This run" in playbook
    of_github = NIGHTLY_GITHUB["jobs"]["state"]
    assert steps(of_github) == [s.replace("$STEPS", "state") for s in NIGHTLY[".verify"]["script"]]
    assert of_github["steps"][-1]["if"] == "always()"
    assert of_github["steps"][-1]["with"]["path"] == NIGHTLY[".verify"]["artifacts"]["paths"][0]
    (play,) = (line for line in NIGHTLY[".verify"]["script"] if "verify.yml" in line)
    assert set(re.findall(r"(\w+)=", play)) == {"verify_steps", "kedge_runs_dir"}
