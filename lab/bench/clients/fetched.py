"""What a consumer holds of its fetches, with one broker and with three on loopback.

    python -m lab.bench.clients.fetched

Each case is a new JVM that takes one record a poll of a backlog: what lives of its heap then, beside
min(brokers x fetch.max.bytes, partitions x max.partition.fetch.bytes). It writes fetched.json beside this
file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from lab.bench.jars import broker_jars
from lab.services.broker_cluster import running_nodes

MIB: Final = 2**20
_SOURCE: Final = Path(__file__).with_name("Fetched.java")
_REPORT: Final = Path(__file__).with_name("fetched.json")
_RECORD: Final = 100_000
#: What a partition has to fetch, more than one fetch of it takes.
_BACKLOG_MIB: Final = 3
_POLLS: Final = 100
#: Brokers -> partitions, fetch.max.bytes and max.partition.fetch.bytes in MiB.
CASES: Final[dict[int, Sequence[tuple[int, int, int]]]] = {
    1: ((12, 50, 1), (60, 50, 1), (60, 4, 1), (60, 10, 1)),
    3: ((12, 50, 1), (60, 50, 1), (60, 4, 1), (60, 10, 1), (60, 10, 2)),
}


def main() -> int:
    """Run all cases, and write and print what they held."""
    jars = broker_jars()
    found = list(_cases(jars))
    _REPORT.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))
    return 0


def _cases(jars: Path) -> Iterator[dict[str, Any]]:
    for brokers, cases in CASES.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            running_nodes(jars, Path(folder), brokers) as nodes,
        ):
            servers = nodes[0].bootstrap_servers
            for partitions in sorted({case[0] for case in cases}):
                nodes[0].create_topic(f"backlog-{partitions}", partitions)
                _fill(servers, f"backlog-{partitions}", partitions)
            for partitions, fetch, of_partition in cases:
                held = _held(jars, servers, partitions, fetch, of_partition)
                yield {
                    "brokers": brokers,
                    "partitions": partitions,
                    "fetch_mib": fetch,
                    "partition_mib": of_partition,
                    "formula_mib": min(brokers * fetch, partitions * of_partition),
                    "held_mib": round(held / MIB, 1),
                }


def _fill(servers: str, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for partition in range(partitions):
        for _ in range(_BACKLOG_MIB * MIB // _RECORD):
            producer.produce(topic, b"x" * _RECORD, partition=partition)
            producer.poll(0)
        producer.flush()


def _held(jars: Path, servers: str, partitions: int, fetch: int, of_partition: int) -> int:
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-Dorg.apache.logging.log4j.level=OFF"]
    command += ["-cp", f"{jars}/*", str(_SOURCE), servers, f"backlog-{partitions}", str(partitions)]
    command += [str(fetch * MIB), str(of_partition * MIB), str(_POLLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return int(json.loads(line)["held_bytes"])


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the result in Markdown."""
    names = ("brokers", "partitions", "fetch_mib", "partition_mib", "formula_mib", "held_mib")
    lines = [
        "| brokers | partitions | `fetch.max.bytes`, MiB | `max.partition.fetch.bytes`, MiB | KIP-81, MiB "
        "| held, MiB |",
        "|--:|--:|--:|--:|--:|--:|",
        *(f"| {' | '.join(str(one[name]) for name in names)} |" for one in found),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
