"""The declared topics and what partitions were measured to sustain, validated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from kedge.plan.findings import Finding
from kedge.plan.hosts import Inventory
from kedge.plan.inventory.clusters import MESSAGE_MAX_BYTES, KafkaCluster, cluster_names, message_max_bytes
from kedge.plan.variable_messages import wrong_variable
from kedge.plan.variables import DefaultRule, Positive, Scalar, Strict, read_list

Rate = Annotated[float, Field(gt=0)]
_NAME: Final = r"^[a-zA-Z0-9._-]{1,249}$"
Name = Annotated[str, Field(pattern=_NAME)]


Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]


class PartitionRates(Strict):
    """What one partition of a cluster was measured to sustain, as ``kedge measure`` writes it."""

    cluster: str
    """The cluster that was measured, a name of kafka_clusters."""
    record_bytes: Positive
    """Size of a record."""
    codec: Codec
    """Compression of batches."""
    acks: Acks
    """`acks` of the producers."""
    replication: Positive
    """Replicas of a partition."""
    clients: Positive = 1
    """Number of producers at the same time, and of consumers."""
    production_mb_per_s: Rate
    """Rate at which one partition was written: the median of the repetitions, in 10^6 bytes."""
    production_spread: Annotated[float, Field(ge=0)] = 0.0
    """Range of the repetitions over their median."""
    production_ceiling_mb_per_s: Rate | None = None
    """Highest rate over several partitions, at which more partitions added nothing."""
    production_stops_at: Positive | None = None
    """Number of partitions at that highest rate."""
    production_limited_by: str = "not known"
    """What limited that highest rate."""
    consumption_mb_per_s: Rate
    """Rate at which one partition was read: the median of the repetitions, in 10^6 bytes."""
    consumption_spread: Annotated[float, Field(ge=0)] = 0.0
    """Range of the repetitions over their median."""
    consumption_ceiling_mb_per_s: Rate | None = None
    """Highest rate over several partitions, at which more partitions added nothing."""
    consumption_stops_at: Positive | None = None
    """Number of partitions at that highest rate."""
    consumption_limited_by: str = "not known"
    """What limited that highest rate."""
    repetitions: Positive = 1
    """How often each point was measured."""
    run: str
    """Name of the measurement."""


class DeclaredTopic(Strict):
    """A topic that the deployment declares: with ``partitions``, or with a target rate, or both.

    With both, ``partitions`` counts and is held against the target. Without the two measured rates, those of
    ``kafka_partition_rates`` count: of the entry most like the topic by ``record_bytes``, ``codec`` and
    ``acks``.
    """

    name: Name
    """Name of the topic."""
    cluster: str
    """Its cluster, a name of kafka_clusters."""
    partitions: Annotated[Positive | None, DefaultRule("topics.partitions")] = None
    """Number of partitions."""
    replication: Annotated[Positive | None, DefaultRule("topics.replication")] = None
    """Replicas of each partition."""
    target_mb_per_s: Rate | None = None
    """Rate that the topic has to sustain, in 10^6 bytes a second; its partitions follow from it."""
    production_mb_per_s: Rate | None = None
    """Measured rate at which one partition is written; from kafka_partition_rates if not set."""
    consumption_mb_per_s: Rate | None = None
    """Measured rate at which one partition is read; from kafka_partition_rates if not set."""
    record_bytes: Positive | None = None
    """Size of a record; it selects the entry of kafka_partition_rates."""
    codec: Codec | None = None
    """Compression of batches; it selects the entry of kafka_partition_rates."""
    acks: Acks | None = None
    """`acks` of its producers; it selects the entry of kafka_partition_rates."""
    growth: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Factor by which the target may grow: adding partitions later would move keys."""
    keyed: bool = True
    """Whether records have keys; if so, planning more than `live_partitions` is an error: keys would move."""
    keys_may_move: bool = False
    """Allows a deploy to add partitions although records have keys."""
    live_partitions: Positive | None = None
    """Partitions that the topic has today; a plan with fewer is an error."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Topic configuration, such as retention.ms; it overrides the plan, which checks it."""


def topics(inventory: Inventory) -> tuple[list[DeclaredTopic], list[Finding]]:
    """Read ``kafka_topics``; a topic declared twice on a cluster is a finding."""
    found, wrong = read_list(DeclaredTopic, inventory, "kafka_topics")
    measured = {rates.cluster for rates in partition_rates(inventory)[0]}
    seen: dict[tuple[str, str], str] = {}
    for where, topic in found:
        key = (topic.cluster, topic.name)
        if key in seen:
            wrong.append(
                wrong_variable(
                    f"{where}.name", "all", f"is {topic.name!r}, as {seen[key]} is", "declare a topic once"
                )
            )
        elif (
            topic.target_mb_per_s
            and not topic.partitions
            and not _rates(topic)
            and topic.cluster not in measured
        ):
            wrong.append(
                wrong_variable(
                    f"{where}.production_mb_per_s",
                    "all",
                    f"is missing beside {where}.target_mb_per_s",
                    "measure what one partition takes and gives: kedge measure writes it into a "
                    f"vars file; or give it, also {where}.consumption_mb_per_s, or {where}.partitions",
                )
            )
        seen.setdefault(key, where)
    return [t for _, t in found], wrong


def partition_rates(inventory: Inventory) -> tuple[list[PartitionRates], list[Finding]]:
    """Read ``kafka_partition_rates``."""
    found, wrong = read_list(PartitionRates, inventory, "kafka_partition_rates")
    return [rates for _, rates in found], wrong


def topic_names(inventory: Inventory) -> frozenset[tuple[str, str]]:
    """Return cluster and name of the entries of ``kafka_topics``, also of those that are declared wrongly."""
    declared = inventory.common("kafka_topics")
    entries = declared if isinstance(declared, list) else []
    return frozenset((str(t.get("cluster")), str(t.get("name"))) for t in entries if isinstance(t, Mapping))


def may_declare(inventory: Inventory, cluster: str, topic: str) -> bool:
    """Return whether ``kafka_topics`` has a topic, or an entry that may be meant to be it.

    An entry with a name that no topic has, or of no cluster that there is, has a finding of its own.
    """
    there = cluster_names(inventory)
    return any(
        (name == topic or not re.fullmatch(_NAME, name) or name == "None")
        and (of == cluster or of not in there)
        for of, name in topic_names(inventory)
    )


def largest_message(inventory: Inventory, name: str, cluster: KafkaCluster) -> int:
    """Return the largest message that a topic of a cluster takes: by its brokers, or one by itself."""
    own = [
        int(bytes_)
        for topic in topics(inventory)[0]
        if topic.cluster == name and (bytes_ := str(topic.settings.get("max.message.bytes"))).isdecimal()
    ]
    return max([message_max_bytes(inventory, cluster) or MESSAGE_MAX_BYTES, *own])


def _rates(topic: DeclaredTopic) -> bool:
    return topic.production_mb_per_s is not None and topic.consumption_mb_per_s is not None
