"""Which measurement a topic is planned with, and whether any number of partitions reaches its target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kedge.plan.settings import Sheet
from kedge.services.topics.curve import is_clients
from kedge.services.topics.variables import DeclaredTopic, PartitionRates

_GUIDE: Final = "Configure Kafka for High Throughput, Number of Partitions"
#: A record half or twice the size of the measured one is another workload.
_ALIKE: Final = 2.0
#: Repetitions that lie further apart than this leave a partition more or less to chance.
_SPREAD: Final = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """What one partition carries, MB/s of 10^6 bytes, and where that is known from."""

    production: float
    consumption: float
    source: str
    measured: PartitionRates | None = None


def rates_of(topic: DeclaredTopic, measured: Sequence[PartitionRates]) -> Rates | None:
    """Return a topic's rates: its own, or the measurement that is most like it; None where there is none.

    Of the measurements on its cluster, those of its codec and acks count (any, where it says none), and of
    these the one whose records are nearest in size; the slowest of several.
    """
    if topic.production_mb_per_s and topic.consumption_mb_per_s:
        return Rates(topic.production_mb_per_s, topic.consumption_mb_per_s, _GUIDE)
    fitting = [
        m
        for m in measured
        if m.cluster == topic.cluster and topic.codec in (None, m.codec) and topic.acks in (None, m.acks)
    ]
    if not fitting:
        return None
    chosen = min(
        fitting, key=lambda m: (_apart(topic, m), min(m.production_mb_per_s, m.consumption_mb_per_s))
    )
    return Rates(
        chosen.production_mb_per_s,
        chosen.consumption_mb_per_s,
        f"{_GUIDE}; measured by {chosen.run}",
        chosen,
    )


def check_rates(sheet: Sheet, topic: DeclaredTopic, rates: Rates) -> None:
    """Say what a measurement says against a topic's target, and how well it fits."""
    measured = rates.measured
    if measured is None or topic.target_mb_per_s is None:
        return
    _check_fit(sheet, topic, measured)
    for name, ceiling, stops_at, limit in (
        ("production", measured.production_ceiling_mb_per_s, measured.production_stops_at,
         measured.production_limited_by),
        ("consumption", measured.consumption_ceiling_mb_per_s, measured.consumption_stops_at,
         measured.consumption_limited_by),
    ):  # fmt: skip
        if ceiling is None or topic.growth * topic.target_mb_per_s <= ceiling:
            continue
        what = (
            f"the curve of {name} measured by {measured.run} stops at {ceiling:g} MB/s with {stops_at} "
            f"partitions, limited by {limit}"
        )
        if is_clients(limit):
            sheet.warning(
                "topics.ceiling",
                f"topic {topic.name} is to reach {topic.target_mb_per_s:g} MB/s x growth {topic.growth:g}; "
                f"{what}: nothing is known of what the cluster sustains beyond that",
                "measure with more --clients, from machines of their own",
            )
        elif topic.target_mb_per_s > ceiling:
            sheet.error(
                "topics.ceiling",
                f"no number of partitions gives topic {topic.name} its {topic.target_mb_per_s:g} MB/s: "
                f"{what}",
                f"lower target_mb_per_s to {math.floor(ceiling)} or less, add brokers, or change what the "
                "records cost (codec, acks, larger batches), and measure again",
            )
        else:
            sheet.warning(
                "topics.ceiling",
                f"topic {topic.name} reaches its {topic.target_mb_per_s:g} MB/s, but not {topic.growth:g} "
                f"times that: {what}",
                "plan for more brokers before it grows",
            )


def _check_fit(sheet: Sheet, topic: DeclaredTopic, measured: PartitionRates) -> None:
    ratio = math.exp(_apart(topic, measured))
    if topic.record_bytes and ratio >= _ALIKE:
        sheet.warning(
            "topics.rates",
            f"topic {topic.name} has records of {topic.record_bytes} bytes, and the nearest measurement on "
            f"cluster {topic.cluster} was made with {measured.record_bytes}",
            f"measure with --record-bytes {topic.record_bytes}",
        )
    spread = max(measured.production_spread, measured.consumption_spread)
    if spread > _SPREAD:
        sheet.note(
            "topics.rates",
            f"the repetitions of {measured.run} lie {spread:.0%} apart, so that the number of partitions of "
            f"topic {topic.name} is known no better than that",
            "measure again on a quieter cluster, or with more --repetitions",
        )


def _apart(topic: DeclaredTopic, measured: PartitionRates) -> float:
    """Return how far the sizes of records are apart, by the logarithm of their ratio."""
    return abs(math.log(measured.record_bytes / topic.record_bytes)) if topic.record_bytes else 0.0
