"""Changes by search on the fleet, under load: what a deploy changes is drawn, a fifth is killed, the audit judges.

    KEDGE_SEED=7 KEDGE_LOAD_S=1800 python -m pytest -m long tests/e2e/test_changes_search.py

The load goes on for ``KEDGE_LOAD_S`` (900); changes are drawn until it ends. Each is printed, so that a failure's
seed and place can be played again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.awaiting import await_that
from tests.e2e.playing import begin, deployed_fleet, load_alone, play

INVENTORY = "inventories/local"
LOAD_S = int(os.environ.get("KEDGE_LOAD_S", "900"))
SEED = int(os.environ.get("KEDGE_SEED", "20261124"))
#: At-least-once allows a record twice, and out of order, where its answer was lost. Nothing allows these.
NEVER = {"lost", "corrupted", "misplaced", "unexpected", "undelivered"}
#: A load that the changes do not disturb.
VERIFY = {
    "min_s": LOAD_S,
    "max_s": LOAD_S + 300,
    "min_records": 1,
    "kafka": {"records_per_s": 2000},
    "rest": {"records_per_s": 500, "records_per_request": 10},
}
#: A task of a deploy, of some 150, at which it is killed.
TASKS = range(40, 150)

pytestmark = [pytest.mark.fleet, pytest.mark.long, pytest.mark.timeout(2 * LOAD_S + 1200)]

Variables = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def deployed() -> Iterator[None]:
    """The demo's fleet, deployed; it is removed at the end."""
    with deployed_fleet(INVENTORY):
        yield


def drawn(chance: random.Random) -> Variables:
    """Return what an inventory may say: several variables change together."""
    variables: Variables = {
        "advice": chance.choice(["measured", "measured", "documented"]),
        "kafka_rest_instances_per_host": chance.choice([1, 2, 2, 3]),
    }
    if chance.random() < 0.5:
        variables["kafka_rest_heap_mib"] = chance.choice([512, 640, 768])
    if chance.random() < 0.5:
        variables["kafka_rest_settings"] = {"producer.linger.ms": chance.choice(["1", "10"])}
    return variables


def deploy(variables: Variables) -> subprocess.CompletedProcess[str]:
    return play("deploy.yml", "-e", json.dumps(variables), inventory=INVENTORY)


def killed(variables: Variables, at: int) -> bool:
    """Deploy, and kill all of it without notice at a task; return whether it got as far."""
    tasks = 0
    with begin("deploy.yml", "-e", json.dumps(variables), inventory=INVENTORY, own_group=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tasks += line.startswith("TASK [")
            if tasks == at:
                os.killpg(process.pid, signal.SIGKILL)
                return True
    return False


def test_no_record_is_lost_whatever_changes_under_load(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    now: Variables = {}
    done: list[str] = []
    output = tmp_path / "verify.log"
    with (
        output.open("w") as file,
        begin(*load_alone(INVENTORY, tmp_path / "runs", VERIFY), inventory=INVENTORY, to=file) as load,
    ):
        await_that(
            lambda: "Wait until every record" in output.read_text() or load.poll() is not None,
            "the load is warm",
            limit_s=300,
        )
        while load.poll() is None and not ended(tmp_path / "runs"):
            after = drawn(chance)
            kill = chance.random() < 0.2
            back = chance.random() < 0.5
            at = chance.choice(TASKS)
            print(
                f"change {len(done)}: {now} -> {after}" + f", killed at task {at}, back {back}" * kill,
                flush=True,
            )
            if kill and killed(after, at) and back:
                after = now
            one = deploy(after)
            if one.returncode and ended(tmp_path / "runs"):
                break  # the load's groups went while a gate asked for them
            assert one.returncode == 0, one.stdout[-6000:] + one.stderr[-2000:]
            done.append("killed" if kill else "whole")
            now = after
        load.wait()
    last = deploy(now)
    assert last.returncode == 0, last.stdout[-6000:]
    report = tmp_path / "runs/latest/report/verdicts.json"
    assert report.exists(), output.read_text()[-6000:]
    (delivery,) = [c for c in json.loads(report.read_text())["checks"] if c["name"] == "delivery"]
    print(f"{len(done)} changes, {done.count('killed')} of them killed; seed {SEED}; {delivery['because']}")
    assert delivery["verdict"] in ("pass", "fail"), delivery
    assert not NEVER & delivery["anomalies"].keys(), delivery
    assert len(done) >= LOAD_S // 200


def ended(runs: Path) -> bool:
    """Return whether the load has ended, so that nobody would see another change."""
    return json.loads((runs / "latest/evidence/run.json").read_text())["ended_us"] is not None
