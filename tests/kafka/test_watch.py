"""A watch beside clients of others on a real broker: what it samples, and what it says is what they saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from kedge.evidence.run import parse_run
from tests.awaiting import await_that
from tests.e2e.playing import play
from tests.kafka.crashable import CrashableBroker
from tests.kafka.foreign import filled, members

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
INTERVAL_S = 0.25
PARTITIONS = 4


@contextmanager
def watched(run_dir: Path, broker: CrashableBroker, **cluster: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a watch of one cluster until the block ends."""
    about = {"bootstrap_servers": broker.bootstrap_servers, **cluster}
    spec = {
        "run_id": "watch",
        "clusters": {"leaf": about},
        "options": {"interval_s": INTERVAL_S, "before_s": 3, "after_s": 30},
    }
    (run_dir / "evidence").mkdir(parents=True)
    (run_dir / "watch.json").write_text(json.dumps(spec))
    (run_dir / "plan.json").write_text(json.dumps({"hosts": {}}))
    words = [sys.executable, "-m", "verify.watch", "--run-dir", str(run_dir), "--inventory", "none"]
    process = subprocess.Popen(words, env={**os.environ, "KEDGE_PARENT_PID": str(os.getpid())})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def phase(run_dir: Path) -> str:
    path = run_dir / "watch.state"
    return str(json.loads(path.read_text())["phase"]) if path.exists() else ""


def rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    return list(pq.read_table(run_dir / "evidence" / table).to_pylist())


def test_topics_and_groups_of_others_are_sampled_and_nothing_else_is_done(
    broker: CrashableBroker, topic: str, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    own = {"bootstrap_servers": broker.bootstrap_servers, "auto_commit_interval_ms": 500}
    with (
        filled(broker.bootstrap_servers, topic, 200, PARTITIONS),
        members(tmp_path, topic, "theirs", 2, session_timeout_ms=6000, **own) as theirs,
        members(tmp_path, topic, "new-kind", 2, group_protocol="consumer", **own) as new,
    ):
        await_that(lambda: theirs.deliveries() > 50 and new.deliveries() > 50, "their groups read", 60)
        with watched(run_dir, broker, topics=[topic], own_groups=["mine"]) as process:
            await_that(lambda: phase(run_dir) == "running", "the watch runs", 60)
            theirs.members[0].kill()
            time.sleep(10)
            (run_dir / "stop").touch()
            assert process.wait(60) == 0
    run = parse_run((run_dir / "evidence" / "run.json").read_text(), "run.json")
    print(run)
    for table in ("end_offsets", "group_offsets", "group_states", "assignments"):
        found = rows(run_dir, table)
        print(table, len(found), found[:2], found[-1])
    assert False


def test_playbook_judges_what_flows_of_an_inventory_that_loads_nothing(
    broker: CrashableBroker, topic: str, tmp_path: Path
) -> None:
    watch = {"interval_s": INTERVAL_S, "before_s": 5, "for_s": 8, "after_s": 30, "topics": [topic]}
    inventory, at = tmp_path / "inventory.yml", {"bootstrap_servers": broker.bootstrap_servers}
    inventory.write_text(
        yaml.safe_dump(
            {
                "all": {
                    "children": {"load_generator": {"hosts": {"desk": {"ansible_connection": "local"}}}},
                    "vars": {
                        "kafka_clusters": {"leaf": {"version": "4.3.1", **at}},
                        "verify": {"watch": watch},
                    },
                }
            }
        )
    )
    own = {**at, "auto_commit_interval_ms": 500}
    with (
        filled(broker.bootstrap_servers, topic, 200, PARTITIONS),
        members(tmp_path, topic, f"reads-{topic}", 1, **own) as theirs,
    ):
        await_that(lambda: theirs.deliveries() > 50, "their group reads", 60)
        done = play(
            "verify.yml",
            "-e",
            "verify_steps=watch",
            "-e",
            f"kedge_runs_dir={tmp_path / 'runs'}",
            inventory=str(inventory),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "watching 1 topics of 4 partitions, 1 groups" in (tmp_path / "runs/latest/watch.log").read_text()
    said = json.loads((tmp_path / "runs/latest/report/verdicts.json").read_text())
    assert said["verdict"] == "pass"
    assert [check["name"] for check in said["checks"]] == ["traffic"]
