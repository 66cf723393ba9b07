"""A fleet that the last release deployed is deployed by this tree, under load.

It is done as docs/releases.md says: from an inventory's repository that holds nothing of Kedge, and in which
nothing changes. The last release is the newest tag, the commit of ``tests/released/commit`` in a clone without
tags, or what ``KEDGE_UPGRADE_FROM`` names; it runs in the environment of this tree.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from kedge.evidence.release import VERSION
from tests.baseline import COMMIT
from tests.e2e.playing import ROOT, local_fleet, on_node, recap
from tests.e2e.test_rest_proxies import (
    INVENTORY,
    TOPIC,
    Consumers,
    audited,
    prepared,
    requests,
    stated,
)
from tests.kafka.loads import LoadRun, kill_quietly
from tests.outside import repository, shell

#: The state is tested as that of a service which a load is planned for.
VERIFY = {"cluster": "leaf", "rest": {"topic": TOPIC, "group": TOPIC, "records_per_s": 1}}

LEAF4 = {"ansible_host": "10.78.10.14"}

#: What two cores carry beside three brokers; a request that could not be sent in time is no failed one.
REQUESTS_PER_S = 100

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1800), pytest.mark.long]


def of_git(*arguments: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the last release."""
    newest = of_git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*") or COMMIT.read_bytes()
    reference = os.environ.get("KEDGE_UPGRADE_FROM") or newest.decode().strip()
    if not reference:
        pytest.skip("there is no earlier release, and KEDGE_UPGRADE_FROM names no commit")
    packed = of_git("archive", reference)
    assert packed is not None, f"{reference}: no commit of this clone"
    tree = tmp_path_factory.mktemp("released")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(tree)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


def played(path: Path, playbook: str, *arguments: str, tree: Path = ROOT) -> str:
    """Play a playbook of a tree from the inventory's repository at ``path``; return what it prints."""
    done = tried(path, playbook, *arguments, tree=tree)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def tried(path: Path, playbook: str, *arguments: str, tree: Path = ROOT) -> subprocess.CompletedProcess[str]:
    kedge = path.parent / "kedge"
    kedge.unlink()
    kedge.symlink_to(tree)
    # Keys of the nodes and the proxy's archive are those of this tree.
    command = ("../kedge/.venv/bin/ansible-playbook", "-i", "inventories/prod", f"../kedge/{playbook}")
    line = " ".join((*command, "-e", f"kit_dir={ROOT}", *arguments))
    return shell(path, line, PYTHONPATH=str(tree))


def three_brokers(path: Path) -> None:
    """Give the inventory a cluster that serves while one of its brokers restarts."""
    hosts = path / "hosts.yml"
    found = yaml.safe_load(hosts.read_text())
    leaf = found["all"]["children"]["nodes"]["children"]["kafka_broker"]["children"]["kafka_leaf"]["hosts"]
    leaf |= {f"leaf{n}": {"ansible_host": f"10.78.10.1{n}"} for n in (2, 3)}
    # One more node, which becomes a broker later: a fleet whose nodes change starts anew.
    found["all"]["children"]["nodes"]["children"]["spare"] = {"hosts": {"leaf4": LEAF4}}
    hosts.write_text(yaml.safe_dump(found))
    main = path / "group_vars" / "all" / "main.yml"
    variables = yaml.safe_load(main.read_text())
    for topic in variables["kafka_topics"]:
        topic |= {"replication": 3, "settings": topic["settings"] | {"min.insync.replicas": 2}}
    main.write_text(yaml.safe_dump(variables))


def the_proxy_of_this_tree(inventory: Path) -> None:
    """Name the sandbox's archive where this tree builds it; an older one has it elsewhere."""
    path = inventory / "group_vars" / "kafka_rest" / "main.yml"
    variables = yaml.safe_load(path.read_text())
    archive = yaml.safe_load((ROOT / INVENTORY / path.relative_to(inventory)).read_text())[
        "kafka_rest_archive"
    ]
    path.write_text(yaml.safe_dump(variables | {"kafka_rest_archive": archive}))


