"""Good evidence, made up: for tests that break it in one place and for trials at scale.

``python -m tests.faults.synthetic --records 3000000 OUT`` writes evidence whose audit passes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kedge.evidence.listing import OF_TOPICS, files_of, note, writer_of
from kedge.evidence.tables import arrow_schema

#: 2025-01-01T00:00:00Z, the begin of every made-up run, microseconds.
STARTED_US: Final = 1_735_689_600_000_000
_PART: Final = 1_000_000  # rows a file
_STICKY: Final = 20  # consecutive records that a sticky partitioner gives to one partition
_GROUPS: Final = {"kafka": "kedge-kafka", "rest": "kedge-rest"}
_TOPICS: Final = {"kafka": "kedge.kafka", "rest": "kedge.rest"}
_OUTPUT: Final = "kedge.made"
_OUTPUT_US: Final = 5_000  # after its record
#: How late a copy is.
_COPIED_S: Final = 0.06
#: How long others were watched before the load.
_USUAL_S: Final = 100
#: Where the copies of a mirror lie.
_COPIES: Final = {"cluster": "agg", "topic": "leaf.kedge.kafka"}


def write_table(folder: Path, table: str, columns: Mapping[str, Any], name: str = "made-0") -> None:
    """Write one Parquet file of an evidence table from columns (arrays, or one value for all rows)."""
    schema = arrow_schema(table)
    length = max(len(value) for value in columns.values() if isinstance(value, (list, np.ndarray)))
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if isinstance(value, (list, np.ndarray)):
            arrays.append(pa.array(value, type=field.type, from_pandas=False))
        else:
            arrays.append(pa.repeat(pa.scalar(value, type=field.type), length))
    (folder / table).mkdir(parents=True, exist_ok=True)
    write_file(folder / table / f"{name}.parquet", pa.table(arrays, schema=schema))


def write_file(path: Path, rows: pa.Table) -> None:
    """Write a file of evidence and list it, as its writer does: what it then lacks was never written."""
    pq.write_table(rows, path)
    list_rows(path)


def list_rows(path: Path) -> None:
    """List a file with the rows that it has: beside it, and in run.json where that is there."""
    rows = pq.read_metadata(path).num_rows
    note(path.parent, "ingest" if path.parent.name in OF_TOPICS else writer_of(path.name), {path.name: rows})
    run = path.parents[1] / "run.json"
    if run.exists() and path.parent.name not in OF_TOPICS:
        document = json.loads(run.read_text(encoding="utf-8"))
        if document.get("files") is not None:
            document["files"].setdefault(path.parent.name, {})[path.name] = rows
            run.write_text(json.dumps(document, indent=2), encoding="utf-8")


def write_evidence(
    folder: Path,
    records: int,
    *,
    partitions: int = 4,
    restarts: int = 2,
    consumed: bool = True,
    per_record: int = 0,
    mirrored: bool = False,
    watched: bool = False,
) -> None:
    """Write evidence of a run in which nothing went wrong.

    Ten elevenths of the records go by the Kafka protocol, the rest by REST through two instances; instances
    are restarted one after the other, each for two seconds in which the REST group is not stable.

    Args:
        folder: becomes the evidence folder.
        records: rows of the ledger; at 55,000 a second they fill the run, which lasts at least 20 s.
        partitions: of each of the two topics.
        restarts: how many rows of drain, stop, start and ready.
        consumed: whether groups got the records; without them there is a ledger and a topic dump alone.
        per_record: outputs that an application makes of each record of the Kafka protocol; 0: there is none.
        mirrored: whether a mirror copies the records of the Kafka protocol to another cluster.
        watched: whether a topic and a group of others and a balancer were watched meanwhile.
    """
    seconds = max(20.0, records / 55_000)
    rest = records // 11
    kafka = records - rest
    spans = {
        "kafka": _hop(folder, "kafka", 0, kafka, partitions, seconds, consumed, per_record, mirrored),
        "rest": _hop(folder, "rest", 1, rest, partitions, seconds, consumed),
    }
    if consumed:
        _disturbance(folder, restarts, partitions, seconds)
    who = {"host": "h1", "service": "kafka-rest", "instance": "8082", "file": "kafka-rest.properties"}
    write_table(
        folder,
        "settings",
        who | {"key": ["port", "compression"], "planned": ["8082", "lz4"]} | {"running": ["8082", "lz4"]},
    )
    topics = {_TOPICS[via]: ends for via, ends in spans.items()}
    applications = []
    if per_record:
        topics[_OUTPUT] = spans["kafka"] * per_record
        ends = (("input", _TOPICS["kafka"]), ("output", _OUTPUT))
        places = {end: {"cluster": "leaf", "topic": topic} for end, topic in ends}
        applications = [{"name": "copies", "per_record": per_record, **places}]
    held = {("leaf", topic): count for topic, count in topics.items()}
    mirrors = []
    if mirrored:
        held[_COPIES["cluster"], _COPIES["topic"]] = spans["kafka"]
        _ends(folder, spans["kafka"], seconds)
        source = {"cluster": "leaf", "topic": _TOPICS["kafka"]}
        mirrors = [{"flow": "copies", "source": source, "target": _COPIES}]
    watch = _watched(folder, int(seconds)) if watched else None
    run = {
        "run_id": "made-up",
        "started_us": STARTED_US,
        "ended_us": STARTED_US + int((seconds + 1) * 1e6),
        "warm_up_us": 2_000_000,
        "measured_until_us": STARTED_US + int(seconds * 1e6),
        "clusters": {cluster: {"bootstrap_servers": "127.0.0.1:1"} for cluster, _ in held},
        "topics": [
            {
                "cluster": cluster,
                "topic": topic,
                "partitions": partitions,
                "start_offsets": {str(p): 1000 for p in range(partitions)},
                "end_offsets": {str(p): 1000 + int(counts[p]) for p in range(partitions)},
                "log_start_offsets": {str(p): 0 for p in range(partitions)},
            }
            for (cluster, topic), counts in held.items()
        ],
        "mirrors": mirrors,
        "applications": applications,
        "producers": {
            str(number): {
                "via": via,
                "topic": _TOPICS[via],
                "records_per_s": count / seconds,
                "records": count,
            }
            for number, (via, count) in enumerate({"kafka": kafka, "rest": rest}.items())
        },
        "groups": {_GROUPS[via]: {"via": via, "topics": [_TOPICS[via]]} for via in spans if consumed},
        "clock_offsets": {"127.0.0.1": {"offset_us": 0, "error_us": 0}},
        "sampling_us": {"group_states": 100_000, "assignments_rest": 100_000},
        "watch": watch,
        "files": files_of(folder),
    }
    (folder / "run.json").write_text(json.dumps(run, indent=2), encoding="utf-8")


def _hop(
    folder: Path,
    via: str,
    producer: int,
    count: int,
    partitions: int,
    seconds: float,
    consumed: bool,
    per_record: int = 0,
    mirrored: bool = False,
) -> Any:
    """Write ledger, records and deliveries of one generator; return the records in each partition."""
    topic, group = _TOPICS[via], _GROUPS[via]
    for part, first in enumerate(range(0, count, _PART)):
        seq = np.arange(first, min(first + _PART, count), dtype=np.int64)
        intended = STARTED_US + (seq * (seconds * 1e6 / count)).astype(np.int64)
        crc = (seq * 2_654_435_761 + producer) % (1 << 32)
        partition, offset = _place(seq, partitions)
        who = {"producer": producer, "seq": seq, "topic": topic, "partition": partition, "offset": offset}
        sent = intended + 50 if via == "kafka" else STARTED_US + (intended - STARTED_US) // 10_000 * 10_000
        acked = sent + 2_000 + (crc % 1000).astype(np.int64)
        name = f"{via}-{part}"
        write_table(
            folder,
            "ledger",
            who
            | {"crc": crc, "bytes": 100, "intended_us": intended, "sent_us": sent, "acked_us": acked}
            | {"outcome": "acked", "via": via}
            | {
                "instance": np.where(seq // 100 % 2, "10.0.0.2:8082", "10.0.0.1:8082")
                if via == "rest"
                else None
            },
            name,
        )
        # As Spark lands a topic and as a consumer polls it: partition by partition, in offset order.
        order = np.lexsort((offset, partition))
        placed = {key: value[order] if isinstance(value, np.ndarray) else value for key, value in who.items()}
        append = (acked - 500) // 1000 * 1000
        appended = (
            placed
            | {"cluster": "leaf", "timestamp_us": append[order], "crc": crc[order], "crc_ok": True}
            | {"intended_us": intended[order], "key_ok": True}
            | {
                "key_hash": 42,
                "value_hash": crc[order],
                "headers_hash": 42,
                "bytes": 100,
                "timestamp_type": "append",
            }
        )
        write_table(folder, "records", appended, name)
        for number in range(per_record):
            output = {"topic": _OUTPUT, "key_hash": number, "key_ok": False}
            output["offset"] = 1000 + (placed["offset"] - 1000) * per_record + number
            output["timestamp_us"] = append[order] + _OUTPUT_US * (number + 1)
            write_table(folder, "records", appended | output, f"made-{number}-{part}")
        if mirrored:
            # A mirror keeps the timestamps of what it copies.
            write_table(
                folder, "records", appended | _COPIES | {"timestamp_type": "create"}, f"copies-{part}"
            )
        if not consumed:
            continue
        write_table(
            folder,
            "deliveries",
            placed
            | {"group": group, "via": via, "received_us": sent[order] + 8_000}
            | {"intended_us": intended[order]}
            | {"consumer": np.where(partition[order] % 2, f"{via}-1", f"{via}-0")},
            name,
        )
    return np.bincount(_place(np.arange(count), partitions)[0], minlength=partitions)


def _ends(folder: Path, counts: Any, seconds: float) -> None:
    """Write the ends of a mirror's source and target, sampled every second."""
    at = np.arange(int(seconds) + 2)
    places = ({"cluster": "leaf", "topic": _TOPICS["kafka"]}, 0.0), (_COPIES, _COPIED_S)
    for place, late in places:
        share = np.clip((at - late) / seconds, 0, 1)
        ends = 1000 + np.floor(np.outer(counts, share)).astype(np.int64)
        sampled = {
            "partition": np.repeat(np.arange(len(counts), dtype=np.int32), len(at)),
            "at_us": np.tile(STARTED_US + at * 1_000_000, len(counts)),
            "end_offset": ends.ravel(),
        }
        write_table(folder, "end_offsets", {**place, **sampled}, f"ends-{place['cluster']}")


