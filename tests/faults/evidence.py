"""Cases as the evidence of one run, through the same files and the same decoding as a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from kedge.evidence.listing import files_of
from kedge.evidence.record import decode as identity
from kedge.evidence.record import run_tag
from kedge.evidence.writing import rows_to_columns, write_table
from spark_checks.topics import TopicRangeShare, decoded
from tests.faults.made import (
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
from tests.faults.synthetic import write_file


class Message(NamedTuple):
    """A record as the topic gives it, with the part of confluent_kafka's interface that the audit uses."""

    place: tuple[str, int, int]
    content: tuple[bytes | None, bytes | None]
    appended_us: int

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def key(self) -> bytes | None:
        return self.content[0]

    def value(self) -> bytes | None:
        return self.content[1]

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_LOG_APPEND_TIME, self.appended_us // 1000


_END_US: Final = STARTED_US + SECONDS * SECOND_US
#: Late, so that most of the run is near no restart.
_RESTART_US: Final = STARTED_US + 10 * SECOND_US


def write(folder: Path, cases: Sequence[Case]) -> None:
    """Write the evidence folder of settled cases."""
    for table, rows in {
        "ledger": [row for case in cases for row in _ledger(case)],
        "deliveries": [row for case in cases for row in _deliveries(case)],
        "group_states": [row for case in cases for row in _states(case)],
        "assignments": [row for case in cases for row in _assignments(case)],
        "homes": [row for case in cases for row in _homes(case)],
        "actions": list(_actions()),
    }.items():
        write_table(folder, table, "made", rows_to_columns(table, rows))
    records = []
    for case in cases:
        share = TopicRangeShare("leaf", case.topic, (), {}, run_tag(RUN_ID), KEYS)
        records.append(decoded([*_messages(case)], share))
    (folder / "records").mkdir()
    write_file(folder / "records" / "made-0.parquet", pa.Table.from_batches(records))
    document = _run(cases) | {"files": files_of(folder)}
    (folder / "run.json").write_text(json.dumps(document), encoding="utf-8")


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


def _messages(case: Case) -> Iterator[Message]:
    for log in case.logs:
        for slot in log:
            if not slot.gone:
                at_us = slot.record.appended_us + case.shifts.get(slot.partition, 0)
                place = (case.topic, slot.partition, slot.offset)
                yield Message(place, (slot.record.key, slot.record.value), at_us)


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
