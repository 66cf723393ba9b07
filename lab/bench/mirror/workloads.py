"""Records to mirror: metrics of about 100 bytes that repeat as metrics do, and logs of 1 to 100 kB."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from confluent_kafka import Producer

Record = tuple[bytes, bytes]
_HOSTS: Final = 400
_NAMES: Final = ("cpu.user", "cpu.system", "mem.used", "disk.read.bytes", "net.in.bytes", "jvm.gc.pause.ms")
_PHRASES: Final = (
    "request accepted from session",
    "timeout while reading replica",
    "leader changed for partition",
    "retrying after connection reset by peer",
    "could not authenticate user",
    "flushed segment",
    "completed in milliseconds",
)


def metrics(count: int, seed: int = 1) -> Iterator[Record]:
    """Yield metrics: host and name repeat, time moves on, values wander."""
    rng = random.Random(seed)  # noqa: S311 - the same records in every run, no secret
    for n in range(count):
        host, name = rng.randrange(_HOSTS), rng.choice(_NAMES)
        series = f"host{host:03d}.dc1.example.net"
        tags = f"host={series},rack=r{host % 20},env=prod"
        value = f"{name},{tags} value={rng.gauss(50, 9):.3f} {1_700_000_000 + n // 400}"
        yield series.encode(), value.encode()


def logs(count: int, seed: int = 1) -> Iterator[Record]:
    """Yield log records, log-uniform from 1 to 100 kB: words, numbers and ids in lines."""
    rng = random.Random(seed)  # noqa: S311 - as above
    for n in range(count):
        size, text = int(1000 * math.exp(rng.uniform(0, math.log(100)))), []
        left = size
        while left > 0:
            said = " ".join(rng.choices(_PHRASES, k=3))
            line = f"2026-01-01T00:00:{n % 60:02d}Z INFO [{rng.getrandbits(32):08x}] {said}\n"
            text.append(line)
            left -= len(line)
        yield f"app{rng.randrange(40)}".encode(), "".join(text).encode()[:size]


#: The best that a batch of them compresses, rounded up: with gzip 9.3 and 12.4 times.
BEST_RATIO: Final = {"metrics": 0.11, "logs": 0.085}
WORKLOADS: Final[dict[str, Callable[[int], Iterator[Record]]]] = {"metrics": metrics, "logs": logs}


def fill(
    bootstrap_servers: str, topic: str, partitions: int, records: Iterable[Record], times: int = 1
) -> tuple[int, int]:
    """Write records to the partitions in turn; return how many, and the bytes of their keys and values.

    ``times`` over: what comes again comes long after any batch in which it could be found twice.

    Raises:
        RuntimeError: when the broker did not take them all.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "linger.ms": 50, "queue.buffering.max.messages": 200_000}
    )
    failed: list[str] = []
    count = size = 0

    def done(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    whole = list(records)
    for key, value in (record for _ in range(times) for record in whole):
        while True:
            try:
                producer.produce(topic, value, key, count % partitions, on_delivery=done)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        count += 1
        size += len(key) + len(value)
    left = producer.flush(120)
    if left or failed:
        raise RuntimeError(f"{left + len(failed)} of {count} records were not taken: {failed[:1]}")
    return count, size
