"""The whole loop on real nodes: what make demo promises, and what a person sees when something is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.e2e.playing import ROOT, local_fleet, on_node, play, recap
from tests.faults.synthetic import write_file

INVENTORY = "inventories/local"
RUN = ROOT / "runs" / "latest"

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def demo() -> Iterator[subprocess.CompletedProcess[str]]:
    """``make demo``, ended; its fleet goes on running for the other tests and is removed at the end.

    What it came to is for the first test alone to judge: the faults below need its fleet, not its figures.
    """
    (ROOT / "runs").mkdir(exist_ok=True)
    try:
        with (ROOT / "runs" / "demo.log").open("w+", encoding="utf-8") as log:
            done = subprocess.run(
                [sys.executable, "-m", "lab.demo", "--load=6000"],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
            log.seek(0)
            yield subprocess.CompletedProcess(done.args, done.returncode, stdout=log.read())
    finally:
        local_fleet("down", INVENTORY)


@pytest.fixture(scope="module")
def verdicts(demo: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert f"report: {RUN.resolve() / 'report'}" in demo.stdout, demo.stdout[-6000:]
    document: dict[str, Any] = json.loads((RUN / "report" / "verdicts.json").read_text())
    return document


def check(verdicts: dict[str, Any], name: str) -> dict[str, Any]:
    return next(c for c in verdicts["checks"] if c["name"] == name)


def test_the_verdict_is_pass_with_every_check_run(
    demo: subprocess.CompletedProcess[str], verdicts: dict[str, Any]
) -> None:
    assert demo.returncode == 0, demo.stdout[-6000:]
    assert "The demo in phases" in demo.stdout
    assert verdicts["verdict"] == "pass"
    assert {"delivery", "throughput", "latency", "rebalance"} <= {c["name"] for c in verdicts["checks"]}
    # The inventory gives no level of these.
    measured = {"latency", "zombies"}
    for found in verdicts["checks"]:
        assert found["verdict"] == ("measured" if found["name"] in measured else "pass"), found


def test_the_demo_says_its_load_and_the_report_what_was_tested(
    demo: subprocess.CompletedProcess[str], verdicts: dict[str, Any]
) -> None:
    del verdicts
    assert "load: 6,000 Kafka and 600 REST records/s, as asked for" in demo.stdout
    page = (RUN / "report" / "report.html").read_text()
    head = page.partition('id="tested"')[2].partition("</section>")[0]
    for said in (
        "kafka_rest: sandbox 1.0.0, 4 instances on rest1, rest2",
        "HAProxy 2.",
        "partitions 6, replication 1",
        "6,000 records/s, 100 bytes each",
        "one machine with",
    ):
        assert said in head
    assert "not recorded" not in head


def test_the_summary_tells_figures_and_levels(demo: subprocess.CompletedProcess[str]) -> None:
    lines = demo.stdout.splitlines()
    (delivery,) = [line for line in lines if "pass      delivery" in line]
    assert "0 lost of " in delivery
    (latency,) = [line for line in lines if "measured  latency" in line]
    assert "kafka ack p99 " in latency
    assert "no level given" in latency


def test_a_million_records_and_four_restarts_are_audited(verdicts: dict[str, Any]) -> None:
    rows = sum(pq.read_metadata(f).num_rows for f in (RUN / "evidence" / "ledger").glob("*.parquet"))
    assert rows >= 600_000
    done = [json.loads(line) for line in (RUN / "actions.jsonl").read_text().splitlines()]
    assert sum(a["action"] == "ready" and a["ok"] for a in done) == 4
    assert check(verdicts, "delivery")["anomalies"] == {} or all(
        a["count"] == 0 for kind, a in check(verdicts, "delivery")["anomalies"].items() if kind == "lost"
    )


@pytest.mark.usefixtures("verdicts")
def test_no_two_instances_were_down_at_once() -> None:
    actions = [json.loads(line) for line in (RUN / "actions.jsonl").read_text().splitlines()]
    stops = sorted(a["started_us"] for a in actions if a["action"] == "stop")
    readies = sorted(a["ended_us"] for a in actions if a["action"] == "ready")
    for ready, next_stop in zip(readies, stops[1:], strict=False):
        assert ready < next_stop


def test_a_removed_record_is_named(verdicts: dict[str, Any], tmp_path: Path) -> None:
    del verdicts
    evidence = tmp_path / "evidence"
    shutil.copytree(RUN / "evidence", evidence)
    part = max((evidence / "records").glob("*.parquet"), key=lambda f: f.stat().st_size)
    table = pq.read_table(part)
    gone = next(r for r in table.slice(table.num_rows // 2).to_pylist() if r["producer"] is not None)
    keep = [
        not (row_partition == gone["partition"] and row_offset == gone["offset"])
        for row_partition, row_offset in zip(
            table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True
        )
    ]
    assert keep.count(False) == 1
    # Listed anew: the topic had no more.
    write_file(part, table.filter(keep))
    for crc in part.parent.glob(f".{part.name}.crc"):  # the checksum that Hadoop keeps beside its files
        crc.unlink()
    out = tmp_path / "report"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "spark_checks",
            "--evidence",
            str(evidence),
            "--slo",
            str(RUN / "slo.yml"),
            "--out",
            str(out),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lost = check(json.loads((out / "verdicts.json").read_text()), "delivery")["anomalies"]["lost"]
    assert lost["count"] == 1
    example = lost["examples"][0]
    assert {k: example[k] for k in ("producer", "seq", "topic", "partition", "offset")} == {
        k: gone[k] for k in ("producer", "seq", "topic", "partition", "offset")
    }


@pytest.mark.usefixtures("demo")
def test_check_mode_on_a_deployed_fleet_succeeds_and_changes_nothing() -> None:
    done = play("deploy.yml", "--check", "--diff", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout
    assert all(host["changed"] == 0 for host in recap(done.stdout).values())


@pytest.mark.usefixtures("demo")
def test_an_error_in_the_inventory_stops_before_a_host_is_touched() -> None:
    done = play("deploy.yml", "-e", '{"kafka_rest_instances_per_host": -1}', inventory=INVENTORY)
    assert done.returncode != 0
    assert "kafka_rest_instances_per_host" in done.stdout + done.stderr
    assert set(recap(done.stdout)) == {"localhost"}


@pytest.mark.usefixtures("demo")
def test_a_look_at_the_state_sends_and_restarts_nothing(tmp_path: Path) -> None:
    latest = RUN.resolve()
    running = "systemctl show 'kafka-rest@*' -p MainPID --value"
    before = [on_node("kedge", host, running) for host in ("rest1", "rest2")]
    done = play("verify.yml", "-e", f"verify_steps=state kedge_runs_dir={tmp_path}", inventory=INVENTORY)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "It sends nothing and restarts nothing" in done.stdout
    (run,) = tmp_path.iterdir()
    assert (run / "report" / "state.xml").exists()
    assert not [*(run / "evidence").iterdir(), *run.glob("load.log")]
    assert [on_node("kedge", host, running) for host in ("rest1", "rest2")] == before
    assert RUN.resolve() == latest


def test_a_step_of_the_verification_that_is_none_is_refused(tmp_path: Path) -> None:
    done = play("verify.yml", "-e", f"verify_steps=all kedge_runs_dir={tmp_path}", inventory=INVENTORY)
    assert done.returncode != 0
    assert "Give -e verify_steps=state, watch, load or restarts." in " ".join(done.stdout.split())
    assert not [*tmp_path.iterdir()]