def _watched(folder: Path, seconds: int) -> dict[str, Any]:
    """Write samples of others, a second apart, also before the load; return what run.json says of them."""
    at = np.arange(-_USUAL_S, seconds + 1)
    sampled = {"at_us": STARTED_US + at * 1_000_000}
    place, end = {"topic": "orders", "partition": 0}, (at + _USUAL_S) * 10
    group = {"group": "billing"}
    write_table(folder, "end_offsets", sampled | place | {"cluster": "leaf", "end_offset": end}, "watch-ends")
    offsets = group | place | sampled | {"committed": np.maximum(end - 5, 0), "end_offset": end}
    write_table(folder, "group_offsets", offsets, "watch-offsets")
    states = group | sampled | {"state": "Stable", "members": 1, "assigned": 1}
    write_table(folder, "group_states", states, "watch-states")
    owned = group | place | {"consumer": "one", "event": "assigned", "at_us": [int(sampled["at_us"][0])]}
    write_table(folder, "assignments", owned, "watch-owners")
    counters = {
        "client_errors": 0,
        "server_errors": 0,
        "connection_errors": 0,
        "response_errors": 0,
        "queued": 0,
        "own_errors": 0,
    }
    server = {"host": "lb", "server": "clients", "status": "UP"}
    write_table(folder, "balancer", sampled | server | counters | {"requests": end}, "watch-lb")
    return {
        "interval_us": 1_000_000,
        "started_us": STARTED_US - _USUAL_S * 1_000_000,
        "usual_until_us": STARTED_US,
        "ended_us": STARTED_US + seconds * 1_000_000,
        "topics": [{"cluster": "leaf", "topic": "orders", "partitions": 1}],
        "groups": {"billing": {"cluster": "leaf", "group": "billing", "topics": ["orders"]}},
        "balancers": ["lb"],
    }


