"""Service levels (slo.yml): every key is optional; a key that no check knows is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat, ValidationError

from evidence.errors import EvidenceError, one_line
from evidence.nearest import nearest


class _Levels(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DeliveryLevels(_Levels):
    """How many of each anomaly are allowed; None: reported, not judged."""

    lost: NonNegativeInt | None = 0
    duplicated: NonNegativeInt | None = 0
    reordered: NonNegativeInt | None = 0
    corrupted: NonNegativeInt | None = 0
    wrong_key: NonNegativeInt | None = 0
    misplaced: NonNegativeInt | None = 0
    unexpected: NonNegativeInt | None = 0
    undelivered: NonNegativeInt | None = 0
    mismatched: NonNegativeInt | None = 0
    phantom: NonNegativeInt | None = 0
    redelivered: NonNegativeInt | None = None
    skipped: NonNegativeInt | None = None
    rewound: NonNegativeInt | None = None


class ThroughputLevel(_Levels):
    """Acknowledged records per second over the steady window."""

    records_per_s: PositiveFloat | None = None


class ThroughputLevels(_Levels):
    """By interface."""

    kafka: ThroughputLevel = ThroughputLevel()
    rest: ThroughputLevel = ThroughputLevel()


class LatencyLevel(_Levels):
    """Milliseconds from the intended send time; p999 is the 99.9th percentile."""

    ack_p50_ms: PositiveFloat | None = None
    ack_p95_ms: PositiveFloat | None = None
    ack_p99_ms: PositiveFloat | None = None
    ack_p999_ms: PositiveFloat | None = None
    ack_max_ms: PositiveFloat | None = None
    append_p50_ms: PositiveFloat | None = None
    append_p95_ms: PositiveFloat | None = None
    append_p99_ms: PositiveFloat | None = None
    append_p999_ms: PositiveFloat | None = None
    append_max_ms: PositiveFloat | None = None
    delivery_p50_ms: PositiveFloat | None = None
    delivery_p95_ms: PositiveFloat | None = None
    delivery_p99_ms: PositiveFloat | None = None
    delivery_p999_ms: PositiveFloat | None = None
    delivery_max_ms: PositiveFloat | None = None


class LatencyLevels(_Levels):
    """By interface."""

    kafka: LatencyLevel = LatencyLevel()
    rest: LatencyLevel = LatencyLevel()


class RebalanceLevels(_Levels):
    """Seconds, each for the worst restart; ``min_restarts`` is how many the run must hold."""

    produce_gap_s: NonNegativeFloat | None = None
    consume_stall_s: NonNegativeFloat | None = None
    not_stable_s: NonNegativeFloat | None = None
    ownerless_s: NonNegativeFloat | None = None
    lag_recovery_s: NonNegativeFloat | None = None
    min_restarts: NonNegativeInt | None = None


class ZombieLevels(_Levels):
    """Seconds for which a member may hold partitions that it does not read; None: reported, not judged."""

    held_s: NonNegativeFloat | None = None


class MirrorLevels(_Levels):
    """How many of each anomaly are allowed over all mirrors, how far each may be behind; None: not judged.

    A mirror delivers at least once: what it sent since its last commit comes again after a process was
    killed, so ``duplicated`` has no level by default. A mirror that promises exactly once (``exactly_once``
    in run.json) allows none, whatever the level.
    """

    missing: NonNegativeInt | None = 0
    duplicated: NonNegativeInt | None = None
    altered_key: NonNegativeInt | None = 0
    altered_value: NonNegativeInt | None = 0
    altered_headers: NonNegativeInt | None = 0
    altered_timestamp: NonNegativeInt | None = 0
    unexpected: NonNegativeInt | None = 0
    reordered: NonNegativeInt | None = 0
    lag_records: NonNegativeInt | None = None
    delay_p50_ms: PositiveFloat | None = None
    delay_p99_ms: PositiveFloat | None = None
    delay_max_ms: PositiveFloat | None = None


class SettingsLevels(_Levels):
    """How many settings may differ from the plan; None: the check is left out."""

    different: NonNegativeInt | None = 0


class MemoryLevels(_Levels):
    """Percent of the plan's figure that an instance of a Streams application may reach; None: reported only.

    ``rss`` is the whole process against its limit, ``rocksdb`` the block cache with the memtables against the
    bound, ``beside`` what is neither heap nor in the bound against the overhead that the plan states.
    """

    rss_percent: PositiveFloat | None = 100
    rocksdb_percent: PositiveFloat | None = 100
    beside_percent: PositiveFloat | None = None


class OutputsLevels(_Levels):
    """How many of each anomaly an application's outputs may have, and the 99th percentile of their latency.

    None: reported, not judged.

    At least once lets an output come again, so ``duplicated`` has no level by default; an application that
    promises exactly once is allowed none.
    """

    missing: NonNegativeInt | None = 0
    duplicated: NonNegativeInt | None = None
    unexpected: NonNegativeInt | None = 0
    p99_ms: PositiveFloat | None = None


class PartitionsLevels(_Levels):
    """``max_skew``: the busiest partition's records over the mean of its topic, 1 is even."""

    max_skew: PositiveFloat | None = None


class Levels(_Levels):
    """The service levels of a run, one part a check."""

    delivery: DeliveryLevels = DeliveryLevels()
    throughput: ThroughputLevels = ThroughputLevels()
    latency: LatencyLevels = LatencyLevels()
    rebalance: RebalanceLevels = RebalanceLevels()
    zombies: ZombieLevels = ZombieLevels()
    mirror: MirrorLevels = MirrorLevels()
    settings: SettingsLevels = SettingsLevels()
    partitions: PartitionsLevels = PartitionsLevels()
    memory: MemoryLevels = MemoryLevels()
    outputs: OutputsLevels = OutputsLevels()


def read_levels(path: Path) -> Levels:
    """Read slo.yml.

    Raises:
        EvidenceError: naming the file and the key that is unknown (with the nearest known one) or wrong.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{path}: is not YAML: {one_line(error)}") from None
    try:
        return Levels.model_validate({} if document is None else document)
    except ValidationError as error:
        raise EvidenceError(f"{path}: {_explain(error.errors()[0])}") from None


def _explain(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "the document"
    if error["type"] != "extra_forbidden":
        return f"{key}: {one_line(error['msg'])}"
    model: type[BaseModel] = Levels
    for part in error["loc"][:-1]:
        inner = model.model_fields[str(part)].annotation
        assert isinstance(inner, type)
        model = inner
    known = list(model.model_fields)
    near = nearest(str(error["loc"][-1]), known)
    hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}"
    kind = "check" if len(error["loc"]) == 1 else "service level"
    return f"{key}: no such {kind}; {hint}"


def given(levels: BaseModel) -> dict[str, Any]:
    """Return the levels that judge, without the Nones, for the report."""
    dumped: dict[str, Any] = levels.model_dump(exclude_none=True)
    return {key: value for key, value in dumped.items() if value != {}}