@pytest.fixture(scope="module")
def deployed(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The inventory's repository, whose fleet the last release deployed."""
    path = repository(tmp_path_factory.mktemp("outside"), released / INVENTORY)
    inventory = str(path / "inventories" / "prod")
    three_brokers(Path(inventory))
    the_proxy_of_this_tree(Path(inventory))
    local_fleet("up", inventory)
    try:
        played(path, "deploy.yml", tree=released)
        yield path
    finally:
        local_fleet("down", inventory)


def retried(load: LoadRun) -> int:
    """Count the records that are in a partition again with the time at which they were first made.

    A producer that sends a batch again keeps its records' times; a request that is sent again gets new ones.
    """
    records = load.table("records")
    return int(records.duplicated(["producer", "seq", "partition", "timestamp_us"]).sum())


def test_an_upgrade_under_load_fails_no_request_and_loses_no_record(
    deployed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = prepared(tmp_path, REQUESTS_PER_S, max_s=1200).start()
    try:
        load.await_phase("running")
        # The balancer of 0.1.0 lost consumers if the answer to their creation was compressed (CHANGELOG.md).
        with Consumers({"Accept-Encoding": "identity"}) as consumers:
            output = played(deployed, "deploy.yml")
            load.await_acked(load.state()["acked"] + REQUESTS_PER_S)
        checks = audited(load)
    finally:
        kill_quietly(load)
    sent = requests(load)
    restarts = output.count(": restart)")
    stated(f"an upgrade that restarts {restarts} instances", sent, capsys, REQUESTS_PER_S)
    assert set(sent["outcome"]) == {"acked"}, sent[sent["outcome"] != "acked"]["error"].value_counts()
    found = checks["delivery"]["measured"]
    # kafka-rest turns idempotence off: its producer may repeat a record while a partition's leader moves.
    repeated = retried(load)
    with capsys.disabled():
        print(f"records that a proxy's producer sent again while brokers restarted: {repeated}")
    assert found["duplicated"] == repeated, checks["delivery"]
    wrong = {figure["what"] for figure in checks["delivery"]["figures"] if figure["verdict"] == "fail"}
    assert wrong <= {"duplicated"}, checks["delivery"]
    assert consumers.wrong == []
    assert set(consumers.answers) <= {200, 404, 503}, consumers.answers


def test_the_upgraded_fleet_is_as_planned_and_a_second_deploy_changes_nothing(deployed: Path) -> None:
    again = played(deployed, "deploy.yml")
    assert all(host["changed"] == 0 for host in recap(again).values()), again
    (deployed / "verify.json").write_text(json.dumps({"verify": VERIFY}))
    played(deployed, "verify.yml", "-e @verify.json -e verify_steps=state -e kedge_runs_dir=kept")


def test_the_last_release_takes_the_fleet_back_and_says_what_it_changes(
    deployed: Path, released: Path
) -> None:
    try:
        back = " ".join(played(deployed, "deploy.yml", tree=released).split())
        # 0.1.0 knows versions of releases alone.
        if "dev" not in VERSION:
            assert f"deploys what Kedge {VERSION} deployed before. It changes" in back
        again = played(deployed, "deploy.yml", tree=released)
        assert all(host["changed"] == 0 for host in recap(again).values()), again
    finally:
        played(deployed, "deploy.yml")


def test_a_broker_joins_the_running_cluster_and_restarts_no_other(deployed: Path) -> None:
    inventory = str(deployed / "inventories" / "prod")
    before = broker_processes()
    make_leaf4_a_broker(Path(inventory), {})
    refused = tried(deployed, "deploy.yml")
    assert refused.returncode != 0
    said = " ".join(refused.stdout.split())
    assert "has the controllers 1, 2, 3, 4 in place of 1, 2, 3" in said
    assert "set kafka_broker_controller: false on added hosts" in said
    assert all(host["changed"] == 0 for host in recap(refused.stdout).values()), refused.stdout
    make_leaf4_a_broker(Path(inventory), {"kafka_broker_controller": False})
    played(deployed, "deploy.yml")
    assert broker_processes() == before
    cluster = AdminClient({"bootstrap.servers": "10.78.10.11:9092"}).list_topics(timeout=20)
    assert sorted(cluster.brokers) == [1, 2, 3, 4]


def make_leaf4_a_broker(path: Path, variables: dict[str, Any]) -> None:
    hosts = path / "hosts.yml"
    found = yaml.safe_load(hosts.read_text())
    leaf = found["all"]["children"]["nodes"]["children"]["kafka_broker"]["children"]["kafka_leaf"]["hosts"]
    found["all"]["children"]["nodes"]["children"].pop("spare", None)
    leaf["leaf4"] = LEAF4 | variables
    hosts.write_text(yaml.safe_dump(found))


def broker_processes() -> list[str]:
    ask = "systemctl show --property=MainPID kafka-broker@leaf"
    return [on_node("kedge-e2e-rest", f"leaf{n}", ask) for n in (1, 2, 3)]