def _place(seq: Any, partitions: int) -> tuple[Any, Any]:
    """Return partition and offset as a sticky partitioner and one broker would give them."""
    chunk = seq // _STICKY
    return (chunk % partitions).astype(np.int32), 1000 + chunk // partitions * _STICKY + seq % _STICKY


def _disturbance(folder: Path, restarts: int, partitions: int, seconds: float) -> None:
    """Write actions, group states sampled every 100 ms, and assignments: one rebalance a restart."""
    begins = [STARTED_US + int((4 + (seconds - 6) * n / max(restarts, 1)) * 1e6) for n in range(restarts)]
    steps = (
        ("drain", -500_000, 0),
        ("stop", 0, 300_000),
        ("start", 300_000, 400_000),
        ("ready", 400_000, 2_000_000),
    )
    rows = [
        ("h" + str(1 + n % 2), f"10.0.0.{1 + n % 2}:8082", action, begin + after, begin + until)
        for n, begin in enumerate(begins)
        for action, after, until in steps
    ]
    if rows:
        host, instance, action, started, ended = (list(column) for column in zip(*rows, strict=True))
        write_table(
            folder,
            "actions",
            {"host": host, "service": "kafka-rest", "instance": instance, "action": action}
            | {"started_us": started, "ended_us": ended, "ok": True},
        )
    at = STARTED_US + np.arange(0, int(seconds * 10)) * 100_000
    unstable = np.zeros(len(at), dtype=bool)
    for begin in begins:
        unstable |= (at >= begin) & (at < begin + 1_000_000)
    for number, (via, name) in enumerate(_GROUPS.items()):
        states = np.where(unstable & (via == "rest"), "PreparingRebalance", "Stable")
        write_table(
            folder,
            "group_states",
            {"group": name, "at_us": at, "state": states, "members": 2, "assigned": partitions},
            f"{via}-{number}",
        )
    events = [(STARTED_US, "assigned")]
    for begin in begins:
        events += [(begin, "revoked"), (begin + 900_000, "assigned")]
    # The other group keeps what it got.
    for via, seen in (("rest", events), ("kafka", events[:1])):
        owned = [(p, at_us, event) for p in range(partitions) for at_us, event in seen]
        write_table(
            folder,
            "assignments",
            {
                "group": _GROUPS[via],
                "topic": _TOPICS[via],
                "consumer": [f"{via}-{p % 2}" for p, _, _ in owned],
            }
            | {"partition": [p for p, _, _ in owned], "at_us": [at_us for _, at_us, _ in owned]}
            | {"event": [event for _, _, event in owned]},
            via,
        )


def main() -> None:
    """Write good evidence from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.synthetic", description=__doc__)
    parser.add_argument("out", type=Path, help="the evidence folder to make")
    parser.add_argument("--records", type=int, default=100_000, help="rows of the ledger")
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--restarts", type=int, default=4)
    parser.add_argument("--per-record", type=int, default=0, help="outputs that an application makes of each")
    parser.add_argument("--mirrored", action="store_true", help="have a mirror copy the Kafka records")
    options = parser.parse_args()
    write_evidence(
        options.out,
        options.records,
        partitions=options.partitions,
        restarts=options.restarts,
        per_record=options.per_record,
        mirrored=options.mirrored,
    )


if __name__ == "__main__":
    main()
