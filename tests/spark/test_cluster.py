"""The packed job on a Spark cluster of a master and two workers: the same verdicts, byte for byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from local.services.brokers import end_process, log_tail
from spark_checks.package import pack
from tests.awaiting import await_that
from tests.faults.synthetic import write_evidence

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

_SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


class Daemon:
    """A master or worker of Spark's own cluster manager, on loopback, that says in its log where it is."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.log = folder / f"{name}.log"
        kind = name.rstrip("0123456789")
        main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        environment = {
            **os.environ,
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / name),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(_SPARK / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log, env=environment)

    def says(self, pattern: str) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            said = re.search(pattern, self.log.read_text(errors="replace"))
            assert said or self.process.poll() is None, f"it ended:\n{log_tail(self.log)}"
            return said

        said = await_that(found, f"{self.log.stem} says {pattern}")
        assert said is not None
        return said

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        end_process(self.process)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        leader = stack.enter_context(Daemon(tmp_path, "master", "--port", "0"))
        address = leader.says(r"Starting Spark master at (spark://\S+)")[1]
        for number in (1, 2):
            worker = Daemon(tmp_path, f"worker{number}", "--cores", "1", "--memory", "1g", address)
            stack.enter_context(worker).says("Successfully registered with master")
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
    for number in (1, 2):
        assert "Asked to launch executor" in (tmp_path / f"worker{number}.log").read_text()
