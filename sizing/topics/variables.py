"""The declared topics and what partitions were measured to carry, validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from sizing.core.findings import Finding
from sizing.core.inventory import Inventory
from sizing.core.messages import wrong_variable
from sizing.core.variables import Positive, Scalar, Strict, read_list

Rate = Annotated[float, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]


Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["0", "1", "all"]


class PartitionRates(Strict):
    """What one partition of a cluster was measured to carry, as ``python -m verify.measure`` writes it.

    Rates in MB/s of 10^6 bytes: the medians of ``repetitions``, whose range over the median is the spread.
    Where the curve over more partitions stopped growing, ``*_ceiling_mb_per_s`` is its highest point and
    ``*_stops_at`` the partitions there; ``*_limited_by`` says what was used up.
    """

    cluster: str
    record_bytes: Positive
    codec: Codec
    acks: Acks
    replication: Positive
    clients: Positive = 1
    production_mb_per_s: Rate
    production_spread: Annotated[float, Field(ge=0)] = 0.0
    production_ceiling_mb_per_s: Rate | None = None
    production_stops_at: Positive | None = None
    production_limited_by: str = "not known"
    consumption_mb_per_s: Rate
    consumption_spread: Annotated[float, Field(ge=0)] = 0.0
    consumption_ceiling_mb_per_s: Rate | None = None
    consumption_stops_at: Positive | None = None
    consumption_limited_by: str = "not known"
    repetitions: Positive = 1
    run: str


class Topic(Strict):
    """A topic that the deployment declares.

    ``partitions``, or a target and what one partition was measured to carry, all in MB/s of 10^6 bytes:
    ``target_mb_per_s``, ``production_mb_per_s``, ``consumption_mb_per_s``; ``growth`` multiplies the target.
    With both, ``partitions`` counts and is held against the target. Without the two measured ones, those of
    ``kafka_partition_rates`` count: of the entry most like the topic by ``record_bytes``, ``codec`` and
    ``acks``. ``live_partitions`` is what the topic has today; ``keys_may_move`` allows to add partitions to
    it although records have keys.
    """

    name: Name
    cluster: str
    partitions: Positive | None = None
    replication: Positive | None = None
    target_mb_per_s: Rate | None = None
    production_mb_per_s: Rate | None = None
    consumption_mb_per_s: Rate | None = None
    record_bytes: Positive | None = None
    codec: Codec | None = None
    acks: Acks | None = None
    growth: Annotated[float, Field(ge=1, le=100)] = 1.0
    keyed: bool = True
    keys_may_move: bool = False
    live_partitions: Positive | None = None
    settings: dict[str, Scalar] = Field(default_factory=dict)


def topics(inventory: Inventory) -> tuple[list[Topic], list[Finding]]:
    """Read ``kafka_topics``; a topic declared twice on a cluster is a finding."""
    found, wrong = read_list(Topic, inventory, "kafka_topics")
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
                    "measure what one partition takes and gives: python -m verify.measure writes it into a "
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


def _rates(topic: Topic) -> bool:
    return topic.production_mb_per_s is not None and topic.consumption_mb_per_s is not None
