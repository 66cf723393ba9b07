"""The measuring command against a real broker: its numbers, its vars file, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from kedge.services.planning import make_plan
from kedge.services.topics.partition_count import partitions_needed
from lab.services.serving import free_ports
from tests.awaiting import await_that
from tests.kafka.crashable import CrashableBroker
from tests.kafka.guarded import GuardedBroker
from tests.kafka.loads import ROOT
from tests.planned import of_topics

pytestmark = pytest.mark.kafka
QUICK = [
    "--partitions",
    "1,2",
    "--repetitions",
    "1",
    "--seconds",
    "1",
    "--warm-up",
    "0.5",
    "--cluster",
    "leaf",
]


def start(servers: str, runs: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "verify.measure", "--bootstrap-servers", servers, "--runs", str(runs)]
    return subprocess.Popen(
        [*command, *QUICK, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def own_topics(servers: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": servers})
    return [name for name in admin.list_topics(timeout=10).topics if name.startswith("kedge-measure-")]


def test_a_measurement_becomes_a_plan_and_leaves_no_topic(broker: CrashableBroker, tmp_path: Path) -> None:
    out = tmp_path / "rates.yml"
    process = start(
        broker.bootstrap_servers,
        tmp_path,
        "--target",
        "orders=1",
        "--out",
        str(out),
        "--clients",
        "2",
        "--seconds",
        "5",
        "--warm-up",
        "2",
    )
    output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors + output
    assert own_topics(broker.bootstrap_servers) == []
    variables: dict[str, Any] = yaml.safe_load(out.read_text())
    (rates,) = variables["recommended"]["kafka_partition_rates"]
    assert rates["record_bytes"] == 1000
    plan = make_plan(of_topics({"target_mb_per_s": 500}, **variables))
    partitions = next(s for s in plan.topics["leaf"]["t0"] if s.key == "partitions")
    needed = partitions_needed(500, rates["production_mb_per_s"], rates["consumption_mb_per_s"])
    assert partitions.value == str(needed)
    (verdicts,) = tmp_path.glob("measure-*/report/verdicts.json")
    (checked,) = json.loads(verdicts.read_text())["checks"]
    assert set(checked["measured"]["production"]["curve_mb_per_s"]) == {"1", "2"}
    assert "topic orders: 1 MB/s x growth 1 needs 1 partitions" in output
    assert verdicts.with_name("report.html").stat().st_size > 1_000_000  # with the figure's own script


def test_an_interrupted_measurement_removes_its_topic(broker: CrashableBroker, tmp_path: Path) -> None:
    process = start(broker.bootstrap_servers, tmp_path, "--seconds", "60")
    await_that(lambda: list(tmp_path.glob("measure-*/evidence/ledger/*.parquet")), "records are measured")
    assert own_topics(broker.bootstrap_servers)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "the temporary topic is removed" in errors
    assert own_topics(broker.bootstrap_servers) == []


def complaint(servers: str, runs: Path, *more: str) -> str:
    process = start(servers, runs, *more)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 2, errors
    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    return line


def test_more_copies_than_brokers_are_one_line(broker: CrashableBroker, tmp_path: Path) -> None:
    line = complaint(broker.bootstrap_servers, tmp_path, "--replication", "3")
    assert line == (
        "error: cluster leaf has 1 broker, and --replication is 3: say --replication 1 or less. "
        "Nothing was reported. Fix that, then run this again"
    )


def test_a_cluster_that_refuses_topics_is_one_line(guarded: GuardedBroker, tmp_path: Path) -> None:
    line = complaint(guarded.bootstrap_servers, tmp_path)
    assert "does not create topic" in line
    assert "TOPIC_AUTHORIZATION_FAILED" in line
    assert "a measurement needs the right to create and delete topics named kedge-measure-*" in line


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    line = complaint(f"127.0.0.1:{free_ports(1)[0]}", tmp_path)
    assert "no broker of 127.0.0.1:" in line
    assert "is the cluster deployed" in line


def test_a_codec_that_there_is_not_is_one_line(tmp_path: Path) -> None:
    assert "--codec: " in complaint("127.0.0.1:1", tmp_path, "--codec", "rar")
