"""How fast the audit reads topics, and the cores' load from it: ``python -m lab.bench.audit.kafka [N]``.

Starts a broker on this machine, writes N million records of 100 bytes with a load's identities into
two topics of 12 partitions, one with eleven times the records of the other, and reads them as the audit does.
The broker shares the cores with the audit: beside the rate stands its share. Written to scale.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from kedge.evidence.record import run_tag
from kedge.evidence.run import parse_run
from lab.bench.audit.measured import keep
from lab.bench.jars import broker_jars
from lab.services.brokers import Broker, running_broker
from spark_checks.engine import session
from spark_checks.ingest import ingest
from verify.load.records import Encoder
from verify.process import leave

RUN_ID: Final = "bench"
RECORD_BYTES: Final = 100
PARTITIONS: Final = 12
CORES: Final = 2
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def write(broker: Broker, topic: str, producer: int, count: int) -> None:
    """Send that many records, spread over the partitions in turns of twenty."""
    client = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "acks": "1",
                       "compression.type": "lz4", "queue.buffering.max.messages": 400_000})  # fmt: skip
    encoder = Encoder(run_tag(RUN_ID), producer, RECORD_BYTES)
    for first in range(0, count, 10_000):
        seq = np.arange(first, min(first + 10_000, count))
        values, _ = encoder.encode(seq, seq)
        for place, number in enumerate(seq):
            value = values[place * RECORD_BYTES : (place + 1) * RECORD_BYTES]
            client.produce(topic, value, partition=int(number) // 20 % PARTITIONS)
        client.poll(0)
        while len(client) > 300_000:
            client.poll(0.05)
    if client.flush(120):
        raise SystemExit("the broker did not take all records within two minutes")


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(broker: Broker, records: int, folder: Path) -> dict[str, Any]:
    """Write the topics and land them; return the rate and who used how much of the cores."""
    counts = {"big": records - records // 12, "small": records // 12}
    for number, (topic, count) in enumerate(counts.items()):
        broker.create_topic(topic, PARTITIONS)
        write(broker, topic, number, count)
    starts = {str(partition): 0 for partition in range(PARTITIONS)}
    about = {
        "run_id": RUN_ID, "started_us": 0, "ended_us": 2, "measured_until_us": 1,
        "clusters": {"leaf": {"bootstrap_servers": broker.bootstrap_servers}},
        "topics": [{"cluster": "leaf", "topic": topic, "partitions": PARTITIONS, "start_offsets": starts}
                   for topic in counts],
    }  # fmt: skip
    before = cpu_s(broker.pid)
    spark = session.start(f"local[{CORES}]")
    found = ingest(spark, folder.as_uri(), parse_run(json.dumps(about), "run.json"))
    used = cpu_s(broker.pid) - before
    spark.stop()
    if found.reason or found.records != records:
        raise SystemExit(f"{found.records} of {records} records were read: {found.reason}")
    return {
        "records": records,
        "record_bytes": RECORD_BYTES,
        "seconds": round(found.seconds, 1),
        "records_per_s": round(records / found.seconds),
        "share_of_cores_broker": round(used / found.seconds / CORES, 2),
    }


def main(millions: float) -> None:
    """Measure, print and keep the result."""
    with running_broker(broker_jars()) as broker, tempfile.TemporaryDirectory() as folder:
        result = measure(broker, int(millions * 1_000_000), Path(folder))
    print(json.dumps(result))
    keep({"kafka": result})


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4)
    leave(0)
