"""Cases as the evidence of one run, through the same files and the same decoding as a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from evidence.record import decode as identity
from evidence.record import run_tag
from evidence.writing import rows_to_columns, write_table
from spark_checks.faults.made import (
    KEYS,
    MEMBERS,
    PARTITIONS,
    RUN_ID,
    SAMPLING_US,
    SECOND_US,
    SECONDS,
    STARTED_US,
    WARM_UP_S,
    Case,
)
from spark_checks.landing import decode

#: What Spark's Kafka source gives.
RAW: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)
_RAW_ARROW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
_END_US: Final = STARTED_US + SECONDS * SECOND_US
#: Late, so that most of the run is near no restart.
_RESTART_US: Final = STARTED_US + 10 * SECOND_US


def write(spark: SparkSession, folder: Path, cases: Sequence[Case]) -> None:
    """Write the evidence folder of settled cases; the topics' raw records lie beside it."""
    for table, rows in {
        "ledger": [row for case in cases for row in _ledger(case)],
        "deliveries": [row for case in cases for row in _deliveries(case)],
        "group_states": [row for case in cases for row in _states(case)],
        "assignments": [row for case in cases for row in _assignments(case)],
        "homes": [row for case in cases for row in _homes(case)],
        "actions": list(_actions()),
    }.items():
        write_table(folder, table, "made", rows_to_columns(table, rows))
    raw = pa.Table.from_pylist([row for case in cases for row in _raw(case)], schema=_RAW_ARROW)
    pq.write_table(raw, folder / "raw.parquet")
    topics = spark.read.schema(RAW).parquet(str(folder / "raw.parquet"))
    decode(topics, "leaf", RUN_ID, KEYS).write.parquet(f"{folder}/records")
    (folder / "run.json").write_text(json.dumps(_run(cases)), encoding="utf-8")


def _run(cases: Sequence[Case]) -> dict[str, Any]:
    def by_partition(offsets: Sequence[int]) -> dict[str, int]:
        return {str(partition): offset for partition, offset in enumerate(offsets)}

    return {
        "run_id": RUN_ID,
        "started_us": STARTED_US,
        "ended_us": _END_US + SECOND_US,
        "warm_up_us": WARM_UP_S * SECOND_US,
        "measured_until_us": _END_US,
        "clusters": {"leaf": {"bootstrap_servers": "127.0.0.1:1"}},
        "topics": [
            {
                "cluster": "leaf",
                "topic": case.topic,
                "partitions": PARTITIONS,
                "start_offsets": by_partition([100] * PARTITIONS),
                "end_offsets": by_partition([100 + len(log) for log in case.logs]),
                "log_start_offsets": by_partition([0] * PARTITIONS),
            }
            for case in cases
        ],
        "producers": {
            str(case.number): {"via": case.via, "topic": case.topic, "records": case.records}
            for case in cases
        },
        "groups": {case.group: {"via": case.via, "topics": [case.topic]} for case in cases},
        "sampling_us": {"group_states": SAMPLING_US, "assignments_rest": SAMPLING_US},
        "keys_per_producer": KEYS,
    }


def _ledger(case: Case) -> Iterator[dict[str, Any]]:
    for seq, row in case.rows.items():
        if seq in case.lacking:
            continue
        acked = row.slot is not None
        yield {
            "producer": case.number,
            "seq": seq,
            "topic": case.topic,
            "partition": row.slot.partition if row.slot else None,
            "offset": row.slot.offset if row.slot else None,
            "crc": row.crc,
            "bytes": row.bytes,
            "intended_us": row.intended_us,
            "sent_us": row.sent_us,
            "acked_us": row.acked_us if acked else None,
            "outcome": row.outcome,
            "error": None if acked else "no answer",
            "via": case.via,
            "instance": "10.0.0.1:8082" if case.via == "rest" else None,
        }


def _raw(case: Case) -> Iterator[dict[str, Any]]:
    for log in case.logs:
        for slot in log:
            if not slot.gone:
                yield {
                    "key": slot.record.key,
                    "value": slot.record.value,
                    "topic": case.topic,
                    "partition": slot.partition,
                    "offset": slot.offset,
                    "timestamp": slot.record.appended_us + case.shifts.get(slot.partition, 0),
                    "timestampType": 1,
                    "headers": None,
                }


def _deliveries(case: Case) -> Iterator[dict[str, Any]]:
    tag = run_tag(RUN_ID)
    for log in case.logs:
        for slot in log:
            if slot.delivered:
                known = identity(tag, slot.record.value)
                yield {
                    "group": case.group,
                    "consumer": f"c{slot.partition % MEMBERS}",
                    "topic": case.topic,
                    "partition": slot.partition,
                    "offset": slot.offset,
                    "producer": known.producer if known else None,
                    "seq": known.seq if known else None,
                    "intended_us": known.intended_us if known and known.intended_us < 1 << 63 else None,
                    "received_us": slot.passed_us,
                    "via": case.via,
                }


def _states(case: Case) -> Iterator[dict[str, Any]]:
    for at in range(STARTED_US, _END_US + 1, SAMPLING_US):
        if not any(begin < at < until for begin, until in case.slept):
            about = {"group": case.group, "at_us": at, "members": case.members, "assigned": PARTITIONS}
            stable = not any(begin <= at < until for begin, until in case.unstable)
            yield about | {"state": "Stable" if stable else "PreparingRebalance"}


def _assignments(case: Case) -> Iterator[dict[str, Any]]:
    for partition in range(PARTITIONS):
        yield {
            "group": case.group,
            "consumer": f"c{partition % MEMBERS}",
            "topic": case.topic,
            "partition": partition,
            "event": "assigned",
            "at_us": STARTED_US - SECOND_US,
        }


def _homes(case: Case) -> Iterator[dict[str, Any]]:
    for at in range(STARTED_US + SECOND_US // 2, _END_US, SECOND_US):
        for member in range(MEMBERS):
            moved = case.piled_up and at > _RESTART_US
            yield {
                "group": case.group,
                "consumer": f"c{member}",
                "instance": case.homes[0 if moved else member],
                "at_us": at,
                "partitions": PARTITIONS // MEMBERS,
            }


def _actions() -> Iterator[dict[str, Any]]:
    for action, begin, end in (("stop", 0, 1), ("start", 1, 2), ("ready", 2, 4)):
        yield {
            "host": "h",
            "service": "s",
            "instance": "i",
            "action": action,
            "started_us": _RESTART_US + begin * SECOND_US // 4,
            "ended_us": _RESTART_US + end * SECOND_US // 4,
            "ok": True,
        }
