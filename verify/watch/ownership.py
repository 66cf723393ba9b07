"""Who owns which partition, from descriptions of a group: for groups whose callbacks nobody sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

#: Assignors by which members keep their partitions while the group rebalances.
_COOPERATIVE: Final = frozenset({"cooperative-sticky"})

Partition = tuple[str, int]
Owners = dict[Partition, str]


class GroupSample(NamedTuple):
    """A group at one moment: Kafka's name of its state, its assignor, and its members' partitions.

    ``new_protocol`` tells a KIP-848 group, whose members report what they own in every state. A classic
    group's description has assignments only when it is Stable.
    """

    state: str
    assignor: str
    new_protocol: bool
    members: Mapping[str, frozenset[Partition]]


class OwnershipChange(NamedTuple):
    """One partition assigned to or revoked from a consumer."""

    consumer: str
    topic: str
    partition: int
    event: str


def owners_after(before: Owners, assignor_before: str, sample: GroupSample) -> Owners:
    """Return who owns what at a sample, given who did before it.

    While a classic group rebalances, an eager assignor (any but cooperative-sticky) has taken everything
    away; under a cooperative one those who are still members keep theirs until the group is Stable again.
    """
    if sample.new_protocol or sample.state == "Stable":
        return {partition: member for member, owned in sample.members.items() for partition in owned}
    if sample.state in ("PreparingRebalance", "CompletingRebalance") and assignor_before in _COOPERATIVE:
        return {partition: member for partition, member in before.items() if member in sample.members}
    if sample.state == "Unknown":
        return before
    return {}


class Ownership:
    """Who owns what of a group, from one sample to the next; ``owners`` is who did before the first."""

    def __init__(self, owners: Owners | None = None) -> None:
        self.owners: Owners = owners or {}
        self._assignor = ""

    def seen(self, sample: GroupSample) -> list[OwnershipChange]:
        """Take a sample; return what has changed since the one before."""
        before, self.owners = self.owners, owners_after(self.owners, self._assignor, sample)
        self._assignor = sample.assignor or self._assignor
        return changes(before, self.owners)


def owners_from(changes_so_far: Iterable[OwnershipChange]) -> Owners:
    """Return who owns what after these changes, in the order in which they happened."""
    owners: Owners = {}
    for consumer, topic, partition, event in changes_so_far:
        if event == "assigned":
            owners[topic, partition] = consumer
        elif owners.get((topic, partition)) == consumer:
            del owners[topic, partition]
    return owners


def changes(before: Owners, after: Owners) -> list[OwnershipChange]:
    """Return what was revoked and assigned between two samples, revocations first, ordered by partition."""
    revoked = [OwnershipChange(before[p], *p, "revoked") for p in sorted(before) if after.get(p) != before[p]]
    assigned = [OwnershipChange(after[p], *p, "assigned") for p in sorted(after) if before.get(p) != after[p]]
    return revoked + assigned
