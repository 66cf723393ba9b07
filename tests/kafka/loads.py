"""Runs `python -m verify.load` as a person would, and reads what it left and what is in the topic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from kedge.evidence.record import decode, run_tag
from kedge.evidence.tables import arrow_schema
from tests.awaiting import WAIT_S, await_that

ROOT = Path(__file__).parents[2]


class LoadRun:
    """One run's folder and the process that loads."""

    def __init__(self, folder: Path, load: dict[str, Any]) -> None:
        self.folder = folder
        self.run_id = str(load["run_id"])
        self.bootstrap_servers = str(load["bootstrap_servers"])
        (folder / "load.json").write_text(json.dumps(load))
        self.output = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> LoadRun:
        """Start it, in a session of its own as Ansible's async does."""
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "verify.load", "--run-dir", str(self.folder), *arguments],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def ended(self) -> int:
        """Wait for its end and return its exit status."""
        assert self.process is not None
        return self.process.wait(WAIT_S)

    def state(self) -> dict[str, Any]:
        """Return load.state, empty before there is one."""
        path = self.folder / "load.state"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def await_phase(self, *phases: str) -> None:
        """Wait until the load has come to one of these phases."""

        def there() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.output.read_text()
            return self.state().get("phase") in phases

        await_that(there, f"the load is {' or '.join(phases)}")

    def await_acked(self, count: int) -> None:
        """Wait until that many records are acked."""
        await_that(lambda: self.state().get("acked", 0) >= count, f"{count} records are acked")

    def children(self) -> list[psutil.Process]:
        """Return the processes that work for this run, the parent not among them."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            command = process.info["cmdline"] or []
            if "verify.load.worker" in command and str(self.folder) in command:
                found.append(process)
        return found

    def enough(self) -> None:
        """Say that the load may end."""
        (self.folder / "stop").touch()

    def table(self, name: str) -> pd.DataFrame:
        """Return an evidence table, read as the audit reads it."""
        folder = self.folder / "evidence" / name
        return pq.ParquetDataset(folder, schema=arrow_schema(name)).read().to_pandas()

    def run_json(self) -> dict[str, Any]:
        """Return evidence/run.json."""
        return dict(json.loads((self.folder / "evidence" / "run.json").read_text()))

    def in_topic(self, topic: str) -> pd.DataFrame:
        """Return the run's records in a topic: partition, offset, producer, seq, crc."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap_servers, "group.id": "truth", "enable.partition.eof": True}
        )
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        rows: list[tuple[int, int, int, int, int]] = []
        at_end: set[int] = set()
        tag = run_tag(self.run_id)
        while len(at_end) < len(partitions):
            for message in consumer.consume(10_000, 1):
                if message.error() is not None:
                    at_end.add(message.partition())
                elif (identity := decode(tag, message.value())) is not None:
                    assert identity.crc_ok
                    place = (message.partition(), message.offset())
                    rows.append((*place, identity.producer, identity.seq, identity.crc))
        consumer.close()
        return pd.DataFrame(rows, columns=["partition", "offset", "producer", "seq", "crc"])


def kill_quietly(run: LoadRun) -> None:
    """End whatever a failed test left of a run, each by its own pid."""
    processes = run.children()
    if run.process is not None and run.process.poll() is None:
        os.kill(run.process.pid, 9)
        run.process.wait()
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def assert_ledger_is_true(ledger: pd.DataFrame, topic: pd.DataFrame) -> None:
    """Every record has one row; acked ones are where it says, failed ones nowhere, and none is foreign."""
    for _, rows in ledger.groupby("producer"):
        assert sorted(rows["seq"]) == list(range(len(rows)))
    acked = ledger[ledger["outcome"] == "acked"]
    keys = ["producer", "seq", "crc", "partition", "offset"]
    found = acked.astype({"partition": "int64", "offset": "int64"}).merge(
        topic, on=keys, how="left", indicator=True
    )
    assert (found["_merge"] == "both").all(), found[found["_merge"] != "both"].head()
    known = topic.merge(ledger[["producer", "seq", "outcome"]], on=["producer", "seq"], how="left")
    assert known["outcome"].notna().all(), "records in the topic that the ledger does not know"
    assert not (known["outcome"] == "failed").any(), "records in the topic that are told as failed"
