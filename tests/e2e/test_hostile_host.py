"""A host that belongs to somebody else answers with garbage, and another one does its work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.playing import local_fleet, on_node, play
from tests.kafka.loads import LoadRun, assert_ledger_is_true, kill_quietly

INVENTORY: Final = "tests/e2e/inventory_hostile"
FLEET: Final = "kedge-e2e-hostile"
RATE: Final = 500

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(900), pytest.mark.long]

#: Where the load's agent is: passes on what that says until there is a file, then an archive with a program in it.
AGENT: Final = r"""#!/usr/bin/env python3
import os, subprocess, sys
with subprocess.Popen(["/opt/kedge/load-agent.real"], stdout=subprocess.PIPE) as agent:
    for line in agent.stdout:
        if os.path.exists("/run/turned"):
            line = b'{"cells": {}, "said": {"../../inventory.yml": "x"}, "ended": {}, "over": true}\n' + b"\0" * 10240
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
"""
PLAN: Final = [
    {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [{"kedge_plan": {"dest": "{{ run }}/plan.json", "inventory": "{{ run }}/inventory.yml"}}],
    }
]


@pytest.fixture(scope="module")
def deployed() -> Iterator[None]:
    local_fleet("up", INVENTORY)
    try:
        done = play("deploy.yml", inventory=INVENTORY)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        yield
    finally:
        local_fleet("down", INVENTORY)


@pytest.fixture
def run(deployed: None, tmp_path: Path) -> Iterator[LoadRun]:
    """A load that both hosts make, not yet started, in a folder with its plan."""
    del deployed
    kafka = {
        "topic": "kedge-verify",
        "group": "kedge-verify",
        "records_per_s": RATE,
        "producers": 2,
        "consumers": 1,
    }
    (tmp_path / "run").mkdir()
    made = LoadRun(
        tmp_path / "run",
        {
            "run_id": f"hostile-{time.time_ns()}",
            "cluster": "leaf",
            "bootstrap_servers": "10.78.12.11:9092",
            "generators": ["load1", "load2"],
            "kafka": kafka,
            "warm_up_s": 1,
            "min_s": 5,
            "max_s": 120,
            "drain_s": 15,
        },
    )
    (tmp_path / "plan.yml").write_text(json.dumps(PLAN))
    done = play(str(tmp_path / "plan.yml"), "-e", f"run={made.folder}", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        yield made
    finally:
        kill_quietly(made)


def test_a_host_that_turns_costs_its_own_evidence_and_no_other(run: LoadRun) -> None:
    on_node(FLEET, "load2", "mv /opt/kedge/load-agent /opt/kedge/load-agent.real")
    on_node(
        FLEET, "load2", f"cat > /opt/kedge/load-agent <<'END'\n{AGENT}END\nchmod 755 /opt/kedge/load-agent"
    )
    inventory = run.folder / "inventory.yml"
    before = inventory.read_bytes()
    run.start("--inventory", str(inventory))
    run.await_acked(5 * RATE)
    on_node(FLEET, "load2", "touch /run/turned")
    run.enough()
    assert run.ended() == 0, run.output.read_text()
    facts = run.run_json()
    assert list(facts["refused"]) == ["load2"]
    assert facts["refused"]["load2"].isprintable()
    assert facts["ended_us"] is not None
    # Processes go round the hosts: load1 has the consumer and the second producer.
    ledger, truth = run.table("ledger"), run.in_topic("kedge-verify")
    outcomes = ledger.groupby("producer")["outcome"].agg(set).to_dict()
    assert outcomes == {0: {"unknown"}, 1: {"acked"}}
    assert_ledger_is_true(ledger[ledger["producer"] == 1], truth[truth["producer"] == 1])
    assert len(run.table("deliveries")) == len(truth)
    assert inventory.read_bytes() == before
    assert not list(run.folder.rglob("*from-generator*"))
    assert not (run.folder.parent / "inventory.yml").exists()
