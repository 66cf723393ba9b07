"""Tells when the flows that copy a load have copied all of it.

Classic MirrorMaker commits the source offsets of what the target has acknowledged, in its consumer group:
that is exact. MirrorMaker 2 commits none there, so the target is counted, and must have stopped growing:
repeated records alone may make up the number.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from kedge.evidence.load_options import ClusterTopic, LoadSpec, Mirror
from verify.load import cluster
from verify.load.cluster import Offsets
from verify.load.progress import TopicFacts

#: For this long a target that is counted must not have grown: longer than any batch waits to be filled.
QUIET_S: Final = 10.0


class Mirrored:
    """Whether every flow of a load has caught up; asked again and again while it drains."""

    def __init__(self, load: LoadSpec) -> None:
        self._load = load
        self._grew: dict[ClusterTopic, tuple[int, float]] = {}

    def caught_up(self, topics: Mapping[ClusterTopic, TopicFacts]) -> bool:
        """Tell whether all flows are at the source's end; ``topics`` has start and end of each topic."""
        for app in self._load.applications:
            # Kafka Streams commits what it has read once its outputs are acknowledged.
            if app.input and not self._committed(app.name, app.input, topics[app.input]):
                return False
        # Each is asked, so that the time for which a target has been quiet begins for all of them.
        behind = [mirror for mirror in self._load.mirrors if not self._one(mirror, topics)]
        return not behind

    def _one(self, mirror: Mirror, topics: Mapping[ClusterTopic, TopicFacts]) -> bool:
        source, target = topics[mirror.source], topics[mirror.target]
        if mirror.group:
            return self._committed(mirror.group, mirror.source, source)
        copied, now = _grown(target.start, target.end), time.monotonic()
        before, since = self._grew.get(mirror.target, (-1, now))
        if copied != before:
            self._grew[mirror.target] = (copied, now)
            return False
        return copied >= _grown(source.start, source.end) and now - since >= QUIET_S

    def _committed(self, group: str, place: ClusterTopic, topic: TopicFacts) -> bool:
        """Tell whether a group has committed the end of every partition that the run has grown."""
        found = cluster.committed(self._load, group, place.topic, topic.partitions)
        return all(
            found.get(partition, -1) >= end
            for partition, end in topic.end.items()
            if end > topic.start.get(partition, 0)
        )


def _grown(start: Offsets, end: Offsets) -> int:
    return sum(offset - start.get(partition, 0) for partition, offset in end.items())
