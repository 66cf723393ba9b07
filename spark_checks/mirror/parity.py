"""Source to target of a mirror: every record of the one against every record of the other, exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.engine.anomalies import kinds, tally
from spark_checks.engine.blocks import block, digest
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows
from spark_checks.mirror.altered import EARLIER, PARTS, paired
from spark_checks.mirror.order import out_of_order
from spark_checks.results import Anomaly

#: Stands for the producer of a record that is known by its content alone.
_NONE: Final = -1
#: The content of records without identity is hashed; 2^10 blocks of hashes are compared.
_CONTENT_SHIFT: Final = 38
_ID = ["mirror", "producer", "ident"]
_KEYS = ["mirror", "producer", "block"]
_ORDER = ["mirror", "partition", "offset", "target_partition", "target_offset"]


@dataclass(frozen=True)
class MirrorHop:
    """What the hop gave: totals of each mirror, in the order of run.json, and anomalies by kind."""

    totals: tuple[Mapping[str, Any], ...]
    anomalies: Mapping[str, Anomaly]


def sides(records: DataFrame, run: Run) -> DataFrame:
    """Return the records of the mirrors' sources and targets, a row for each of these that has one.

    Returns:
        ``mirror`` (its number in run.json), ``from_source``, place, ``producer`` and ``ident`` (by which a
        record is known: the identity of an intact record of the run, else a hash of its content),
        ``position`` (whose blocks are compared), what the mirror has to keep (:data:`PARTS`),
        ``timestamp_type``, and ``claimed_producer`` and ``claimed_seq`` of a damaged record.
    """
    ends = [
        (place.cluster, place.topic, number, from_source)
        for number, mirror in enumerate(run.mirrors)
        for place, from_source in ((mirror.source, True), (mirror.target, False))
    ]
    schema = "cluster string, topic string, mirror int, from_source boolean"
    wanted = local_rows(records.sparkSession, ends, schema)
    known = F.col("producer").isNotNull() & F.coalesce("crc_ok", F.lit(False))
    return records.join(F.broadcast(wanted), ["cluster", "topic"], "inner").select(
        "mirror",
        "from_source",
        "partition",
        "offset",
        F.when(known, F.col("producer").cast("long")).otherwise(F.lit(_NONE)).alias("producer"),
        F.when(known, F.col("seq")).alias("seq"),
        F.coalesce("key_hash", F.lit(0)).alias("key"),
        F.coalesce("value_hash", F.lit(0)).alias("value"),
        F.coalesce("headers_hash", F.lit(0)).alias("headers"),
        F.col("timestamp_us").alias("timestamp"),
        "timestamp_type",
        F.when(~known, F.col("producer").cast("long")).alias("claimed_producer"),
        F.when(~known, F.col("seq")).alias("claimed_seq"),
    )


def identified(rows: DataFrame, restamped: list[int]) -> DataFrame:
    """Add ``ident`` and ``position``; timestamps that the target's broker replaced are left out of both.

    Args:
        rows: as :func:`sides` returns them.
        restamped: the mirrors whose target has LogAppendTime.
    """
    timestamp = F.when(F.col("mirror").isin(restamped), F.lit(0)).otherwise(F.col("timestamp"))
    content = F.xxhash64("key", "value", "headers", "timestamp")
    return (
        rows.withColumn("timestamp", timestamp)
        .withColumn("ident", F.coalesce("seq", content))
        .withColumn("position", F.coalesce("seq", F.shiftright(F.col("ident"), _CONTENT_SHIFT)))
    )


def mirror_hop(evidence: Evidence) -> MirrorHop:
    """Compare each mirror's target with its source.

    Partitions are compared first, by a digest of their records in order, by which most mirrors are shown to
    be what they should be. Of the others the order is looked at record by record, and digests by producer and
    block of sequence numbers (records without identity: by block of content hashes) tell where to look: only
    blocks whose digests differ are then aggregated by record.
    """
    run = evidence.run
    everything = sides(evidence.need("records"), run)
    partitions = count_partitions(everything)
    totals = count_sides(partitions, run)
    restamped = [number for number, one in enumerate(totals) if not one["timestamps_compared"]]
    rows = identified(everything, restamped)
    unlike = differing_mirrors(rows, partitions, len(run.mirrors))
    if not unlike:
        return MirrorHop(tuple(totals), {})
    rows = rows.where(F.col("mirror").isin(unlike))
    hashed = F.xxhash64("ident", *PARTS)
    blocks = (
        rows.groupBy("mirror", "producer", block("position"))
        .agg(
            *digest(F.when(F.col("from_source"), hashed), "source_"),
            *digest(F.when(~F.col("from_source"), hashed), "target_"),
        )
        .where(" or ".join(f"source_{part} != target_{part}" for part in ("rows", "one", "two")))
        .select(*_KEYS)
        .persist()
    )
    for row in blocks.groupBy("mirror").count().collect():
        totals[row["mirror"]]["blocks_compared_exactly"] = row["count"]
    anomalies = tally(named(out_of_order(rows), run), _ORDER)
    if not blocks.isEmpty():
        some = rows.withColumn("block", block("position")).join(blocks, _KEYS, "semi")
        matched = compare(some).persist()
        different = paired(findings(matched).persist(), run.started_us).persist()
        anomalies |= tally(named(different.where(F.col("kind") != EARLIER), run), _ORDER)
        of_each = different.where(F.col("kind").isin("duplicated", EARLIER)).groupBy("mirror", "kind")
        for row in of_each.agg(F.sum("_times").alias("times")).collect():
            totals[row["mirror"]][row["kind"]] = row["times"]
        matched.unpersist()
        different.unpersist()
    blocks.unpersist()
    return MirrorHop(tuple(totals), anomalies)


def count_partitions(rows: DataFrame) -> list[dict[str, Any]]:
    """Return what each partition of a mirror's ends holds.

    Args:
        rows: as :func:`sides` returns them.

    Returns:
        mirror, from_source, partition; rows, first and last (offset), by_content and append (records that are
        known by their content alone, and that have the broker's time).
    """
    found = rows.groupBy("mirror", "from_source", "partition").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count_if(F.col("producer") == _NONE).alias("by_content"),
        F.count_if(F.col("timestamp_type") == "append").alias("append"),
    )
    return [row.asDict() for row in found.collect()]


def count_sides(partitions: list[dict[str, Any]], run: Run) -> list[dict[str, Any]]:
    """Return for each mirror how many records its ends hold, and how many are known by content alone."""
    found = []
    for number in range(len(run.mirrors)):
        mine = [one for one in partitions if one["mirror"] == number]
        source, target = (
            {
                name: sum(one[name] for one in mine if one["from_source"] == end)
                for name in ("rows", "by_content", "append")
            }
            for end in (True, False)
        )
        found.append({
            "source_records": source["rows"],
            "target_records": target["rows"],
            "duplicated": 0,
            EARLIER: 0,
            "known_by_content_records": max(source["by_content"], target["by_content"]),
            "timestamps_compared": not target["append"],
            "blocks_compared_exactly": 0,
        })  # fmt: skip
    return found


def differing_mirrors(rows: DataFrame, partitions: list[dict[str, Any]], mirrors: int) -> list[int]:
    """Return the mirrors whose partitions are not, one for one, the same records in the same order.

    A record's place in its partition is its offset less the first one. Where offsets have holes (the marks of
    transactions, compaction) that place is not known so, and the mirror counts as differing.

    Args:
        rows: as :func:`identified` returns them.
        partitions: as :func:`count_partitions` returns them.
    """
    whole = dict.fromkeys(range(mirrors), True)
    for one in partitions:
        whole[one["mirror"]] &= one["rows"] == one["last"] - one["first"] + 1
    keys = ["mirror", "from_source", "partition"]
    firsts = [tuple(one[key] for key in (*keys, "first")) for one in partitions if whole[one["mirror"]]]
    ends: dict[tuple[int, bool], list[tuple[int, ...]]] = defaultdict(list)
    if firsts:
        begins = local_rows(
            rows.sparkSession, firsts, "mirror int, from_source boolean, partition int, first long"
        )
        hashed = F.xxhash64(*PARTS, F.col("offset") - F.col("first"))
        placed = rows.join(F.broadcast(begins), keys, "inner").groupBy(*keys).agg(*digest(hashed))
        for row in placed.collect():
            ends[row["mirror"], row["from_source"]].append((row["rows"], row["one"], row["two"]))
    return [
        number
        for number in range(mirrors)
        if not whole[number] or sorted(ends[number, True]) != sorted(ends[number, False])
    ]


def compare(rows: DataFrame) -> DataFrame:
    """Aggregate both sides by record; shuffles every row, so give it differing blocks only.

    Returns:
        A row a record: ``_ID``, ``copies_source`` and ``copies_target``, ``held`` and ``found`` (the first
        place of each side), ``again`` (the last place in the target), ``wanted`` and ``got`` (the distinct
        contents of each side), and what a damaged copy in the target claims to be.
    """
    place, content = F.struct("partition", "offset"), F.struct(*PARTS)
    claimed = F.struct(F.col("claimed_producer").alias("producer"), F.col("claimed_seq").alias("seq"))
    claim = F.when(F.col("claimed_producer").isNotNull(), claimed)

    def of(from_source: bool, what: Column) -> Column:
        return F.when(F.col("from_source") == from_source, what)

    return rows.groupBy(*_ID).agg(
        F.count_if("from_source").alias("copies_source"),
        F.count_if(~F.col("from_source")).alias("copies_target"),
        F.min(of(True, place)).alias("held"),
        F.min(of(False, place)).alias("found"),
        F.max(of(False, place)).alias("again"),
        F.collect_set(of(True, content)).alias("wanted"),
        F.collect_set(of(False, content)).alias("got"),
        F.min(of(False, claim)).alias("claimed"),
    )


def findings(matched: DataFrame) -> DataFrame:
    """Name what is wrong with each record: columns ``kind``, ``_times``, and those of :func:`compare`."""
    copied, held = F.col("copies_target"), F.col("copies_source")

    def altered(part: str) -> Column:
        """A copy has a value of this part that no copy in the source has."""
        return F.exists("got", lambda g: ~F.exists("wanted", lambda w: w[part].eqNullSafe(g[part])))

    both = (held > 0) & (copied > 0)
    flags = {
        "missing": held > copied,
        "duplicated": (held > 0) & (copied > held),
        "unexpected": held == 0,
        **{f"altered_{part}": both & altered(part) for part in PARTS},
    }
    times = F.when(F.col("kind").isin("missing", "duplicated", "unexpected"), F.abs(copied - held))
    return matched.withColumn("kind", F.explode(kinds(flags))).withColumn(
        "_times", F.coalesce(times, F.lit(1))
    )


def named(found: DataFrame, run: Run) -> DataFrame:
    """Return findings with the names and places that an example shows."""

    def name(values: list[str]) -> Column:
        return F.element_at(F.array(*(F.lit(value) for value in values)), F.col("mirror") + 1)

    known = F.col("producer") != _NONE
    twice = F.col("kind") == "duplicated"
    last = (
        F.col("again") if "again" in found.columns else F.lit(None).cast("struct<partition:int,offset:long>")
    )
    return found.select(
        "kind",
        "_times",
        "mirror",
        name([mirror.flow for mirror in run.mirrors]).alias("flow"),
        name([f"{mirror.source.cluster}/{mirror.source.topic}" for mirror in run.mirrors]).alias("source"),
        F.col("held.partition").alias("partition"),
        F.col("held.offset").alias("offset"),
        name([f"{mirror.target.cluster}/{mirror.target.topic}" for mirror in run.mirrors]).alias("target"),
        F.col("found.partition").alias("target_partition"),
        F.col("found.offset").alias("target_offset"),
        F.when(twice, last.getField("partition")).alias("again_partition"),
        F.when(twice, last.getField("offset")).alias("again_offset"),
        *([F.col("after_offset")] if "after_offset" in found.columns else []),
        F.when(known, F.col("producer")).alias("producer"),
        F.when(known, F.col("ident")).alias("seq"),
    )
