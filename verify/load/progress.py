"""What the parent writes while a load runs: `load.state`, `evidence/run.json`, and a line of progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kedge.evidence.load_options import ClusterTopic, LoadSpec
from kedge.evidence.load_state import Phase
from kedge.evidence.release import RUN_SCHEMA
from kedge.evidence.writing import write_json
from verify.collect.clocks import ClockOffset
from verify.load.actors import group_actor, lanes, workers
from verify.load.board import Board, Cell
from verify.load.cluster import Offsets
from verify.load.records import KEYS

STATE_EVERY_S: Final = 1.0
LINE_EVERY_S: Final = 2.0


@dataclass
class TopicFacts:
    """What run.json says of a topic; offsets by partition."""

    partitions: int
    cleanup_policy: str
    retention_ms: int
    start: Offsets
    end: Offsets = field(default_factory=dict)
    log_start: Offsets = field(default_factory=dict)


@dataclass
class RunFacts:
    """What is known of the run so far; times in microseconds since the epoch.

    ``refused`` says of generators whose evidence is missing why nothing of theirs was taken; ``files`` what
    each table holds, once all that write have ended.
    """

    started_us: int = 0
    measured_until_us: int | None = None
    ended_us: int | None = None
    topics: dict[ClusterTopic, TopicFacts] = field(default_factory=dict)
    generators: dict[str, ClockOffset] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, int]] | None = None


def _by_partition(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def run_document(load: LoadSpec, facts: RunFacts, board: Board | None) -> dict[str, Any]:
    """Return run.json: ``ended_us`` is null until the load has ended properly."""
    consumer = load.kafka.consumer if load.kafka else {}
    protocol = str(consumer.get("group.protocol", "classic"))
    assignor = str(consumer.get("partition.assignment.strategy", "")) if protocol == "classic" else ""
    automatic = {
        "kafka": bool(consumer.get("enable.auto.commit")),
        "rest": load.rest is not None and load.rest.auto_commit,
    }
    sampling = {"group_states": load.sampling_ms * 1000, "assignments_rest": load.sampling_ms * 1000}
    if load.mirrors:
        sampling["end_offsets"] = load.sampling_ms * 1000
    if board is not None and load.groups():
        ways = [via for via, _, _ in load.groups().values()]
        sampling["group_states_worst"] = max(
            int(board.cells(group_actor(w))[Cell.WORST_SAMPLE_US]) for w in ways
        )
    return {
        "schema": RUN_SCHEMA,
        "run_id": load.run_id,
        "started_us": facts.started_us,
        "ended_us": facts.ended_us,
        "warm_up_us": int(load.warm_up_s * 1_000_000),
        "measured_until_us": facts.measured_until_us,
        "clusters": {
            name: {
                "bootstrap_servers": str(load.client_config(name)["bootstrap.servers"]),
                **({"client": client} if (client := load.public_client(name)) else {}),
            }
            for name in (load.cluster, *load.clusters)
        },
        "topics": [
            {
                "cluster": place.cluster,
                "topic": place.topic,
                "partitions": topic.partitions,
                "cleanup_policy": topic.cleanup_policy,
                "retention_ms": topic.retention_ms,
                "start_offsets": _by_partition(topic.start),
                "end_offsets": _by_partition(topic.end),
                "log_start_offsets": _by_partition(topic.log_start),
            }
            for place, topic in sorted(
                facts.topics.items(), key=lambda item: (item[0].cluster, item[0].topic)
            )
        ],
        "mirrors": [mirror.model_dump() for mirror in load.mirrors],
        "applications": [app.model_dump() for app in load.applications],
        "producers": {
            str(lane.producer): {"via": lane.via, "topic": lane.topic, "records_per_s": lane.rate}
            | _ledger_rows(board, lane.actor, facts)
            for lane in lanes(load)
        },
        "groups": {
            group: {
                "via": via,
                "topics": [topic],
                "protocol": protocol if via == "kafka" else "of its proxies",
                "assignor": assignor if via == "kafka" else "",
                "commits": "auto" if automatic[via] else "after processing",
            }
            for group, (via, topic, _) in load.groups().items()
        },
        "clock_offsets": {},
        "generators": {host: clock._asdict() for host, clock in facts.generators.items()},
        "refused": facts.refused,
        "sampling_us": sampling,
        "keys_per_producer": KEYS,
        "files": facts.files,
        "cost": costs(load, board) if board is not None else {},
    }


def _ledger_rows(board: Board | None, actor: str, facts: RunFacts) -> dict[str, int]:
    """Return how many rows a generator's ledger must have, once the load has ended properly."""
    if board is None or facts.ended_us is None:
        return {}
    return {"records": sum(int(board.cells(actor)[cell]) for cell in (Cell.ACKED, Cell.FAILED, Cell.UNKNOWN))}


