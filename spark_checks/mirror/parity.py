"""Source to target of a mirror: every record of the one against every record of the other, exact."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evidence.run import Place, Run
from spark_checks.engine.anomalies import block, differs, digest, only_blocks, tally
from spark_checks.engine.one_pass import folded_by
from spark_checks.engine.readers import Evidence
from spark_checks.mirror.altered import PARTS, paired
from spark_checks.mirror.order import out_of_order
from spark_checks.mirror.sequences import COLUMNS, Topic, put_together, stretches
from spark_checks.results import Anomaly

#: Stands for the producer of a record that is known by its content alone.
_NONE = -1
#: The content of records without identity is hashed; 2^10 blocks of hashes are compared.
_CONTENT_SHIFT = 38
_ID = ["mirror", "producer", "ident"]
_KEYS = ["mirror", "producer", "block"]
_ORDER = ["mirror", "partition", "offset", "target_partition", "target_offset"]


@dataclass(frozen=True)
class MirrorHop:
    """What the hop gave: totals of each mirror, in the order of run.json, and anomalies by kind."""

    totals: tuple[Mapping[str, int], ...]
    anomalies: Mapping[str, Anomaly]


def sides(records: DataFrame, run: Run, numbers: Collection[int]) -> DataFrame:
    """Return the records of some mirrors' sources and targets, a row for each of these that has one.

    Returns:
        ``mirror`` (its number in run.json), ``from_source``, place, ``producer`` and ``ident`` (by which a
        record is known: the identity of an intact record of the run, else a hash of its content),
        ``position`` (whose blocks are compared), what the mirror has to keep (:data:`PARTS`),
        ``timestamp_type``, and ``claimed_producer`` and ``claimed_seq`` of a damaged record.
    """
    ends = [
        (place.cluster, place.topic, number, from_source)
        for number, mirror in enumerate(run.mirrors)
        if number in numbers
        for place, from_source in ((mirror.source, True), (mirror.target, False))
    ]
    schema = "cluster string, topic string, mirror int, from_source boolean"
    wanted = records.sparkSession.createDataFrame(ends, schema)
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

    One pass folds the sequence of each partition into a number, by which most mirrors are shown to be what
    they should be (spark_checks.mirror.sequences). Of the others the order is looked at record by record, and
    both sides are folded into digests by producer and block of sequence numbers (records without identity: by
    block of content hashes); that shuffles one row a block and task. Only blocks whose digests differ are
    then aggregated by record.
    """
    run = evidence.run
    ends = frozenset((one.cluster, one.topic) for m in run.mirrors for one in (m.source, m.target))
    told = put_together(folded_by(evidence, "records", COLUMNS, partial(stretches, topics=ends)))
    totals = count_sides(told, run)
    restamped = [n for n, one in enumerate(totals) if one["target_restamped"]]
    unlike = [
        number
        for number, (source, target) in enumerate(_ends(told, run))
        if not source.same_as(target, stamped=number not in restamped)
    ]
    if not unlike:
        return MirrorHop(tuple(totals), {})
    rows = identified(sides(evidence.need("records"), run, unlike), restamped)
    hashed = F.xxhash64("ident", *PARTS)
    digests = (
        rows.groupBy("mirror", "producer", block("position"))
        .agg(
            *digest(F.when(F.col("from_source"), hashed), "source"),
            *digest(F.when(~F.col("from_source"), hashed), "target"),
        )
        .withColumn("differs", differs("source", "target"))
    )
    blocks = digests.where("differs").select(*_KEYS).persist()
    for row in blocks.groupBy("mirror").count().collect():
        totals[row["mirror"]]["blocks_compared_exactly"] = row["count"]
    anomalies = tally(named(out_of_order(rows), run), _ORDER)
    if not blocks.isEmpty():
        matched = compare(only_blocks(rows, blocks, ["mirror", "producer"], "position")).persist()
        different = paired(findings(matched).persist()).persist()
        anomalies |= tally(named(different, run), _ORDER)
        for row in by_kind(different, "duplicated").collect():
            totals[row["mirror"]]["duplicated"] = row["times"]
        matched.unpersist()
        different.unpersist()
    blocks.unpersist()
    return MirrorHop(tuple(totals), anomalies)


def by_kind(found: DataFrame, kind: str) -> DataFrame:
    """Return how often a kind was found in each mirror: ``mirror``, ``times``."""
    return found.where(F.col("kind") == kind).groupBy("mirror").agg(F.sum("_times").alias("times"))


def _ends(told: Mapping[tuple[str, str], Topic], run: Run) -> Iterator[tuple[Topic, Topic]]:
    """Give what was seen of each mirror's source and target."""

    def seen(place: Place) -> Topic:
        return told.get((place.cluster, place.topic), Topic())

    yield from ((seen(mirror.source), seen(mirror.target)) for mirror in run.mirrors)


def count_sides(told: Mapping[tuple[str, str], Topic], run: Run) -> list[dict[str, int]]:
    """Return for each mirror how many records its ends hold, and how many are known by content alone."""
    totals = []
    for source, target in _ends(told, run):
        by_content = (sum(one.by_content for one in end.partitions) for end in (source, target))
        totals.append({
            "source": source.rows,
            "target": target.rows,
            "by_content": max(by_content),
            "target_restamped": sum(one.append for one in target.partitions),
            "blocks_compared_exactly": 0,
            "duplicated": 0,
        })  # fmt: skip
    return totals


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
    kinds = F.array_compact(F.array(*(F.when(flag, F.lit(kind)) for kind, flag in flags.items())))
    times = F.when(F.col("kind").isin("missing", "duplicated", "unexpected"), F.abs(copied - held))
    return matched.withColumn("kind", F.explode(kinds)).withColumn("_times", F.coalesce(times, F.lit(1)))


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
