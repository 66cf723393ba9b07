"""deploy.yml in parts: by tags, and by hosts without what belongs to whole clusters."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from kedge.deploy.deploy_steps import steps
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


def test_the_steps_of_a_deploy_come_in_the_order_of_its_plays() -> None:
    every = {"instances": {"new": {"state": "new"}, "old": {"state": "differs"}}, "stale": ["gone"]}
    services = ("streams_app", "mirror_maker", "rest_balancer", "kafka_rest", "kafka_broker")
    found = [(one.service, one.do, one.instance) for one in steps({"h": dict.fromkeys(services, every)})]
    assert found == [
        ("kafka_broker", "start", "new"),
        ("kafka_broker", "restart", "old"),
        ("kafka_rest", "start", "new"),
        ("kafka_rest", "drain", "gone"),
        ("rest_balancer", "start", "new"),
        ("rest_balancer", "serve both", "old"),
        ("kafka_rest", "stop", "gone"),
        ("kafka_rest", "restart", "old"),
        ("rest_balancer", "serve planned", "new"),
        ("rest_balancer", "serve planned", "old"),
        # One that moves stops before it starts elsewhere.
        ("mirror_maker", "stop", "gone"),
        ("mirror_maker", "start", "new"),
        ("mirror_maker", "restart", "old"),
        ("streams_app", "start", "new"),
        ("streams_app", "stop", "gone"),
        ("streams_app", "restart", "old"),
    ]
    last = {tag: number for number, one in enumerate(PLAYS) if "tags" in one for tag in tags(one)}
    order = [one for one in dict.fromkeys(service for service, _, _ in found) if one != "rest_balancer"]
    assert order == sorted(order, key=last.__getitem__)


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
