"""Reads the batches of a topic from its broker's log: how many, how big, with how many records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: baseOffset, batchLength, leader epoch, magic, crc, attributes, lastOffsetDelta, two timestamps, producer id
#: and epoch, sequence, records: the head of a record batch of version 2, Kafka's documentation.
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH_ENDS: Final = 12


@dataclass(frozen=True)
class Batches:
    """Sums over batches; bytes as they are stored, which is as they were sent."""

    count: int
    bytes: int
    records: int

    def since(self, before: Batches) -> Batches:
        """Return the sums over what has come after ``before`` was read."""
        return Batches(self.count - before.count, self.bytes - before.bytes, self.records - before.records)

    def figures(self, plain_bytes_a_record: float) -> dict[str, float]:
        """Return means: bytes and records of a batch, and how much smaller than its records it is."""
        count, size, records = max(self.count, 1), max(self.bytes, 1), self.records
        return {
            "batch_bytes": round(self.bytes / count),
            "batch_records": round(records / count, 1),
            "compression": round(records * plain_bytes_a_record / size, 2),
        }


def batches_of(data: Path, topic: str) -> Batches:
    """Return the sums over a topic's partitions below a broker's log folder."""
    found = [
        batch
        for folder in sorted(data.glob(f"{topic}-*"))
        if folder.name.removeprefix(f"{topic}-").isdigit()
        for segment in sorted(folder.glob("*.log"))
        for batch in _heads(segment)
    ]
    return Batches(len(found), sum(size for size, _ in found), sum(records for _, records in found))


def _heads(segment: Path) -> Iterator[tuple[int, int]]:
    """Yield (bytes, records) of each whole batch; a segment may end in zeros that were kept in advance."""
    with segment.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            _, length, *_, records = _HEAD.unpack(head)
            if length <= 0:
                return
            yield _BEFORE_LENGTH_ENDS + length, records
            file.seek(_BEFORE_LENGTH_ENDS + length - _HEAD.size, 1)
