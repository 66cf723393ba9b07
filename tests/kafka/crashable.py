"""A broker that a test may kill and start again on the same ports and log folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.services.broker_cluster import BrokerNode as CrashableBroker
from lab.services.broker_cluster import running_nodes

__all__ = ["CrashableBroker", "crashable_broker"]


@contextmanager
def crashable_broker(jars: Path, folder: Path) -> Iterator[CrashableBroker]:
    """Run a broker until the block ends, however often it was killed in between."""
    with running_nodes(jars, folder) as (broker,):
        yield broker
