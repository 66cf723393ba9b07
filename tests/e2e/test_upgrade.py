"""A fleet that the last release deployed is deployed by this tree, under 500 requests a second.

The last release is the newest tag before this tree, or the commit that ``KEDGE_UPGRADE_FROM`` names. It runs in
the environment of this tree. Its inventory stays as it is, as that of a person who upgrades.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.baseline import version
from tests.e2e.playing import ROOT, local_fleet, play, recap
from tests.e2e.test_rest_proxies import (
    INVENTORY,
    REQUESTS_PER_S,
    Consumers,
    audited,
    prepared,
    requests,
    stated,
)
from tests.kafka.loads import kill_quietly

#: Keys of the nodes and the proxy's archive are those of this tree.
HERE = ("-e", f"kit_dir={ROOT}")

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1800), pytest.mark.long]


def git(*arguments: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the last release."""
    named = os.environ.get("KEDGE_UPGRADE_FROM", "")
    newest = git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    reference = named or (newest.decode().strip() if newest else "")
    if not reference:
        pytest.skip(f"no tag v{version()} in this clone, and KEDGE_UPGRADE_FROM names no commit")
    packed = git("archive", reference)
    assert packed is not None, f"{reference}: no commit of this clone"
    tree = tmp_path_factory.mktemp("released")
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(tree)
    return tree


@pytest.fixture(scope="module")
def deployed(released: Path) -> Iterator[str]:
    """The inventory of the last release, deployed by it."""
    inventory = str(released / INVENTORY)
    local_fleet("up", inventory)
    try:
        first = play("deploy.yml", *HERE, inventory=inventory, tree=released)
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr[-2000:]
        yield inventory
    finally:
        local_fleet("down", inventory)


def test_an_upgrade_under_load_fails_no_request_and_loses_no_record(
    deployed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = prepared(tmp_path, max_s=1200).start()
    try:
        load.await_phase("running")
        with Consumers() as consumers:
            upgraded = play("deploy.yml", *HERE, inventory=deployed)
            assert upgraded.returncode == 0, upgraded.stdout[-6000:] + upgraded.stderr[-2000:]
            load.await_acked(load.state()["acked"] + REQUESTS_PER_S)
        checks = audited(load)
    finally:
        kill_quietly(load)
    sent = requests(load)
    restarts = upgraded.stdout.count("TASK [instances : Restart the instance with its release")
    stated(f"an upgrade that restarts {restarts} instances", sent, capsys)
    assert set(sent["outcome"]) == {"acked"}, sent[sent["outcome"] != "acked"]["error"].value_counts()
    assert checks["delivery"]["verdict"] == "pass", checks["delivery"]
    assert consumers.wrong == []
    assert set(consumers.answers) <= {200, 404, 503}, consumers.answers
    again = play("deploy.yml", *HERE, inventory=deployed)
    assert again.returncode == 0, again.stdout
    assert all(host["changed"] == 0 for host in recap(again.stdout).values()), again.stdout
