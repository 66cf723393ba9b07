"""A target becomes a number of partitions: measured on a node's broker, planned, deployed, and reached."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kedge.services.topics.partition_count import partitions_needed
from tests.e2e.playing import ROOT, local_fleet, play
from tests.kafka.loads import LoadRun
from verify.addresses import find

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(600), pytest.mark.long]
INVENTORY = "molecule/kafka_topics/inventory"
RECORD_BYTES = 1000
#: The target's share of what one partition took and gave by itself, on the same machine just before: in the
#: load, producer, consumer, their ledger and the broker have to share its two cores.
SHARE = 0.2
#: More records/s than that are not for one generating process with its ledger.
MOST_MB_PER_S = 4.0
SECONDS = 12


def python(*words: str) -> None:
    """Run a module, which may end with 1: that something is not as it should be."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout[-3000:] + done.stderr[-3000:]


def played(*arguments: str) -> str:
    done = play(*arguments, inventory=INVENTORY)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def fleet() -> Iterator[None]:
    """One broker on a node, with its topics."""
    try:
        local_fleet("up", INVENTORY)
        played("deploy.yml")
        yield
    finally:
        local_fleet("down", INVENTORY)


def measured(folder: Path) -> dict[str, Any]:
    """What one partition takes and gives, from the command that a person runs."""
    words = ["--inventory", INVENTORY, "--cluster", "leaf", "--record-bytes", str(RECORD_BYTES)]
    words += ["--partitions", "1,2", "--repetitions", "1", "--seconds", "3", "--runs", str(folder)]
    python("verify.measure", *words, "--out", str(folder / "rates.yml"))
    (rates,) = yaml.safe_load((folder / "rates.yml").read_text())["recommended"]["kafka_partition_rates"]
    found: dict[str, Any] = rates
    return found


def test_the_recommended_partitions_are_deployed_and_reach_the_target(fleet: None, tmp_path: Path) -> None:
    rates = measured(tmp_path)
    production, consumption = rates["production_mb_per_s"], rates["consumption_mb_per_s"]
    target = round(min(MOST_MB_PER_S, SHARE * min(production, consumption)), 3)
    # Room to grow, so that more than one partition is needed whatever this machine carries.
    growth = round(1.5 * min(production, consumption) / target, 3)
    topic = {"name": "reached", "cluster": "leaf", "target_mb_per_s": target, "growth": min(growth, 100),
             "record_bytes": RECORD_BYTES, "replication": 1}  # fmt: skip
    variables = tmp_path / "topics.yml"
    variables.write_text(yaml.safe_dump({"kafka_topics": [topic], "kafka_partition_rates": [rates]}))

    needed = partitions_needed(target, production, consumption, min(growth, 100))
    assert needed >= 2
    shown = played("plan.yml", "-e", f"@{variables}")
    assert f"would create it with partitions={needed}" in shown
    played("deploy.yml", "-e", f"@{variables}")

    servers = find(ROOT / INVENTORY, "leaf").bootstrap_servers
    records_per_s = round(target * 1e6 / RECORD_BYTES)
    kafka = {"topic": "reached", "group": "reached", "records_per_s": records_per_s,
             "record_bytes": RECORD_BYTES, "producers": 1, "consumers": 1}  # fmt: skip
    load = LoadRun(tmp_path, {"run_id": "reached", "cluster": "leaf", "bootstrap_servers": servers,
                              "kafka": kafka, "warm_up_s": 3, "min_s": SECONDS, "max_s": 60})  # fmt: skip
    (tmp_path / "stop").touch()
    assert load.start().ended() == 0, load.output.read_text()
    (named,) = json.loads((tmp_path / "evidence" / "run.json").read_text())["topics"]
    assert named["partitions"] == needed

    (tmp_path / "slo.yml").write_text(yaml.safe_dump(
        # A generator keeps its rate but for what lies between two of its steps.
        {"throughput": {"kafka": {"records_per_s": 0.99 * records_per_s}}}
    ))  # fmt: skip
    python("spark_checks", "--evidence", str(tmp_path / "evidence"), "--slo", str(tmp_path / "slo.yml"),
           "--out", str(tmp_path / "report"))  # fmt: skip
    checks = json.loads((tmp_path / "report" / "verdicts.json").read_text())["checks"]
    verdicts = {check["name"]: (check["verdict"], check["because"]) for check in checks}
    assert verdicts["throughput"][0] == "pass", verdicts["throughput"]
    assert verdicts["delivery"][0] == "pass", verdicts["delivery"]
