"""What batches of a mirror's records compress to, found on a sample as large as the topics are many.

Compression cannot be told from lengths and hashes, so it is measured while the topics are read: the table
``batches`` outlives them as ``records`` does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kedge.evidence.run import Mirror, Run
from kedge.evidence.tables import arrow_schema
from spark_checks.engine.session import ship
from spark_checks.engine.spark_types import TABLES
from spark_checks.topics import Range, TopicRangeShare, raw_records_of

ship(__name__)

#: Raw bytes that are read and compressed a mirror, over all partitions of its source.
SAMPLE_BYTES: Final = 48 << 20
#: A batch holds no more raw bytes than this, however well it compresses: a fetch brings 50 MiB at most.
MOST_RAW: Final = 16 << 20


def _gzip(raw: bytes) -> int:
    packer = zlib.compressobj(wbits=31)
    return len(packer.compress(raw)) + len(packer.flush())


def _arrow(codec: str, level: int | None = None) -> Callable[[bytes], int]:
    return lambda raw: len(pa.Codec(codec, compression_level=level).compress(raw, asbytes=True))


#: With the levels that a producer has by default; of lz4, whose level pyarrow does not take, its own.
CODECS: Final[Mapping[str, Callable[[bytes], int]]] = {
    "gzip": _gzip,
    "lz4": _arrow("lz4"),
    "zstd": _arrow("zstd", 3),
}


def sample(
    spark: SparkSession, records: DataFrame, run: Run, topics: Mapping[tuple[str, str], TopicRangeShare]
) -> DataFrame | None:
    """Return the table ``batches`` of all mirrors' sources; None without a mirror whose source has records.

    Args:
        records: the records that were read, from which follows how many of them make up the sample.
    """
    frames = []
    for mirror in run.mirrors:
        place = (mirror.source.cluster, mirror.source.topic)
        ranges = middle(records, *place) if place in topics else ()
        if ranges:
            parts = [replace(topics[place], ranges=(one,)) for one in ranges]
            # A partition's sample in one group: some megabytes.
            grouped = raw_records_of(spark, parts).groupBy("partition")
            frames.append(grouped.applyInArrow(_compressor(mirror), TABLES["batches"]))
    return reduce(DataFrame.unionByName, frames) if frames else None


def middle(records: DataFrame, cluster: str, topic: str) -> list[Range]:
    """Return offsets in the middle of each partition of a topic, all together the size of a sample."""
    rows = (
        records.where((F.col("cluster") == cluster) & (F.col("topic") == topic))
        .groupBy("partition")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"), F.avg("bytes").alias("mean"))
        .orderBy("partition")
        .collect()
    )
    found = []
    for row in rows:
        held = row["last"] + 1 - row["first"]
        wanted = min(held, max(1, int(SAMPLE_BYTES // len(rows) / max(row["mean"], 1))))
        start = row["first"] + (held - wanted) // 2
        found.append(Range(row["partition"], start, start + wanted))
    return found


def _compressor(mirror: Mirror) -> Callable[[pa.Table], pa.Table]:
    place, batch_bytes = mirror.source, mirror.batch_bytes

    def compress(rows: pa.Table) -> pa.Table:
        ordered = rows.sort_by("offset")
        found = [row for codec in CODECS for row in filled(ordered, codec, batch_bytes)]
        partition = ordered.column("partition")[0].as_py()
        common = {"cluster": place.cluster, "topic": place.topic, "partition": partition}
        return pa.Table.from_pylist([common | row for row in found], schema=arrow_schema("batches"))

    return compress


def filled(rows: pa.Table, codec: str, batch_bytes: int) -> Iterator[dict[str, Any]]:
    """Cut records into batches as a producer of steady data comes to fill them, and compress each.

    A producer fills a batch up to ``batch_bytes`` of estimated compressed size, and its estimate comes to
    what it has seen; so each batch here takes as many raw bytes as fill it by the ratio of the one before.
    The last, unfilled one is left out.

    Args:
        rows: ``offset``, ``timestamp_ms``, ``key`` and ``value`` of one partition, in order.
        codec: a key of :data:`CODECS`.
        batch_bytes: the producer's batch.size.
    """
    plain = serialized(rows)
    ends = np.cumsum([len(record) for record in plain])
    offsets = rows.column("offset").to_numpy()
    ratio, first, before = 1.0, 0, 0
    while True:
        wanted = before + min(MOST_RAW, int(batch_bytes / ratio))
        last = int(np.searchsorted(ends, wanted, side="right"))
        if last >= len(plain):
            return
        last = max(last, first + 1)
        raw = b"".join(plain[first:last])
        size = CODECS[codec](raw)
        yield {
            "codec": codec,
            "first_offset": int(offsets[first]),
            "records": last - first,
            "raw_bytes": len(raw),
            "compressed_bytes": size,
        }
        ratio, first, before = min(1.0, size / len(raw)), last, int(ends[last - 1])


def serialized(rows: pa.Table) -> list[bytes]:
    """Return records as a batch has them (record format 2), without headers."""
    times = rows.column("timestamp_ms").to_pylist()
    made = []
    for number, (at, key, value) in enumerate(
        zip(times, rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)
    ):
        body = b"\0" + _varint(at - times[0]) + _varint(number) + _field(key) + _field(value) + b"\0"
        made.append(_varint(len(body)) + body)
    return made


def _field(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append((left & 0x7F) | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
