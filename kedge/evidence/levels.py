"""Service levels (slo.yml): every key is optional; a key that no check knows is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat, ValidationError

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.nearest import nearest


class _Levels(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DeliveryLevels(_Levels):
    """How many of each anomaly are allowed; None: reported, not judged."""

    lost: NonNegativeInt | None = 0
    """Records that were acknowledged and are not in the topic."""
    duplicated: NonNegativeInt | None = 0
    """Records that the topic has more than once."""
    reordered: NonNegativeInt | None = 0
    """Records that the partition has behind one that their producer sent later."""
    corrupted: NonNegativeInt | None = 0
    """Records whose value is not the one that was sent."""
    wrong_key: NonNegativeInt | None = 0
    """Records with another key than they were sent with."""
    misplaced: NonNegativeInt | None = 0
    """Records at another partition or offset than the acknowledged one."""
    unexpected: NonNegativeInt | None = 0
    """Records in the topic that no producer of the run sent."""
    undelivered: NonNegativeInt | None = 0
    """Records of the topic that the consumer group did not read."""
    mismatched: NonNegativeInt | None = 0
    """Records that a consumer read at an offset at which the topic has another record."""
    phantom: NonNegativeInt | None = 0
    """Records that a consumer read at an offset at which the topic has none."""
    redelivered: NonNegativeInt | None = None
    """Records that the group read more than once."""
    skipped: NonNegativeInt | None = None
    """Number of times that a consumer skipped records which its group never read."""
    rewound: NonNegativeInt | None = None
    """Number of times that a consumer's position went back."""


class ThroughputLevel(_Levels):
    """Acknowledged records per second over the steady window."""

    records_per_s: PositiveFloat | None = None
    """Least rate of acknowledged records, from the end of the warm-up to the end of sending."""


class ThroughputLevels(_Levels):
    """By interface."""

    kafka: ThroughputLevel = ThroughputLevel()
    """For the load by the Kafka protocol."""
    rest: ThroughputLevel = ThroughputLevel()
    """For the load through the REST proxies."""


class LatencyLevel(_Levels):
    """From the intended send time; p999 is the 99.9th percentile."""

    ack_p50_ms: PositiveFloat | None = None
    """To the acknowledgement, 50th percentile."""
    ack_p95_ms: PositiveFloat | None = None
    """To the acknowledgement, 95th percentile."""
    ack_p99_ms: PositiveFloat | None = None
    """To the acknowledgement, 99th percentile."""
    ack_p999_ms: PositiveFloat | None = None
    """To the acknowledgement, 99.9th percentile."""
    ack_max_ms: PositiveFloat | None = None
    """To the acknowledgement, maximum."""
    append_p50_ms: PositiveFloat | None = None
    """To the append, 50th percentile."""
    append_p95_ms: PositiveFloat | None = None
    """To the append, 95th percentile."""
    append_p99_ms: PositiveFloat | None = None
    """To the append, 99th percentile."""
    append_p999_ms: PositiveFloat | None = None
    """To the append, 99.9th percentile."""
    append_max_ms: PositiveFloat | None = None
    """To the append, maximum."""
    delivery_p50_ms: PositiveFloat | None = None
    """To the delivery, 50th percentile."""
    delivery_p95_ms: PositiveFloat | None = None
    """To the delivery, 95th percentile."""
    delivery_p99_ms: PositiveFloat | None = None
    """To the delivery, 99th percentile."""
    delivery_p999_ms: PositiveFloat | None = None
    """To the delivery, 99.9th percentile."""
    delivery_max_ms: PositiveFloat | None = None
    """To the delivery, maximum."""


class LatencyLevels(_Levels):
    """By interface."""

    kafka: LatencyLevel = LatencyLevel()
    """For the load by the Kafka protocol."""
    rest: LatencyLevel = LatencyLevel()
    """For the load through the REST proxies."""


class RebalanceLevels(_Levels):
    """Each for the worst restart."""

    produce_gap_s: NonNegativeFloat | None = None
    """Longest time without an acknowledgement."""
    consume_stall_s: NonNegativeFloat | None = None
    """Longest time without a delivery."""
    not_stable_s: NonNegativeFloat | None = None
    """Longest time for which a group is not stable."""
    ownerless_s: NonNegativeFloat | None = None
    """Longest time for which a partition has no owner."""
    lag_recovery_s: NonNegativeFloat | None = None
    """Longest time until the lag is what it was before."""
    min_restarts: NonNegativeInt | None = None
    """Least number of restarts that have to end under the load."""


class ZombieLevels(_Levels):
    """None: reported, not judged."""

    held_s: NonNegativeFloat | None = None
    """Longest time for which a member may own partitions that it does not read."""


class SpreadLevels(_Levels):
    """None: reported, not judged."""

    percent: NonNegativeFloat | None = None
    """Largest change of an instance's consumers and partitions over a run's restarts, in percent."""


