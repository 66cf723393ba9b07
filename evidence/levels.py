"""Service levels (slo.yml): every key is optional; a key that no check knows is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat, ValidationError

from evidence.errors import EvidenceError, one_line
from evidence.nearest import nearest


class _Levels(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DeliveryLevels(_Levels):
    """How many of each anomaly are allowed; None: reported, not judged."""

    lost: NonNegativeInt | None = 0
    """Records that were acknowledged and are not in the topic."""
    duplicated: NonNegativeInt | None = 0
    """Records that the topic has again."""
    reordered: NonNegativeInt | None = 0
    """Records behind one that their producer sent later to the same partition."""
    corrupted: NonNegativeInt | None = 0
    """Records whose value is not what was sent."""
    wrong_key: NonNegativeInt | None = 0
    """Records under another key than they were sent with."""
    misplaced: NonNegativeInt | None = 0
    """Records at another partition or offset than was acknowledged."""
    unexpected: NonNegativeInt | None = 0
    """Records of the topic that nobody is known to have sent."""
    undelivered: NonNegativeInt | None = 0
    """Records of the topic that the consumer group did not read."""
    mismatched: NonNegativeInt | None = 0
    """Records that were read with another identity than the topic has at their offset."""
    phantom: NonNegativeInt | None = 0
    """Records that were read from where the topic has none."""
    redelivered: NonNegativeInt | None = None
    """Records that the group read again."""
    skipped: NonNegativeInt | None = None
    """Times that a consumer passed over records that its group never read."""
    rewound: NonNegativeInt | None = None
    """Times that a position of a consumer went back."""


class ThroughputLevel(_Levels):
    """Acknowledged records per second over the steady window."""

    records_per_s: PositiveFloat | None = None
    """Acknowledged records over the steady window, at least."""


class ThroughputLevels(_Levels):
    """By interface."""

    kafka: ThroughputLevel = ThroughputLevel()
    """Of the load by the Kafka protocol."""
    rest: ThroughputLevel = ThroughputLevel()
    """Of the load through the proxies."""


class LatencyLevel(_Levels):
    """From the intended send time; p999 is the 99.9th percentile."""

    ack_p50_ms: PositiveFloat | None = None
    """Time from the intended send time to the acknowledgement, 50th percentile."""
    ack_p95_ms: PositiveFloat | None = None
    """Time from the intended send time to the acknowledgement, 95th percentile."""
    ack_p99_ms: PositiveFloat | None = None
    """Time from the intended send time to the acknowledgement, 99th percentile."""
    ack_p999_ms: PositiveFloat | None = None
    """Time from the intended send time to the acknowledgement, 99.9th percentile."""
    ack_max_ms: PositiveFloat | None = None
    """Time from the intended send time to the acknowledgement, maximum."""
    append_p50_ms: PositiveFloat | None = None
    """Time from the intended send time to the append, 50th percentile."""
    append_p95_ms: PositiveFloat | None = None
    """Time from the intended send time to the append, 95th percentile."""
    append_p99_ms: PositiveFloat | None = None
    """Time from the intended send time to the append, 99th percentile."""
    append_p999_ms: PositiveFloat | None = None
    """Time from the intended send time to the append, 99.9th percentile."""
    append_max_ms: PositiveFloat | None = None
    """Time from the intended send time to the append, maximum."""
    delivery_p50_ms: PositiveFloat | None = None
    """Time from the intended send time to the delivery, 50th percentile."""
    delivery_p95_ms: PositiveFloat | None = None
    """Time from the intended send time to the delivery, 95th percentile."""
    delivery_p99_ms: PositiveFloat | None = None
    """Time from the intended send time to the delivery, 99th percentile."""
    delivery_p999_ms: PositiveFloat | None = None
    """Time from the intended send time to the delivery, 99.9th percentile."""
    delivery_max_ms: PositiveFloat | None = None
    """Time from the intended send time to the delivery, maximum."""


class LatencyLevels(_Levels):
    """By interface."""

    kafka: LatencyLevel = LatencyLevel()
    """Of the load by the Kafka protocol."""
    rest: LatencyLevel = LatencyLevel()
    """Of the load through the proxies."""


class RebalanceLevels(_Levels):
    """Each for the worst restart."""

    produce_gap_s: NonNegativeFloat | None = None
    """Time without an acknowledgement."""
    consume_stall_s: NonNegativeFloat | None = None
    """Time without a delivery."""
    not_stable_s: NonNegativeFloat | None = None
    """Time with a group that is not stable."""
    ownerless_s: NonNegativeFloat | None = None
    """Time with partitions that nobody owns."""
    lag_recovery_s: NonNegativeFloat | None = None
    """Time until the lag is back to what it was."""
    min_restarts: NonNegativeInt | None = None
    """Restarts that the run has to hold, at least."""


class ZombieLevels(_Levels):
    """None: reported, not judged."""

    held_s: NonNegativeFloat | None = None
    """Time for which a member may hold partitions that it does not read."""


class SpreadLevels(_Levels):
    """None: reported, not judged."""

    percent: NonNegativeFloat | None = None
    """By how much an instance's consumers and partitions may change over a run's restarts."""


class MirrorLevels(_Levels):
    """How many of each anomaly are allowed over all mirrors, how far each may be behind; None: not judged.

    A mirror delivers at least once: what it sent since its last commit comes again after a process was
    killed, so ``duplicated`` has no level by default. A mirror that promises exactly once (``exactly_once``
    in run.json) allows none, whatever the level.
    """

    missing: NonNegativeInt | None = 0
    """Records of the source that the target does not have."""
    duplicated: NonNegativeInt | None = None
    """Records that the target has again; 0 where a flow promises exactly once."""
    altered_key: NonNegativeInt | None = 0
    """Records with another key than at the source."""
    altered_value: NonNegativeInt | None = 0
    """Records with another value than at the source."""
    altered_headers: NonNegativeInt | None = 0
    """Records with other headers than at the source."""
    altered_timestamp: NonNegativeInt | None = 0
    """Records with another timestamp than at the source."""
    unexpected: NonNegativeInt | None = 0
    """Records of the target that the source does not have."""
    reordered: NonNegativeInt | None = 0
    """Records behind one that they precede at the source."""
    lag_records: NonNegativeInt | None = None
    """Records that a mirror may be behind."""
    delay_p50_ms: PositiveFloat | None = None
    """Time from a record's timestamp to its copy, 50th percentile."""
    delay_p99_ms: PositiveFloat | None = None
    """Time from a record's timestamp to its copy, 99th percentile."""
    delay_max_ms: PositiveFloat | None = None
    """Time from a record's timestamp to its copy, maximum."""


