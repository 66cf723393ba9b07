"""Spreads processes over hosts: evenly, and so that a change of hosts moves few of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

_MASK = (1 << 64) - 1


def quotas(count: int, hosts: Sequence[str], load: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return how many of ``count`` processes each host gets.

    All get the same number; the remainder goes to the hosts that carry least (``load``), the first of them
    where they carry the same: 20 on 3 hosts are 7, 7, 6.
    """
    each, remainder = divmod(count, len(hosts))
    carried = load or {}
    lightest = sorted(range(len(hosts)), key=lambda i: (carried.get(hosts[i], 0), i))
    more = set(lightest[:remainder])
    return {host: each + (i in more) for i, host in enumerate(hosts)}


def place(
    name: str, count: int, hosts: Sequence[str], load: Mapping[str, int] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the processes ``name``-0 ... ``name``-(count - 1) on each host.

    Each process goes to the host with room whose digest together with its own is highest (rendezvous
    hashing with bounded loads), so that a host more or less moves hardly more processes than it must.
    """
    room = quotas(count, hosts, load)
    seeds = {host: _seed(host) for host in hosts}
    placed: dict[str, list[int]] = {host: [] for host in hosts}
    open_hosts = [host for host in hosts if room[host]]
    for number in range(count):
        own = _seed(f"{name}-{number}")
        chosen = max(open_hosts, key=lambda host: _mix(seeds[host] ^ own))
        placed[chosen].append(number)
        room[chosen] -= 1
        if not room[chosen]:
            open_hosts.remove(chosen)
    return {host: tuple(numbers) for host, numbers in placed.items()}


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mix(value: int) -> int:
    value = value * 0x9E3779B97F4A7C15 & _MASK  # the multipliers of splitmix64
    value ^= value >> 29
    return value * 0xBF58476D1CE4E5B9 & _MASK
