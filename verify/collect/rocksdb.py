"""Samples of memory that a Streams application's reporter writes (templates/streams/StateReporter.java)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kedge.evidence.border.host_output import memory

_SAME: Final = (
    "at_us",
    "state",
    "rss_bytes",
    "heap_bytes",
    "heap_used_bytes",
    "non_heap_bytes",
    "direct_bytes",
    "stores",
    "table_readers_bytes",
    "restoring_records",
)


def samples(
    lines: Iterable[str], from_us: int, until_us: int, *, shared_cache: bool
) -> Iterator[dict[str, Any]]:
    """Yield the samples of a time as rows of the rocksdb table; lines that are not whole are passed over.

    A cache that all stores share is told by each of them, so the most that one tells is all of it
    (``shared_cache``); caches apart add up. A process whose RSS could not be read told 0: that is no sample.
    """
    kind = "most" if shared_cache else "sum"
    for line in lines:
        told = memory(line)
        if told is not None and told.rss_bytes > 0 and from_us <= told.at_us <= until_us:
            yield {name: getattr(told, name) for name in _SAME} | {
                "block_cache_bytes": getattr(told, f"block_cache_{kind}_bytes"),
                "pinned_bytes": getattr(told, f"pinned_{kind}_bytes"),
                "memtable_bytes": told.memtables_bytes,
            }
