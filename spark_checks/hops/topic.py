"""Producer to topic: the ledger against the records, exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.facts import of_run
from spark_checks.folded import FEW, NOTHING, Folded, Sum, few, finer, folded, in_parts, sum_of
from spark_checks.hops.found import in_blocks, tally
from spark_checks.hops.whole import lacking, refuse_twice, unledgered
from spark_checks.model import Anomaly
from spark_checks.readers import Evidence
from spark_checks.run import Run

_IDENTITY = ("producer", "seq")
_HOME = ("topic", "partition", "offset")
_OUTCOMES = ("acked", "failed", "unknown")


@dataclass(frozen=True)
class TopicHop:
    """What the first hop gave: totals, anomalies by kind, and what is in the topics beside what should be.

    ``duplicates`` are the identities found more than once, ``beside`` counts the intact records that are no
    acknowledged one's first copy, ``blocks`` are the (producer, block) in which both sides differ.
    """

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]
    duplicates: DataFrame | None
    beside: int
    blocks: Sequence[tuple[int, int]]


def intact(records: DataFrame) -> DataFrame:
    """Return the records whose identity can be trusted, because their checksum is right."""
    return records.where(F.col("producer").isNotNull() & F.col("crc_ok"))


def expired(run: Run) -> Column:
    """Return whether (topic, partition, offset) lies before the log start: retention took it away."""
    gone = F.lit(False)
    for topic in run.source_topics():
        for partition, start in topic.expired_below().items():
            at = (F.col("topic") == topic.topic) & (F.col("partition") == partition)
            gone = gone | (at & (F.col("offset") < start))
    return F.coalesce(gone, F.lit(False))


def topic_hop(evidence: Evidence) -> TopicHop:
    """Compare what generators sent with what the topics hold.

    Both sides are folded into sums by producer and block of sequence numbers; only blocks whose sums differ
    go through the exact join.

    Raises:
        EvidenceError: when the ledger holds one record twice, or the records one place twice.
    """
    run, ledger = evidence.run, evidence.need("ledger")
    records = of_run(evidence.need("records"), run)
    counts, blocks = _counted(folded(evidence))
    anomalies = unledgered(evidence)
    duplicates = None
    beside = 0
    if blocks or counts["damaged"]:
        matched = compare(*_rows_of(evidence, blocks), run).persist()
        duplicates = matched.where("copies > 1").select(*_IDENTITY, F.struct(*_HOME).alias("home"), "places")
        broken = _broken(records) if counts["damaged"] or counts["foreign"] else records.where(F.lit(False))
        anomalies |= tally(findings(matched, broken, run), ["producer", "seq", *_HOME])
        refuse_twice(ledger, records, anomalies.pop("ledger_twice", None), anomalies.pop("same_place", None))
        counts["unknown_found_in_topic"] = anomalies.pop("unknown_found", Anomaly(0)).count
        for kind in ("compacted", "beyond_ledger"):
            counts[kind] = anomalies.pop(kind, Anomaly(0)).count
        beside = counts["unknown_found_in_topic"] + counts["beyond_ledger"]
        beside += anomalies["unexpected"].count if "unexpected" in anomalies else 0
        if "duplicated" in anomalies:
            row = duplicates.agg(F.sum(F.size("places") - 1)).first()
            beside += row[0] if row is not None else 0
        else:
            duplicates = None
    return TopicHop(counts, anomalies, duplicates, beside, blocks)


def _rows_of(evidence: Evidence, blocks: Sequence[tuple[int, int]]) -> tuple[DataFrame, DataFrame]:
    """Return the ledger's rows and the intact records of these blocks.

    Where these are few, only of those parts of them that differ: the rest of a block is as it should be.
    """
    numbers = {number for _, number in blocks}
    parts = finer(evidence, "seq", numbers) if numbers else None
    if parts is not None:
        fine = {number for _, number in _counted(parts)[1]}
        if fine and len(fine) <= FEW:
            near = in_parts("seq", fine)
            records = intact(of_run(few(evidence, "records", near), evidence.run))
            return few(evidence, "ledger", near), records
    records = intact(of_run(evidence.need("records"), evidence.run))
    return (
        in_blocks(evidence.need("ledger"), blocks, ["producer"], "seq"),
        in_blocks(records, blocks, ["producer"], "seq"),
    )


def _counted(parts: Folded) -> tuple[dict[str, int], list[tuple[int, int]]]:
    """Return totals, and the (producer, block) whose sums are not the same or that hold a wrong key."""
    counts = dict.fromkeys(("sent", *_OUTCOMES, "expired", "records", "foreign", "damaged"), 0)
    ours: dict[tuple[int, int], Sum] = defaultdict(Sum)
    theirs: dict[tuple[int, int], Sum] = defaultdict(Sum)
    wrong: set[tuple[int, int]] = set()
    for row in parts.rows("sent"):
        counts["sent"] += row["rows"]
        if row["outcome"] in _OUTCOMES:
            counts[row["outcome"]] += row["rows"]
        if row["outcome"] == "acked":
            counts["expired"] += row["expired"]
            ours[row["producer"], row["block"]] += replace(sum_of(row), rows=row["rows"] - row["expired"])
    for row in parts.rows("held"):
        if row["producer"] is None:
            counts["foreign"] += row["rows"]
            continue
        counts["records"] += row["rows"]
        if not row["crc_ok"]:
            counts["damaged"] += row["rows"]
        else:
            theirs[row["producer"], row["block"]] += sum_of(row)
            if row["key_ok"] is False:
                wrong.add((row["producer"], row["block"]))
    unlike = {key for key in {*ours, *theirs} if ours.get(key, NOTHING) != theirs.get(key, NOTHING)}
    blocks = sorted(unlike | wrong)
    counts["blocks_compared_exactly"] = len(blocks)
    return counts, blocks


def compare(ledger: DataFrame, good: DataFrame, run: Run) -> DataFrame:
    """Join ledger and intact records by identity; shuffles both, so give it differing blocks only.

    Returns:
        A row an identity: the ledger's columns, ``copies`` and ``places`` (where it was found, in order).
    """
    places = good.groupBy(*_IDENTITY).agg(
        F.count(F.lit(1)).alias("copies"),
        F.sort_array(F.collect_list(F.struct(*_HOME, "crc"))).alias("places"),
        F.max(~F.coalesce("key_ok", F.lit(True))).alias("other_key"),
    )
    return (
        ledger.withColumn("in_ledger", F.lit(True))
        .join(places, list(_IDENTITY), "full")
        .withColumn("copies", F.coalesce("copies", F.lit(0)))
        .withColumn("acked", F.coalesce(F.col("outcome") == "acked", F.lit(False)))
        .withColumn("expired", F.col("acked") & expired(run))
    )


def _broken(records: DataFrame) -> DataFrame:
    """Return the records that are not intact, few; said so that Spark leaves out files which hold none."""
    return records.where(
        F.col("producer").isNull() | F.col("crc_ok").isNull() | (F.col("crc_ok") == F.lit(False))
    )


def findings(matched: DataFrame, broken: DataFrame, run: Run) -> DataFrame:
    """Name what is wrong with each identity (columns ``kind``, identity, place, and what explains it).

    Kinds that are no anomalies come along to be counted: ``unknown_found`` (a send with unknown or failed
    outcome that is in the topic), ``compacted`` and ``beyond_ledger`` (no evidence either way); and two that
    say that the evidence itself is none: ``ledger_twice`` and ``same_place``.
    """
    found = F.col("copies") > 0
    first = F.col("places")[0]
    at_home = F.exists(
        "places",
        lambda place: (
            (place["topic"] == F.col("topic"))
            & (place["partition"] == F.col("partition"))
            & (place["offset"] == F.col("offset"))
        ),
    )
    other_crc = F.exists("places", lambda place: place["crc"] != F.col("crc"))
    homes = F.transform("places", lambda place: F.struct(*(place[name] for name in _HOME)))
    # Both sides of the join lie by identity already: this sorts, and shuffles nothing.
    rows = F.count(F.lit(1)).over(Window.partitionBy(*_IDENTITY))
    flags = {
        "duplicated": F.col("copies") > 1,
        "ledger_twice": F.col("in_ledger") & (rows > 1),
        "same_place": F.size(F.array_distinct(homes)) < F.col("copies"),
        "misplaced": F.col("acked") & found & ~at_home,
        "corrupted": F.col("in_ledger") & found & other_crc,
        "wrong_key": F.col("in_ledger") & found & F.col("other_key"),
        "unknown_found": F.col("in_ledger") & ~F.col("acked") & found,
        "unexpected": F.col("in_ledger").isNull() & ~lacking(run),
        "beyond_ledger": F.col("in_ledger").isNull() & lacking(run),
    }
    kinds = F.array_compact(F.array(*(F.when(flag, F.lit(kind)) for kind, flag in flags.items())))
    seen = (
        matched.withColumn("kinds", kinds)
        .where(found)
        .select(
            F.explode("kinds").alias("kind"),
            *_IDENTITY,
            *(F.coalesce(F.col(name), first[name]).alias(name) for name in _HOME),
            F.when(F.col("acked"), F.col("acked_us")).alias("acked_us"),
            F.transform(
                F.slice("places", 1, 5), lambda place: F.struct(*(place[name].alias(name) for name in _HOME))
            ).alias("found_at"),
            "via",
            "instance",
        )
    )
    missing = matched.where(F.col("acked") & ~found & ~F.col("expired"))
    return seen.unionByName(_missing(missing, broken, run)).unionByName(_damaged(missing, broken))


def _missing(missing: DataFrame, broken: DataFrame, run: Run) -> DataFrame:
    """Acknowledged, and no intact copy: lost, unless the place holds it damaged or compaction explains it."""
    home = [F.col(f"m.{name}") == F.col(f"r.{name}") for name in _HOME]
    broken = broken.select(*_HOME, *_IDENTITY, F.lit(True).alias("present"))
    by_name = broken.where(F.col("producer").isNotNull()).select(*_IDENTITY).distinct()
    compacted = F.col("m.topic").isin([topic.topic for topic in run.source_topics() if topic.compacted])
    rest = missing.join(by_name, list(_IDENTITY), "anti")
    joined = rest.alias("m").join(broken.alias("r"), home, "left")
    kind = (
        F.when(F.col("r.producer").isNotNull(), F.lit("damaged_here"))
        .when(F.col("r.present"), F.lit("corrupted"))
        .when(compacted if _any_compacted(run) else F.lit(False), F.lit("compacted"))
        .otherwise(F.lit("lost"))
    )
    return (
        joined.withColumn("kind", kind)
        .where(F.col("kind") != "damaged_here")
        .select(
            "kind",
            *(F.col(f"m.{name}").alias(name) for name in (*_IDENTITY, *_HOME, "acked_us")),
            _no_places(),
            "m.via",
            "m.instance",
        )
    )


def _damaged(missing: DataFrame, broken: DataFrame) -> DataFrame:
    """Records of the run with a wrong checksum, named after the ledger's record that belongs there."""
    broken = broken.where(F.col("producer").isNotNull())
    home = [F.col(f"r.{name}") == F.col(f"m.{name}") for name in _HOME]
    joined = broken.alias("r").join(missing.alias("m"), home, "left")
    return joined.select(
        F.lit("corrupted").alias("kind"),
        *(F.coalesce(F.col(f"m.{name}"), F.col(f"r.{name}")).alias(name) for name in _IDENTITY),
        *(F.col(f"r.{name}").alias(name) for name in _HOME),
        "m.acked_us",
        _no_places(),
        "m.via",
        "m.instance",
    )


def _no_places() -> Column:
    kind = "array<struct<topic:string,partition:int,offset:bigint>>"
    return F.lit(None).cast(kind).alias("found_at")


def _any_compacted(run: Run) -> bool:
    return any(topic.compacted for topic in run.source_topics())
