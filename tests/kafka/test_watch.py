"""A watch beside clients of others on a real broker: what it samples, and what it says is what they saw."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from kedge.evidence.listing import files_of
from kedge.evidence.writing import rows_to_columns, write_json, write_table
from lab.services.broker_cluster import running_nodes
from tests.awaiting import await_that
from tests.e2e.playing import play
from tests.kafka.crashable import CrashableBroker
from tests.kafka.foreign import Foreign, filled, members

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
INTERVAL_S = 0.25
PARTITIONS = 4


@contextmanager
def watched(run_dir: Path, at: str, **cluster: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a watch of one cluster until the block ends."""
    about = {"bootstrap_servers": at, **cluster}
    spec = {
        "run_id": "watch",
        "clusters": {"leaf": about},
        "options": {"interval_s": INTERVAL_S, "before_s": 10, "after_s": 30},
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


def audited(run_dir: Path, began_us: int, ended_us: int) -> dict[str, Any]:
    """Audit a run in which something was restarted; return what the check measured."""
    who = {"host": "h", "service": "theirs", "instance": "1", "ok": True}
    took = [("kill", began_us, began_us), ("ready", began_us, ended_us)]
    done = [{**who, "action": name, "started_us": begin, "ended_us": end} for name, begin, end in took]
    evidence = run_dir / "evidence"
    write_table(evidence, "actions", "collect", rows_to_columns("actions", done))
    run = json.loads((evidence / "run.json").read_text())
    write_json(evidence / "run.json", {**run, "files": files_of(evidence)})
    (run_dir / "slo.yml").write_text("{}\n")
    places = {"evidence": evidence, "slo": run_dir / "slo.yml", "out": run_dir / "out"}
    words = [word for name, path in places.items() for word in (f"--{name}", str(path))]
    subprocess.run([str(Path(sys.executable).with_name("kedge")), "audit", *words], check=False)
    (check,) = json.loads((run_dir / "out" / "verdicts.json").read_text())["checks"]
    return dict(check["measured"])


def assert_saw(measured: dict[str, Any], group: Foreign, began_us: int) -> None:
    """Hold the delivery gap of a group against what its members wrote down."""
    said = measured["by_group"][group.group]
    seen_s = max(group.gaps_us(began_us).values()) / 1e6
    error_s = said["commits_every_s"] + 2 * measured["interval_s"]
    assert abs((said["delivery_gap_s"] or 0) - seen_s) <= error_s, (seen_s, said)


@pytest.mark.long  # on a busy machine samples come late, and what is usual is too long to tell a gap
def test_a_killed_member_costs_its_group_what_its_clients_saw(
    broker: CrashableBroker, topic: str, tmp_path: Path
) -> None:
    run_dir, at = tmp_path / "run", {"bootstrap_servers": broker.bootstrap_servers}
    own = {**at, "auto_commit_interval_ms": 500}
    with (
        filled(broker.bootstrap_servers, topic, 200, PARTITIONS),
        members(tmp_path, topic, f"classic-{topic}", 2, session_timeout_ms=6000, **own) as killed,
        members(tmp_path, topic, f"new-{topic}", 2, group_protocol="consumer", **own) as left_alone,
    ):
        await_that(lambda: killed.deliveries() > 50 and left_alone.deliveries() > 50, "they read", 60)
        with watched(run_dir, broker.bootstrap_servers, topics=[topic]) as process:
            await_that(lambda: phase(run_dir) == "running", "the watch runs", 60)
            before = killed.members[1].count()
            began_us = killed.members[0].kill()
            await_that(lambda: killed.gaps_us(began_us).keys() == {*range(PARTITIONS)}, "all are read", 60)
            await_that(lambda: killed.members[1].count() > before + 1000, "the other has them", 60)
            (run_dir / "stop").touch()
            assert process.wait(60) == 0
    for table in ("end_offsets", "group_offsets", "group_states", "assignments"):
        assert rows(run_dir, table), table
    measured = audited(run_dir, began_us, began_us + 8_000_000)
    for group in (killed, left_alone):
        assert_saw(measured, group, began_us)
    assert measured["by_group"][killed.group]["delivery_gap_s"] > 4
    assert measured["by_group"][left_alone.group]["protocol"] == "consumer"


def killed(node: CrashableBroker) -> Callable[[], object]:
    """Kill a broker; return what starts it again."""
    node.kill()
    return node.start


def stopped(node: CrashableBroker) -> Callable[[], object]:
    """Have a broker answer nobody, its connections open; return what lets it go on."""
    os.kill(node.pid, signal.SIGSTOP)
    return lambda: os.kill(node.pid, signal.SIGCONT)


@pytest.mark.long  # as above
@pytest.mark.parametrize("fails", [killed, stopped])
def test_a_broker_that_fails_costs_groups_what_their_clients_saw(
    jars: Path, tmp_path: Path, fails: Callable[[CrashableBroker], Callable[[], object]]
) -> None:
    run_dir, topic = tmp_path / "run", "theirs"
    copies = {"offsets.topic.replication.factor": "3", "broker.session.timeout.ms": "3000"}
    with running_nodes(jars, tmp_path / "nodes", 3, config=copies) as nodes:
        every = ",".join(node.bootstrap_servers for node in nodes)
        nodes[0].create_topic(topic, PARTITIONS, copies=3)
        own = {"bootstrap_servers": every, "auto_commit_interval_ms": 500}
        with (
            filled(every, topic, 200, PARTITIONS),
            members(tmp_path, topic, "classic", 2, **own) as classic,
            members(tmp_path, topic, "new", 2, group_protocol="consumer", **own) as new,
        ):
            await_that(lambda: classic.deliveries() > 50 and new.deliveries() > 50, "they read", 60)
            with watched(run_dir, every, topics=[topic]) as process:
                await_that(lambda: phase(run_dir) == "running", "the watch runs", 60)
                began_us = time.time_ns() // 1000
                goes_on = fails(nodes[1])
                # Others lead its partitions by then.
                await_that(lambda: max(classic.gaps_us(began_us).values(), default=0) > 1e6, "all go on", 60)
                goes_on()
                ended_us, before = time.time_ns() // 1000, (classic.deliveries(), new.deliveries())
                await_that(
                    lambda: classic.deliveries() > before[0] + 1000 and new.deliveries() > before[1] + 1000,
                    "both read on",
                    60,
                )
                (run_dir / "stop").touch()
                assert process.wait(60) == 0
    measured = audited(run_dir, began_us, ended_us)
    for group in (classic, new):
        assert_saw(measured, group, began_us)
    assert measured["by_topic"][0]["produce_gap_s"] > 1


def test_playbook_judges_what_flows_of_an_inventory_that_loads_nothing(
    broker: CrashableBroker, topic: str, tmp_path: Path
) -> None:
    watch = {"interval_s": 5, "before_s": 62, "for_s": 75, "after_s": 30, "topics": [topic]}
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