class SettingsLevels(_Levels):
    """None: the check is left out."""

    different: NonNegativeInt | None = 0
    """Settings of the hosts that are not the plan's."""


class MemoryLevels(_Levels):
    """Percent of the plan's figure that a Streams instance may reach; None: reported, not judged."""

    rss_percent: PositiveFloat | None = 100
    """The whole process against its limit."""
    rocksdb_percent: PositiveFloat | None = 100
    """The block cache with the memtables against the bound."""
    beside_percent: PositiveFloat | None = None
    """What is neither heap nor in the bound against the overhead that the plan states."""


class OutputsLevels(_Levels):
    """How many of each anomaly an application's outputs may have; None: reported, not judged.

    At least once lets an output come again, so ``duplicated`` has no level by default; an application that
    promises exactly once is allowed none.
    """

    missing: NonNegativeInt | None = 0
    """Outputs that the input asks for and that are not there."""
    duplicated: NonNegativeInt | None = None
    """Outputs that are there again; 0 where the application promises exactly once."""
    unexpected: NonNegativeInt | None = 0
    """Outputs that no input asks for."""
    p99_ms: PositiveFloat | None = None
    """Latency of the outputs, 99th percentile."""


class PartitionsLevels(_Levels):
    """None: reported, not judged."""

    max_skew: PositiveFloat | None = None
    """The busiest partition's records over the mean of its topic; 1 is even."""


class Levels(_Levels):
    """The service levels of a run, one part a check."""

    delivery: DeliveryLevels = DeliveryLevels()
    """Records that may be lost, duplicated and the like between producer, topic and group."""
    throughput: ThroughputLevels = ThroughputLevels()
    """How many records a second have to go through."""
    latency: LatencyLevels = LatencyLevels()
    """How long a record may take."""
    rebalance: RebalanceLevels = RebalanceLevels()
    """How long a restart may disturb producers, consumers and groups."""
    zombies: ZombieLevels = ZombieLevels()
    """Members that hold partitions and do not read them."""
    spread: SpreadLevels = SpreadLevels()
    """Whether consumers return to their instance after restarts; checked where it is given, also as null."""
    mirror: MirrorLevels = MirrorLevels()
    """What a mirror may change, lose or delay."""
    settings: SettingsLevels = SettingsLevels()
    """How far hosts may be from their plan."""
    partitions: PartitionsLevels = PartitionsLevels()
    """How evenly a topic's partitions have to be used."""
    memory: MemoryLevels = MemoryLevels()
    """How much of its planned memory an application may take."""
    outputs: OutputsLevels = OutputsLevels()
    """What an application's outputs may lack or have again."""


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
