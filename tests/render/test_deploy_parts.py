"""deploy.yml in parts: by tags, and by hosts without what belongs to whole clusters."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from tests.render.test_plan_playbook import INVENTORY, ROOT, play

PLAYS = yaml.safe_load((ROOT / "deploy.yml").read_text())


def tags(of: dict[str, object]) -> set[str]:
    given = of["tags"]
    return {str(one) for one in given} if isinstance(given, list) else {str(given)}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """The proxies of INVENTORY, with an archive that is there, and a host that takes nothing."""
    archive = tmp_path / "confluent.tar.gz"
    archive.write_bytes(b"an archive")
    text = re.sub(r"(?s)    streams_app:.*?  vars:", "  vars:", INVENTORY)
    text = text.replace("/nowhere/confluent.tar.gz", str(archive))
    text = re.sub(r"[a1]{64}", hashlib.sha256(b"an archive").hexdigest(), text)
    text = text.replace("all:\n", "all:\n  hosts: {idle: {}}\n", 1)
    path = tmp_path / "hosts.yml"
    path.write_text(text)
    return path


def test_every_play_has_a_tag_and_what_looks_before_a_change_is_in_all() -> None:
    assert [one["name"] for one in PLAYS if "tags" not in one] == []
    assert [tags(one) for one in PLAYS[:5]] == [{"always"}] * 5


def test_proxies_and_their_balancers_are_never_changed_without_the_other() -> None:
    both = {"kafka_rest", "rest_balancer"}
    assert [one["name"] for one in PLAYS if tags(one) & both and tags(one) != both] == []


@pytest.mark.slow
def test_a_tag_chooses_the_plays_of_a_service(inventory: Path) -> None:
    done = play(inventory, "--tags", "topics", "--list-tasks", playbook="deploy.yml")
    chosen = []
    for block in done.stdout.split("\n\n"):
        head, _, tasks = block.strip().partition("\n")
        # Arguments of roles are validated under every tag.
        own = [t for t in tasks.splitlines() if "TAGS: [" in t and "Validating arguments" not in t]
        if any("[always]" not in task for task in own):
            chosen.append(head.partition("): ")[2].partition("\t")[0])
    assert chosen == ["Deploy the topics"], done.stdout


@pytest.mark.slow
def test_hosts_alone_leave_topics_as_they_are_unless_asked_for(inventory: Path) -> None:
    done = play(inventory, "--limit", "localhost,idle", playbook="deploy.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    # No cluster answers here: who asks one fails.
    for asked in (("-e", "deploy_clusters=true"), ("--tags", "topics")):
        done = play(inventory, "--limit", "localhost,idle", *asked, playbook="deploy.yml")
        assert done.returncode == 2, done.stdout + done.stderr
