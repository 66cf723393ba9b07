"""How long the copies make a record wait, measured: acks=all against acks=1, records one by one."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from verify.measure.config import PREFIX, MeasureError
from verify.measure.topics import check_replication, connect, temporary_topic

#: Records of each kind; the first ones open connections and warm the brokers.
_RECORDS: Final = 200
_WARM_UP: Final = 40
_ANSWER_S: Final = 10.0


def measure_replication(
    bootstrap_servers: str, client: Mapping[str, Any], cluster: str, copies: int
) -> tuple[float, float]:
    """Return the median milliseconds to an answer with acks=1, and with acks=all.

    Writes 2 x 240 small records to a temporary topic of one partition with that many copies, one by one, the
    two kinds in turn, and removes the topic. Raises MeasureError when the cluster refuses it.
    """
    admin = connect(bootstrap_servers, dict(client))
    check_replication(admin, cluster, copies)
    config = {"bootstrap.servers": bootstrap_servers, "log_level": 0, "linger.ms": 0, **client}
    name = f"{PREFIX}replication-{os.getpid()}-{time.time_ns()}"
    with temporary_topic(admin, name, 1, copies):
        producers = [Producer({**config, "acks": acks}) for acks in ("1", "all")]
        took: list[list[float]] = [[], []]
        for number in range(_WARM_UP + _RECORDS):
            for times, producer in zip(took, producers, strict=True):
                ms = _answer_ms(producer, name)
                if number >= _WARM_UP:
                    times.append(ms)
    return statistics.median(took[0]), statistics.median(took[1])


def _answer_ms(producer: Producer, topic: str) -> float:
    failed: list[str] = []
    begin = time.perf_counter()
    producer.produce(
        topic, b"r" * 100, on_delivery=lambda error, _: failed.append(error.str()) if error else None
    )
    try:
        waiting = producer.flush(_ANSWER_S)
    except KafkaException as error:
        raise MeasureError(
            f"a record to measure replication with was refused: {error.args[0].str()}"
        ) from error
    if waiting or failed:
        why = failed[0] if failed else f"no answer within {_ANSWER_S:.0f} s"
        raise MeasureError(f"a record to measure replication with was not taken: {why}")
    return (time.perf_counter() - begin) * 1000
