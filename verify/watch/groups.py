"""Samples the state of consumer groups, and derives changes of ownership where no callback shows them.

Each group has a thread of its own, so that a slow answer about one delays no other. ``at_us`` is the moment
of the answer. A sample that failed leaves no row: the gap is what the audit sees, and the longest one is
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from kedge.evidence.border.cluster import member as named
from kedge.evidence.writing import EvidenceWriter
from verify.process import now_us
from verify.watch.ownership import GroupSample, Owners, Ownership, OwnershipChange
from verify.watch.timer import ANSWER_S, SampleTimer, Watcher

#: Kafka's own names. librdkafka has none for the Assigning and Reconciling of KIP-848: they come as UNKNOWN.
_STATES: Final = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}


def state_name(state: ConsumerGroupState) -> str:
    """Return Kafka's name of a state."""
    return _STATES.get(state, "Unknown")


def to_sample(description: ConsumerGroupDescription) -> GroupSample:
    """Reduce librdkafka's description of a group to what the watcher needs."""
    members = {
        named(member.member_id, member.host): frozenset(
            (tp.topic, tp.partition) for tp in member.assignment.topic_partitions
        )
        for member in description.members
    }
    state = state_name(description.state)
    new_protocol = description.type == ConsumerGroupType.CONSUMER
    return GroupSample(state, description.partition_assignor, new_protocol, members)


def describe(admin: AdminClient, group: str, timeout_s: float = ANSWER_S) -> GroupSample:
    """Return a group as it is now; raises KafkaException when the broker does not say."""
    return to_sample(admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result())


def state_columns(group: str, sample: GroupSample, at_us: int) -> dict[str, Any]:
    """Return a sample of a group as a row of ``group_states``."""
    return {
        "group": group,
        "at_us": [at_us],
        "state": sample.state,
        "members": len(sample.members),
        "assigned": sum(len(owned) for owned in sample.members.values()),
    }


def ownership_columns(group: str, found: Sequence[OwnershipChange], at_us: int) -> dict[str, Any]:
    """Return changes of ownership, at least one, as rows of ``assignments``."""
    consumer, topic, partition, event = zip(*found, strict=True)
    return {
        "group": group,
        "consumer": list(consumer),
        "topic": list(topic),
        "partition": list(partition),
        "event": list(event),
        "at_us": at_us,
    }


class GroupWatcher(Watcher):
    """Samples one group every ``interval_s`` into ``group_states`` until stopped.

    With ``assignments`` given, changes of ownership go there too, with the member id as the consumer;
    ``owners`` is who owned what before. ``tell`` gets every sample with its time (microseconds).
    """

    def __init__(
        self,
        admin: AdminClient,
        group: str,
        interval_s: float,
        states: EvidenceWriter,
        assignments: EvidenceWriter | None,
        tell: Callable[[GroupSample, int], None],
        owners: Owners,
    ) -> None:
        self._admin = admin
        self._group = group
        self._states = states
        self._assignments = assignments
        self._tell = tell
        self._ownership = Ownership(owners)
        self._timer = SampleTimer(f"watch-{group}", interval_s, self._sample)

    def stop(self) -> None:
        """End sampling and put what was sampled on disk; raises what ended the thread before its time."""
        self._timer.stop(ANSWER_S + 1)
        self._states.close()
        if self._assignments:
            self._assignments.close()
        if self.failure:
            raise self.failure

    def _sample(self) -> None:
        try:
            sample = describe(self._admin, self._group)
        except KafkaException as error:
            self._timer.complain(f"group {self._group}: no sample: {error.args[0].str()}")
            return
        at_us = now_us()
        self._tell(sample, at_us)
        self._states.append(state_columns(self._group, sample, at_us))
        if self._assignments:
            self._note_ownership(sample, at_us)

    def _note_ownership(self, sample: GroupSample, at_us: int) -> None:
        found = self._ownership.seen(sample)
        if self._assignments is None:
            return
        if found:
            self._assignments.append(ownership_columns(self._group, found, at_us))
        else:
            self._assignments.tick()
