"""Samples the end offsets of topics, from which an audit tells how far a mirror is behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kedge.evidence.writing import EvidenceWriter
from verify.process import now_us
from verify.watch.ownership import Partition
from verify.watch.timer import ANSWER_S, SampleTimer, Watcher


def end_columns(
    cluster: str, ends: Mapping[Partition, int], at_us: int, record_bytes: int | None = None
) -> dict[str, Any]:
    """Return the ends of partitions at a moment as rows of ``end_offsets``."""
    return {
        "cluster": cluster,
        "topic": [topic for topic, _ in ends],
        "partition": [partition for _, partition in ends],
        "at_us": at_us,
        "end_offset": list(ends.values()),
        "record_bytes": record_bytes,
    }


class EndWatcher(Watcher):
    """Samples the ends of one cluster's topics every ``interval_s`` into ``end_offsets`` until stopped.

    ``at_us`` is the moment of the answer: what lies before the offset was there by then. A sample that failed
    leaves no row. Each sample is handed to ``report``.
    """

    def __init__(
        self,
        admin: AdminClient,
        cluster: str,
        topics: dict[str, int],
        interval_s: float,
        ends: EvidenceWriter,
        report: Callable[[Mapping[Partition, int]], None],
    ) -> None:
        self._admin = admin
        self._cluster = cluster
        self._asked = [TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)]
        self._ends = ends
        self._report = report
        self._failed = False
        self._timer = SampleTimer(f"ends-{cluster}", interval_s, self._sample, last=True)

    def stop(self) -> None:
        """Sample once more, end, and put all on disk; raises what ended the thread before its time."""
        self._timer.stop(2 * ANSWER_S)
        self._ends.close()
        if self.failure:
            raise self.failure

    def _sample(self) -> None:
        try:
            if self._failed:
                # The client goes on to ask the leaders that it knows, also after they have moved.
                self._admin.list_topics(timeout=ANSWER_S)
            wanted = {place: OffsetSpec.latest() for place in self._asked}
            answers = self._admin.list_offsets(wanted, request_timeout=ANSWER_S)
            ends = {
                (place.topic, place.partition): answer.result(ANSWER_S).offset
                for place, answer in answers.items()
            }
        except (KafkaException, TimeoutError) as error:
            self._timer.complain(f"ends of cluster {self._cluster}: no sample: {error}")
            self._failed = True
            return
        self._failed = False
        self._ends.append(end_columns(self._cluster, ends, now_us()))
        self._report(ends)
