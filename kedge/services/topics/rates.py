"""What a measurement of partitions says, and whether any number of partitions reaches a topic's target."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kedge.plan.settings import Sheet
from kedge.services.topics.variables import DeclaredTopic, PartitionRates

#: A point of the curve is more than the one before when it is so by more than repetitions differ.
_GROWTH: Final = 1.10
#: A resource that is used to this share over seconds has no room for more.
CPU_FULL: Final = 0.85
DISK_FULL: Final = 0.85
NETWORK_FULL: Final = 0.80
#: A client's thread that is busy to this share can hand over no more records.
CLIENT_FULL: Final = 0.90
#: acks=1 beating acks=all by this is the time that the copies take.
_COPIES: Final = 1.15


@dataclass(frozen=True, slots=True)
class Use:
    """How busy a machine was, as shares; ``network`` None: its speed is not known."""

    host: str
    role: str
    machine: str
    cpu: float
    disk: float
    network: float | None


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median of repetitions, and their range as a share of it (0.1: they lie 10 % apart)."""
    middle = statistics.median(values)
    return middle, (max(values) - min(values)) / middle if middle else 0.0


def stops_at(curve: Mapping[int, float], spread: float = 0.0) -> int | None:
    """Return the number of partitions beyond which the curve (partitions to MB/s) does not grow.

    None when its last point is still more than any before: then nothing is known of where it ends. ``spread``
    is that of the repetitions: what lies within it is no growth.
    """
    counts = sorted(curve)
    if len(counts) < 2:
        return None
    least = max(_GROWTH, 1 + spread)
    top = counts[0]
    for count in counts[1:]:
        if curve[count] >= curve[top] * least:
            top = count
    return None if top == counts[-1] else top


def limited_by(uses: Sequence[Use], client_busy: float, without_copies: float | None = None) -> str:
    """Return what kept the throughput from growing: a resource of a machine, the clients, or replication.

    ``without_copies`` is the throughput with acks=1 as a multiple of that with acks=all, where measured.
    """
    brokers = [use for use in uses if use.role == "broker"]
    clients = [use for use in uses if use.role != "broker"]
    found = next((said for use in brokers if (said := _used_up(use, clients))), None)
    if found is not None:
        return found
    if client_busy >= CLIENT_FULL or any(use.cpu >= CPU_FULL for use in clients):
        cpu = max((use.cpu for use in clients), default=0.0)
        return f"clients (their machine's CPU {cpu:.0%}, the busiest one's own thread {client_busy:.0%})"
    if without_copies is not None and without_copies >= _COPIES:
        return f"replication (acks=1 is {without_copies:.2f} times as fast)"
    if not brokers:
        return "not known (the brokers' hosts were not looked at: give --inventory)"
    return "none of CPU, disk, network and replication: answers waited for one after another"


def _used_up(use: Use, clients: Sequence[Use]) -> str | None:
    """Return what of a broker's machine is used up."""
    if use.cpu >= CPU_FULL:
        shared = any(client.machine == use.machine for client in clients)
        return f"CPU ({'brokers and clients, on one machine' if shared else use.host}: {use.cpu:.0%})"
    if use.disk >= DISK_FULL:
        return f"disk (of {use.host}: busy {use.disk:.0%})"
    if use.network is not None and use.network >= NETWORK_FULL:
        return f"network (of {use.host}: {use.network:.0%})"
    return None


def is_clients(limit: str) -> bool:
    """Tell whether it was the load that ended the curve: then the cluster may have room for more."""
    return limit.startswith(("clients", "not known"))


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