def costs(load: LoadSpec, board: Board) -> dict[str, dict[str, float]]:
    """Return what each kind of process took of the machine, and generators of their records' time.

    ``cpu_s`` and ``records`` that it sent or delivered, and ``cpu_s_per_million``. Of generators also
    ``own_share``: of the time from the intended sends to the answers, that in which records waited for their
    generator alone; and ``own_ms``, the same a record.
    """
    found: dict[str, dict[str, float]] = {}
    for actors in workers(load).values():
        kind = actors[0].rsplit("-", 1)[0]
        cells = [board.cells(actor) for actor in actors]
        records = sum(int(row[Cell.SENT]) + int(row[Cell.DELIVERED]) for row in cells)
        entry = found.setdefault(kind, {"cpu_s": 0.0, "records": 0})
        entry["cpu_s"] += sum(int(row[Cell.CPU_US]) for row in cells) / 1e6
        entry["records"] += records
        for name, cell in (("own", Cell.OWN_US), ("took", Cell.TOOK_US), ("acked", Cell.ACKED)):
            entry[name] = entry.get(name, 0) + sum(int(row[cell]) for row in cells)
    for entry in found.values():
        if entry["records"]:
            entry["cpu_s_per_million"] = round(entry["cpu_s"] / entry["records"] * 1e6, 2)
        own_us, took_us, acked = (entry.pop(name) for name in ("own", "took", "acked"))
        if took_us and acked:  # both are what its host says
            entry["own_share"] = round(own_us / took_us, 3)
            entry["own_ms"] = round(own_us / acked / 1e3, 3)
    return found


def write_run(run_dir: Path, document: dict[str, Any]) -> None:
    """Replace evidence/run.json at once; the collection adds to it when the load has ended."""
    path = run_dir / "evidence" / "run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, document)


def write_state(run_dir: Path, phase: Phase, board: Board | None, message: str = "") -> None:
    """Replace load.state at once."""
    names = ("acked", "failed", "unknown", "delivered", "recreated", "late")
    cells = (Cell.ACKED, Cell.FAILED, Cell.UNKNOWN, Cell.DELIVERED, Cell.RECREATED, Cell.LATE)
    counts = {name: board.total(cell) if board else 0 for name, cell in zip(names, cells, strict=True)}
    write_json(run_dir / "load.state", {"phase": phase, **counts, "message": message})


def progress(load: LoadSpec, board: Board, phase: Phase, elapsed_s: float, before: tuple[float, int]) -> str:
    """Return a line of progress; ``before`` is the time (s) and the acked records of the previous one."""
    acked = board.total(Cell.ACKED)
    rate = 0.0 if before[0] >= elapsed_s else (acked - before[1]) / (elapsed_s - before[0])
    late = [
        f", failed {board.total(Cell.FAILED):,}" if board.total(Cell.FAILED) else "",
        f", unknown {board.total(Cell.UNKNOWN):,}" if board.total(Cell.UNKNOWN) else "",
        f", REST consumers recreated {board.total(Cell.RECREATED)}" if board.total(Cell.RECREATED) else "",
    ]
    target = sum(lane.rate for lane in lanes(load))
    return (
        f"[{elapsed_s:5.0f} s] {phase:8s} acked {acked:,} ({rate:,.0f} of {target:,.0f} records/s), "
        f"delivered {board.total(Cell.DELIVERED):,}{''.join(late)}"
    )
