"""Samples the end offsets of topics, from which an audit tells how far a mirror is behind."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kedge.evidence.writing import EvidenceWriter
from verify.process import now_us
from verify.watch.timer import ANSWER_S, SampleTimer


class EndWatcher:
    """Samples the ends of one cluster's topics every ``interval_s`` into ``end_offsets`` until stopped.

    ``at_us`` is the moment of the answer: what lies before the offset was there by then. A sample that failed
    leaves no row.
    """

    def __init__(
        self,
        admin: AdminClient,
        cluster: str,
        topics: dict[str, int],
        interval_s: float,
        ends: EvidenceWriter,
    ) -> None:
        self._admin = admin
        self._cluster = cluster
        self._asked = [TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)]
        self._ends = ends
        self._timer = SampleTimer(f"ends-{cluster}", interval_s, self._sample, last=True)

    @property
    def failure(self) -> BaseException | None:
        """What ended the sampling before its time."""
        return self._timer.failure

    def start(self) -> None:
        """Begin sampling."""
        self._timer.start()

    def stop(self) -> None:
        """Sample once more, end, and put all on disk; raises what ended the thread before its time."""
        self._timer.stop(2 * ANSWER_S)
        self._ends.close()
        if self.failure:
            raise self.failure

    def _sample(self) -> None:
        try:
            wanted = {place: OffsetSpec.latest() for place in self._asked}
            answers = self._admin.list_offsets(wanted, request_timeout=ANSWER_S)
            ends = {place: answer.result(ANSWER_S).offset for place, answer in answers.items()}
        except (KafkaException, TimeoutError) as error:
            self._timer.complain(f"ends of cluster {self._cluster}: no sample: {error}")
            return
        self._ends.append(
            {
                "cluster": self._cluster,
                "topic": [place.topic for place in ends],
                "partition": [place.partition for place in ends],
                "at_us": now_us(),
                "end_offset": list(ends.values()),
                "record_bytes": None,
            }
        )
