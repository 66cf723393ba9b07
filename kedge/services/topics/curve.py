"""Rules for what a measurement of partitions says: spread, where a curve stops growing, what limits it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