class MirrorLevels(_Levels):
    """How many of each anomaly are allowed over all mirrors, how far each may be behind; None: not judged.

    A mirror delivers at least once: what it sent since its last commit comes again after a process was
    killed, so ``duplicated`` has no level by default. A mirror that promises exactly once (``exactly_once``
    in run.json) allows none, whatever the level.
    """

    missing: NonNegativeInt | None = 0
    """Records of the source that are not in the target."""
    duplicated: NonNegativeInt | None = None
    """Records that the target has more than once; 0 for a flow with exactly_once."""
    altered_key: NonNegativeInt | None = 0
    """Records with another key than at the source."""
    altered_value: NonNegativeInt | None = 0
    """Records with another value than at the source."""
    altered_headers: NonNegativeInt | None = 0
    """Records with other headers than at the source."""
    altered_timestamp: NonNegativeInt | None = 0
    """Records with another timestamp than at the source."""
    unexpected: NonNegativeInt | None = 0
    """Records of the target that are not in the source."""
    reordered: NonNegativeInt | None = 0
    """Records that the target has in another order than the source."""
    lag_records: NonNegativeInt | None = None
    """Largest lag of the mirror."""
    delay_p50_ms: PositiveFloat | None = None
    """Time from a record's timestamp to its copy, 50th percentile."""
    delay_p99_ms: PositiveFloat | None = None
    """Time from a record's timestamp to its copy, 99th percentile."""
    delay_max_ms: PositiveFloat | None = None
    """Time from a record's timestamp to its copy, maximum."""


class SettingsLevels(_Levels):
    """None: the check is left out."""

    different: NonNegativeInt | None = 0
    """Settings of hosts that differ from the plan."""


class MemoryLevels(_Levels):
    """Percent of the plan's figure that a Streams instance may reach; None: reported, not judged."""

    rss_percent: PositiveFloat | None = 100
    """Resident memory of the process, as a share of its planned limit."""
    rocksdb_percent: PositiveFloat | None = 100
    """RocksDB's block cache and memtables, as a share of their planned bound."""
    beside_percent: PositiveFloat | None = None
    """Memory outside heap and RocksDB's bound, as a share of its planned size."""


class OutputsLevels(_Levels):
    """How many of each anomaly an application's outputs may have; None: reported, not judged.

    At least once lets an output come again, so ``duplicated`` has no level by default; an application that
    promises exactly once is allowed none.
    """

    missing: NonNegativeInt | None = 0
    """Outputs that the input requires and that are missing."""
    duplicated: NonNegativeInt | None = None
    """Outputs that are there more than once; 0 for an application with exactly_once."""
    unexpected: NonNegativeInt | None = 0
    """Outputs that no input requires."""
    p99_ms: PositiveFloat | None = None
    """Time from an input to its output, 99th percentile."""


class PartitionsLevels(_Levels):
    """None: reported, not judged."""

    max_skew: PositiveFloat | None = None
    """Records of the busiest partition, divided by its topic's mean; 1 is even."""


class TrafficLevels(_Levels):
    """Of others' traffic; those of a restart each for the worst one. None: reported, not judged."""

    produce_gap_s: NonNegativeFloat | None = None
    """Longest time without a record in a partition that usually has some."""
    delivery_gap_s: NonNegativeFloat | None = None
    """Longest time for which a group commits nothing while records wait for it."""
    rebalancing_s: NonNegativeFloat | None = None
    """Longest time for which a group is not stable."""
    unassigned_s: NonNegativeFloat | None = None
    """Longest time for which no member of a group has a partition that the group reads."""
    lag_recovery_s: NonNegativeFloat | None = None
    """Longest time until the lag of a group is what it was before."""
    throughput_percent: NonNegativeFloat | None = None
    """Least rate of a topic after the changes, as a share of its rate before them."""
    balancer_errors: NonNegativeInt | None = 0
    """Answers of 5xx that clients got of the balancers, beyond the usual rate."""
    not_back: NonNegativeInt | None = 0
    """Groups that at the end were not stable, lacked an owner of a partition, or were further behind."""


class Levels(_Levels):
    """The service levels of a run, one part a check."""

    delivery: DeliveryLevels = DeliveryLevels()
    """Records that may be lost, duplicated or damaged between producer, topic and consumer group."""
    throughput: ThroughputLevels = ThroughputLevels()
    """Rates of acknowledged records."""
    latency: LatencyLevels = LatencyLevels()
    """Times from when a record was to be sent to its acknowledgement, append and delivery."""
    rebalance: RebalanceLevels = RebalanceLevels()
    """How long a restart may interrupt producers, consumers and groups."""
    zombies: ZombieLevels = ZombieLevels()
    """Members that hold partitions and do not read them."""
    spread: SpreadLevels = SpreadLevels()
    """Whether instances have their consumers again after restarts; checked if set, even to null."""
    mirror: MirrorLevels = MirrorLevels()
    """Records that a mirror may lose, repeat, change or delay."""
    settings: SettingsLevels = SettingsLevels()
    """Settings on hosts that may differ from the plan."""
    partitions: PartitionsLevels = PartitionsLevels()
    """How evenly a topic's partitions have to be used."""
    memory: MemoryLevels = MemoryLevels()
    """Share of its planned memory that an application may use."""
    outputs: OutputsLevels = OutputsLevels()
    """Outputs of an application that may be missing or repeated."""
    traffic: TrafficLevels = TrafficLevels()
    """What a change may cost others' topics and groups; checked where they were watched."""


class _OnceLoader(yaml.SafeLoader):
    """Refuses a key that is there twice: which of the two levels counts would be nobody's choice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; raises ConstructorError."""
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is there twice; keep one of them", key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


def read_levels(path: Path) -> Levels:
    """Read slo.yml.

    Raises:
        EvidenceError: naming the file and the key that is unknown (with the nearest known one) or wrong.
    """
    try:
        return parse_levels(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path}: is not YAML: {one_line(error)}") from None


def parse_levels(text: str, path: str) -> Levels:
    """Return the levels of slo.yml's text, ``path`` names it; raises EvidenceError as :func:`read_levels`."""
    try:
        document = yaml.load(text, _OnceLoader)  # noqa: S506 - a safe one
    except yaml.constructor.ConstructorError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise EvidenceError(f"{path}: line {line}: {one_line(error.problem)}") from None
    except yaml.YAMLError as error:
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
