"""The packed job by spark-submit on a Spark cluster of a master and two workers: the verdicts of one process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kedge.evidence.writing import write_json
from spark_checks.package import main as package
from tests.awaiting import await_that
from tests.faults.synthetic import write_evidence
from tests.spark_cluster import SPARK, WORKERS, cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
#: Altered copies.
ONE_IN = 50
LEVELS = "rebalance: {min_restarts: 2}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evidence in which something must be found, so that examples and their order are compared too."""
    made = tmp_path_factory.mktemp("submitted")
    evidence = made / "evidence"
    write_evidence(evidence, 22_000, per_record=2, mirrored=True)
    alter(next((evidence / "records").glob("copies-*.parquet")))
    next((evidence / "deliveries").glob("rest-*.parquet")).unlink()
    next((evidence / "records").glob("made-1-*.parquet")).unlink()
    # As evidence of 0.1.0: no list tells that a part of it lacks, so it counts as lost.
    for listed in evidence.glob("*/_*.files"):
        listed.unlink()
    run = json.loads((evidence / "run.json").read_text())
    write_json(evidence / "run.json", {**run, "files": None})
    (made / "slo.yml").write_text(LEVELS)
    package([str(made / "packed")])
    return made


def alter(copies: Path) -> None:
    """Change values of copies so that they claim no identity: what they are copies of, their other parts tell."""
    rows = pq.read_table(copies)
    altered = pa.array(number % ONE_IN == 0 for number in range(rows.num_rows))
    changed = {"producer": None, "seq": None, "crc": None, "crc_ok": None, "value_hash": 1}
    for name, value in changed.items():
        place = rows.schema.get_field_index(name)
        column = pc.if_else(altered, pa.scalar(value, rows.schema.field(name).type), rows[name])
        rows = rows.set_column(place, rows.schema.field(name), column)
    pq.write_table(rows, copies)


@pytest.fixture(scope="module")
def alone(folder: Path) -> str:
    """Verdicts of one process."""
    command = [sys.executable, "-m", "spark_checks", "--master", "local[2]"]
    found = audited(command, folder, str(folder / "evidence"), str(folder / "slo.yml"), folder / "alone")
    assert '"undelivered"' in found
    assert '"missing": 20000' in found
    assert f'"altered_value": {20_000 // ONE_IN}' in found
    return found


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    with cluster(folder) as address:
        yield address


def audited(
    command: list[str], folder: Path, evidence: str, slo: str, out: Path, uri: str = "", **variables: str
) -> str:
    done = subprocess.run(
        [*command, "--evidence", evidence, "--slo", slo, "--out", uri or str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT if "-m" in command else folder,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "", **variables},
    )
    said = [file.read_text(errors="replace")[-1500:] for file in folder.glob("worker*/*/*/stderr")]
    assert done.returncode == 1, done.stdout + done.stderr[-3000:] + "\n".join(said)
    assert (out / "report.html").stat().st_size > 100_000
    document = json.loads((out / "verdicts.json").read_text())
    # How long it took is no part of the verdict.
    assert document.pop("timings_s")["all"] > 0
    return json.dumps(document)


def submitted(folder: Path, address: str, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Submit the job with settings of the submitter's own; return its verdicts and Spark's event log.

    Evidence, levels and report lie in a store that is no folder of this machine to Python.
    """
    events = folder / f"{name}-events"
    events.mkdir()
    configured = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Dkedge.submitted=yes",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.hadoop.fs.viewfs.mounttable.store.link./run": folder.as_uri(),
    }
    packed = folder / "packed"
    command = [str(SPARK / "bin" / "spark-submit"), "--master", address, "--name", name]
    command += [part for key, value in configured.items() for part in ("--conf", f"{key}={value}")]
    command += ["--py-files", str(packed / "kedge-audit.zip"), str(packed / "kedge-audit.py")]
    store = "viewfs://store/run"
    python = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK)}
    out = folder / name
    found = audited(
        command, folder, f"{store}/evidence", f"{store}/slo.yml", out, f"{store}/{name}", **python
    )
    [log] = [*events.glob("app-*")]
    return found, [json.loads(line) for line in log.read_text().splitlines()]


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in events if one["Event"] == f"SparkListener{kind}"]


def test_a_submitted_job_runs_where_and_as_it_was_submitted(folder: Path, alone: str, master: str) -> None:
    found, events = submitted(folder, master, "submitted")
    assert found == alone
    [environment] = of(events, "EnvironmentUpdate")
    spark, java = environment["Spark Properties"], environment["System Properties"]
    assert (spark["spark.master"], spark["spark.app.name"]) == (master, "submitted")
    assert spark["spark.ui.enabled"] == "true"
    assert java["kedge.submitted"] == "yes"
    # Both workers had a part in it, and Spark tells which check its jobs were for.
    assert len({one["Executor ID"] for one in of(events, "ExecutorAdded")}) == len(WORKERS)
    assert {one["Task Info"]["Executor ID"] for one in of(events, "TaskEnd")} == {"0", "1"}
    groups = {one["Properties"].get("spark.jobGroup.id") for one in of(events, "JobStart")}
    assert None not in groups
    assert {"delivery", "throughput", "latency"} <= groups


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("killed", r'"SparkListenerStageSubmitted","Stage Info":{"Stage ID":(\d+),.*"delivery"'),
        # What Spark keeps without the plan that made it, it has to have twice.
        ("pairing", r'"SparkListenerStageCompleted","Stage Info":{"Stage ID":(\d+),.*"Replication":2'),
    ],
    ids=["checks begin", "altered copies are paired"],
)
def test_an_executor_that_is_killed_changes_no_verdict(
    folder: Path, alone: str, master: str, name: str, stage: str
) -> None:
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill_at_a_task, folder, name, stage)
        found, events = submitted(folder, master, name)
        executor = killed.result()
    assert executor in {one["Executor ID"] for one in of(events, "ExecutorRemoved")}
    lost = [one for one in of(events, "TaskEnd") if one["Task Info"]["Executor ID"] == executor]
    assert "ExecutorLostFailure" in {one["Task End Reason"]["Reason"] for one in lost}
    assert len(of(events, "ExecutorAdded")) > len(WORKERS)
    assert found == alone


def kill_at_a_task(folder: Path, name: str, stage: str) -> str:
    """Kill an executor that has ended a task of such a stage, at another one; return its number."""

    def ended() -> tuple[str, str] | None:
        for log in (folder / f"{name}-events").glob("app-*"):
            events = log.read_text()
            if number := re.search(stage, events):
                task = rf'"SparkListenerTaskEnd","Stage ID":{number[1]},.*?"Executor ID":"(\d+)"'
                return (log.stem, found[1]) if (found := re.search(task, events)) else None
        return None

    told = await_that(ended, f"a task of {stage} has ended", 300)
    assert told
    [log] = folder.glob(f"worker*/{told[0]}/{told[1]}/stderr")
    process = re.search(r"Started daemon with process name: (\d+)@", log.read_text())
    assert process

    def killed() -> bool:
        # Stopped, it ends no task between the look and the kill.
        os.kill(int(process[1]), signal.SIGSTOP)
        said = log.read_text(errors="replace")
        busy = said.count("Running task") > said.count("Finished task")
        os.kill(int(process[1]), signal.SIGKILL if busy else signal.SIGCONT)
        return busy

    await_that(killed, "the executor has a task")
    return log.parent.name
