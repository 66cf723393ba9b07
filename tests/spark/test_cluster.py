"""The packed job on a Spark cluster of a master and two workers: the same verdicts, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_checks.package import pack
from tests.faults.synthetic import write_evidence
from tests.spark_cluster import WORKERS, cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with cluster(tmp_path) as address:
        yield address


def verdicts(evidence: Path, out: Path, slo: Path, address: str, **variables: str) -> str:
    command = [sys.executable, "-m", "spark_checks", "--evidence", str(evidence), "--slo", str(slo)]
    done = subprocess.run(
        [*command, "--out", str(out), "--master", address],
        capture_output=True,
        text=True,
        check=False,
        cwd=evidence if variables else ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
    )
    said = [file.read_text(errors="replace")[-1500:] for file in out.parent.glob("worker*/*/*/stderr")]
    assert done.returncode == 1, done.stdout + done.stderr + "\n".join(said)
    document = json.loads((out / "verdicts.json").read_text())
    # How long it took is no part of the verdict.
    assert document.pop("timings_s")["all"] > 0
    return json.dumps(document)


def test_two_workers_give_the_verdicts_of_one_process(tmp_path: Path, master: str) -> None:
    evidence, slo = tmp_path / "evidence", tmp_path / "slo.yml"
    write_evidence(evidence, 22_000, per_record=2)
    # Something must be found, so that examples and their order are compared too.
    next((evidence / "deliveries").glob("rest-*.parquet")).unlink()
    next((evidence / "records").glob("made-1-*.parquet")).unlink()
    slo.write_text("rebalance: {min_restarts: 2}\n")
    alone = verdicts(evidence, tmp_path / "alone", slo, "local[2]")
    assert '"undelivered"' in alone
    assert '"missing": 20000' in alone
    # The cluster gets the job as it is packed, away from this repository.
    pack(tmp_path / "kedge-audit.zip")
    packed = {"PYTHONPATH": str(tmp_path / "kedge-audit.zip")}
    assert verdicts(evidence, tmp_path / "cluster", slo, master, **packed) == alone
    # Both workers had a part in it.
    for number in WORKERS:
        assert "Asked to launch executor" in (tmp_path / f"worker{number}.log").read_text()
