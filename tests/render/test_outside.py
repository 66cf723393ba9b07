"""Kedge beside an inventory's repository that holds nothing of it: plan, playbooks and what they leave."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from kedge.evidence.release import VERSION
from kedge.setup.problem import Problem
from lab.release import release, wheel
from tests.outside import PAGE, ROOT, git, repository, shell

BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
(COMMANDS,) = (block for block in BLOCKS if "verify_steps" in block)
(UPGRADE,) = (block for block in BLOCKS if "--against" in block)
SIZING, PLAN, VERIFY = COMMANDS.splitlines()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return repository(tmp_path)


@pytest.mark.process
def test_the_page_writes_the_settings_of_ansible_cfg_with_paths_that_lead_to_kedge(outside: Path) -> None:
    theirs, own = (ConfigParser(interpolation=None), ConfigParser(interpolation=None))
    own.read(ROOT / "ansible.cfg")
    theirs.read(outside / "ansible.cfg")
    folders = {key for key, value in own["defaults"].items() if (ROOT / value).is_dir()}
    assert len(folders) == 6
    for key in folders:
        assert (outside / theirs["defaults"][key]).samefile(ROOT / own["defaults"].pop(key))
        del theirs["defaults"][key]
    assert theirs == own


@pytest.mark.slow
def test_the_plan_is_made_from_a_folder_that_holds_nothing_of_kedge(outside: Path) -> None:
    done = shell(outside, SIZING)
    assert done.returncode == 0, done.stderr
    assert "kafka_rest rest[1-2]: 4 instances" in done.stdout


@pytest.mark.slow
def test_the_plan_of_the_old_kedge_is_compared_with_that_of_the_new_one(outside: Path) -> None:
    keep, compare = (line for line in UPGRADE.splitlines() if "kedge plan" in line)
    assert shell(outside, keep).returncode == 0
    done = shell(outside, compare)
    assert done.returncode == 0, done.stderr
    assert "rest1" not in done.stdout  # nothing changed


@pytest.mark.slow
def test_plan_yml_plays_from_a_folder_that_holds_nothing_of_kedge(outside: Path) -> None:
    done = shell(outside, f"{PLAN} -e plan_diff=false")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kafka_rest rest[1-2]: 4 instances" in done.stdout


@pytest.mark.slow
def test_runs_lie_where_one_stands(outside: Path) -> None:
    done = shell(outside, VERIFY)
    assert done.returncode != 0  # nobody can reach the example's hosts
    assert re.search(r"verify/state ended with 1: .* No task after\s+it was run", done.stdout, re.DOTALL)
    (run,) = (outside / "kept").iterdir()
    assert (run / "plan.json").exists(), done.stdout + done.stderr
    assert (run / "report" / "state.xml").exists()


@pytest.mark.slow
def test_a_release_is_the_tagged_tree_with_its_checksum(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "plan.yml").write_text("---\n")
    (tree / "kedge").mkdir()
    (tree / "kedge" / "cli.py").write_text("")
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "rules.md", tree / "docs")
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "x")
    with pytest.raises(Problem, match="has no such tag"):
        release(tree, tmp_path / "build")
    assert list((tmp_path / "build").glob("*")) == []
    git(tree, "tag", f"v{VERSION}")
    (tree / "later.yml").write_text("---\n")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "y")
    archive = release(tree, tmp_path / "build")
    assert archive.name == f"kedge-{VERSION}.tar.gz"
    checksum = archive.with_name(f"{archive.name}.sha256").read_text()
    assert checksum == f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n"
    with tarfile.open(archive) as tar:
        packed = [member.name for member in tar if member.isfile()]
        assert packed == [
            "kedge/docs/rules.md",
            "kedge/kedge/cli.py",
            "kedge/plan.yml",
            "kedge/pyproject.toml",
        ]
    (built,) = (tmp_path / "build").glob("*.whl")
    assert hashlib.sha256(built.read_bytes()).hexdigest() in (
        built.with_name(f"{built.name}.sha256").read_text()
    )
    first = archive.read_bytes()
    assert release(tree, tmp_path / "build").read_bytes() == first


@pytest.mark.slow
def test_the_wheel_has_one_package_which_reviews_and_plans_without_the_tree(tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel(ROOT, tmp_path)) as packed:
        packed.extractall(tmp_path / "installed")
    assert {path.name.partition("-")[0] for path in (tmp_path / "installed").iterdir()} == {"kedge"}
    compose = tmp_path / "docker-compose.yml"
    compose.write_text(
        "services:\n  rest:\n    image: confluentinc/cp-kafka-rest:7.9.1\n"
        "    environment:\n      KAFKA_REST_PRODUCER_ACKS: 1\n"
    )
    for arguments, status, said in (
        (["review", str(compose)], 1, "error    :5  "),
        (["plan", "-i", str(ROOT / "inventories" / "example"), "--all"], 0, "KAFKAREST_HEAP_OPTS"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "kedge", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert said in done.stdout
