"""Samples the end offsets of topics, from which an audit tells how far a mirror is behind."""

from __future__ import annotations

import sys
import threading
import time
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from verify.evidence import EvidenceWriter
from verify.load.process import now_us

_ANSWER_S: Final = 5.0
_COMPLAIN_EVERY_S: Final = 10.0


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
        self._interval_s = interval_s
        self._ends = ends
        self._complained = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ends-{cluster}", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Sample once more, end, and put all on disk; raises what ended the thread before its time."""
        self._stop.set()
        self._thread.join(2 * _ANSWER_S)
        self._ends.close()
        if self.failure:
            raise self.failure

    def _run(self) -> None:
        try:
            tick = time.monotonic()
            while not self._stop.is_set():
                self._sample()
                # A late sample skips ticks, it does not shift them.
                tick += self._interval_s * (1 + int((time.monotonic() - tick) / self._interval_s))
                self._stop.wait(max(0.0, tick - time.monotonic()))
            self._sample()
        except BaseException as error:
            self.failure = error

    def _sample(self) -> None:
        try:
            wanted = {place: OffsetSpec.latest() for place in self._asked}
            answers = self._admin.list_offsets(wanted, request_timeout=_ANSWER_S)
            ends = {place: answer.result(_ANSWER_S).offset for place, answer in answers.items()}
        except (KafkaException, TimeoutError) as error:
            self._complain(error)
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

    def _complain(self, error: Exception) -> None:
        if time.monotonic() - self._complained >= _COMPLAIN_EVERY_S:
            self._complained = time.monotonic()
            print(f"ends of cluster {self._cluster}: no sample: {error}", file=sys.stderr, flush=True)
