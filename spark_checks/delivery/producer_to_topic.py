"""Producer to topic: what generators sent (the ledger) against what the topics hold (the records), exactly.

:func:`topic_hop` compares digests, block by block. :func:`classify` joins the rows of blocks that differ,
and says of each record what is wrong with it. Where records are damaged, :func:`_with_damage` tells those
that are lost from those that lie in their place with a wrong checksum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kedge.evidence.run import Run
from spark_checks.delivery.ledger_evidence import claimed, refuse_twice, unledgered
from spark_checks.engine.anomalies import kinds, tally
from spark_checks.engine.blocks import Blocks, compared, in_blocks, kept, together
from spark_checks.engine.facts import (
    intact,
    ledger_by,
    ledger_totals,
    of_run,
    record_totals,
    records_by,
    with_expired,
)
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly

_IDENTITY: Final = ("producer", "seq")
_PLACE: Final = ("topic", "partition", "offset")
_OUTCOMES: Final = ("acked", "failed", "unknown")
#: Places of one record that a finding lists at most.
_PLACES_SHOWN: Final = 5
#: The kinds of records that were acknowledged and of which there is no intact copy.
_MISSING: Final = ("lost", "compacted")
#: Findings that are no anomalies. The first three are counted: a send without an acknowledgement that is in
#: the topic; records of which there is no evidence either way. ``copy`` is a place that holds a record again:
#: the order of a partition is judged without these. The last two refuse the evidence: a ledger with two rows
#: of one record, records with two rows of one place.
_COUNTED: Final = ("unknown_found", "compacted", "beyond_ledger", "copy", "ledger_twice", "same_place")


@dataclass(frozen=True)
class TopicHop:
    """What the first hop gave: totals, anomalies by kind, and where both sides differ.

    ``copies`` are the places (topic, partition, offset) that hold a record again, None where nothing is there
    twice; ``blocks`` are those of a producer in which both sides differ.
    """

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]
    copies: DataFrame | None
    blocks: Blocks


def topic_hop(evidence: Evidence) -> TopicHop:
    """Compare what generators sent with what the topics hold.

    Digests by producer and block of sequence numbers first; only blocks whose digests differ go through the
    exact join.

    Raises:
        EvidenceError: when the ledger holds one record twice, or the records one place twice.
    """
    run, blocks = evidence.run, _differing(evidence)
    counts = _totals(evidence) | {"blocks_compared_exactly": blocks.count}
    anomalies = unledgered(evidence)
    if not blocks.count and not counts["damaged"]:
        return TopicHop(counts, anomalies, None, blocks)
    topics = of_run(evidence.need("records"), run)
    # Shuffles the rows of differing blocks, by identity.
    found = classify(
        in_blocks(evidence.need("ledger"), blocks, "seq"),
        in_blocks(intact(topics), blocks, "seq"),
        run,
    )
    if counts["damaged"] or counts["foreign"]:
        found = _with_damage(found.persist(), _not_intact(topics))
    # Counted here, and read again for the copies; the audit unpersists what is shared when it ends.
    found = evidence.shared.get("topic findings", found.persist)
    anomalies |= tally(found, [*_IDENTITY, *_PLACE])
    counted = {kind: anomalies.pop(kind, None) for kind in _COUNTED}
    refuse_twice(evidence, counted["ledger_twice"], counted["same_place"])
    counts["unknown_found_in_topic"] = (counted["unknown_found"] or Anomaly(0)).count
    for kind in ("compacted", "beyond_ledger"):
        counts[kind] = (counted[kind] or Anomaly(0)).count
    copies = found.where("kind = 'copy'").select(*_PLACE) if counted["copy"] else None
    return TopicHop(counts, anomalies, copies, blocks)


def _totals(evidence: Evidence) -> dict[str, int]:
    ledger = {row["outcome"]: row for row in ledger_totals(evidence)}
    records = record_totals(evidence)
    return {
        "sent": sum(row["records"] for row in ledger.values()),
        **{one: ledger[one]["records"] if one in ledger else 0 for one in _OUTCOMES},
        "expired": sum(row["expired"] for row in ledger.values()),
        "records": sum(row["rows"] for row in records if row["ours"]),
        "foreign": sum(row["rows"] for row in records if not row["ours"]),
        "damaged": sum(row["rows"] for row in records if row["ours"] and row["crc_ok"] is False),
    }


def _differing(evidence: Evidence) -> Blocks:
    """Return the blocks of producers whose digests are not the same, or that hold a wrong key."""
    keys = ("producer", "block")
    # Digests of the ledger are of acknowledged records alone: a block of failed sends equals an absent one.
    ledger = ledger_by(evidence, "producer", "block", "outcome")
    sound = records_by(evidence, "producer", "block", "ours", "crc_ok", "key_ok").where("ours and crc_ok")
    unlike = compared(together(ledger, *keys), together(sound, *keys), ["producer"])
    return kept(unlike.union(sound.where("not key_ok").select(*keys)).distinct(), ["producer"])


def classify(ledger: DataFrame, records: DataFrame, run: Run) -> DataFrame:
    """Say what is wrong with each identity, from all that both sides hold of it.

    Args:
        ledger: all rows of some identities.
        records: all intact records of the same identities.

    Returns:
        A row a finding: kind (those of delivery.check and :data:`_COUNTED`), producer, seq, topic, partition,
        offset (where it was acknowledged, else where it is), acked_us, found_at (all places), via, instance.
    """
    place = F.struct(*_PLACE)
    # One row an identity on each side: ``sent`` is its row of the ledger, whose place is null unless it was
    # acknowledged; ``held`` are all its places in the topics. Either is null where that side lacks it.
    told = ("outcome", "crc", "acked_us", "via", "instance", "expired")
    sent = with_expired(ledger, run).groupBy(*_IDENTITY).agg(
        F.count(F.lit(1)).alias("ledger_rows"), F.first(F.struct(place.alias("place"), *told)).alias("sent")
    )  # fmt: skip
    held = records.groupBy(*_IDENTITY).agg(
        F.sort_array(F.collect_list(F.struct(place.alias("place"), "crc", "key_ok"))).alias("held")
    )
    rows = _with_unledgered(sent.join(held, [*_IDENTITY], "full_outer"), run).withColumns({
        "in_ledger": F.col("sent").isNotNull(),
        "acked": F.coalesce(F.col("sent.outcome") == "acked", F.lit(False)),
        "places": F.transform(F.coalesce("held", F.array()), lambda one: one["place"]),
    })  # fmt: skip
    there, twice = F.size("places") > 0, F.size("places") > 1
    compacted = F.col("sent.place.topic").isin([one.topic for one in run.source_topics() if one.compacted])
    missing = F.col("acked") & ~there & ~F.col("sent.expired")
    flags = {
        "duplicated": twice,
        "ledger_twice": there & (F.col("ledger_rows") > 1),
        "same_place": F.size(F.array_distinct("places")) < F.size("places"),
        "misplaced": F.col("acked") & there & ~F.array_contains("places", F.col("sent.place")),
        "corrupted": F.col("in_ledger") & F.exists("held", lambda one: one["crc"] != F.col("sent.crc")),
        "wrong_key": F.col("in_ledger") & F.exists("held", lambda one: ~one["key_ok"]),
        "unknown_found": F.col("in_ledger") & ~F.col("acked") & there,
        "unexpected": ~F.col("in_ledger") & ~F.col("may_be_unledgered"),
        "beyond_ledger": ~F.col("in_ledger") & F.col("may_be_unledgered"),
        "lost": missing & ~compacted,
        "compacted": missing & compacted,
    }
    acked_at = F.when(F.col("sent.place.offset").isNotNull(), F.col("sent.place"))
    shown = {"acked_us": F.when(F.col("acked"), F.col("sent.acked_us")), "via": F.col("sent.via")}
    shown |= {"found_at": F.when(there, F.slice("places", 1, _PLACES_SHOWN))}
    shown |= {"instance": F.col("sent.instance")}
    rows = rows.withColumns(
        {"shown_at": F.coalesce(acked_at, F.col("places")[0]), "kinds": kinds(flags), **shown}
    )
    about = ("acked_us", "found_at", "via", "instance")
    findings = rows.select(F.explode("kinds").alias("kind"), *_IDENTITY, "shown_at.*", *about)
    # Of several places the acknowledged one is the original, else the first; all others are copies.
    acked_there = F.array_contains("places", F.col("shown_at"))
    original = F.when(acked_there, F.col("shown_at")).otherwise(F.col("places")[0])
    copies = rows.where(twice).withColumn("copy", F.explode(F.array_remove("places", original)))
    return findings.unionByName(copies.select(F.lit("copy").alias("kind"), *_IDENTITY, "copy.*", *about))


def _with_unledgered(rows: DataFrame, run: Run) -> DataFrame:
    """Add ``may_be_unledgered``: whether the load may have sent what has no row in the ledger.

    It may when its generator says that it wrote a row of that number, and when the load did not end properly:
    then the ledger may be cut off anywhere.
    """
    if not run.complete:
        return rows.withColumn("may_be_unledgered", F.lit(True))
    written = rows.join(F.broadcast(claimed(rows.sparkSession, run)), "producer", "left")
    known = F.coalesce(F.col("seq") < F.col("written"), F.lit(False))
    return written.withColumn("may_be_unledgered", known).drop("written")


def _not_intact(records: DataFrame) -> DataFrame:
    """Return the few records without an identity or with a wrong checksum.

    The filter is written out, and not as the opposite of ``intact``, so that Spark pushes it down to
    Parquet's statistics and skips row groups that hold none.
    """
    return records.where(
        F.col("producer").isNull() | F.col("crc_ok").isNull() | (F.col("crc_ok") == F.lit(False))
    )


def _with_damage(found: DataFrame, not_intact: DataFrame) -> DataFrame:
    """Say of missing records whether their place holds them damaged, and add all others that are damaged."""
    missing = found.where(F.col("kind").isin(*_MISSING))
    rest = found.where(~F.col("kind").isin(*_MISSING))
    return rest.unionByName(_missing(missing, not_intact)).unionByName(_corrupted(missing, not_intact))


def _missing(missing: DataFrame, not_intact: DataFrame) -> DataFrame:
    """Return missing records: lost or compacted, or corrupted where their place holds no identity any more.

    Of those whose identity can still be read, in whatever place, :func:`_corrupted` speaks.
    """
    same_place = [F.col(f"m.{name}") == F.col(f"r.{name}") for name in _PLACE]
    damaged = not_intact.select(*_PLACE, *_IDENTITY, F.lit(True).alias("present"))
    readable = damaged.where(F.col("producer").isNotNull()).select(*_IDENTITY).distinct()
    rest = missing.join(readable, list(_IDENTITY), "anti")
    joined = rest.alias("m").join(damaged.alias("r"), same_place, "left").where("r.producer is null")
    kind = F.when(F.col("r.present"), F.lit("corrupted")).otherwise(F.col("m.kind")).alias("kind")
    return joined.select(kind, *(f"m.{name}" for name in missing.columns if name != "kind"))


def _corrupted(missing: DataFrame, not_intact: DataFrame) -> DataFrame:
    """Return records of the run with a wrong checksum, named after the missing record that belongs there."""
    damaged = not_intact.where(F.col("producer").isNotNull())
    same_place = [F.col(f"r.{name}") == F.col(f"m.{name}") for name in _PLACE]
    joined = damaged.alias("r").join(missing.alias("m"), same_place, "left")
    return joined.select(
        F.lit("corrupted").alias("kind"),
        *(F.coalesce(F.col(f"m.{name}"), F.col(f"r.{name}")).alias(name) for name in _IDENTITY),
        *(F.col(f"r.{name}").alias(name) for name in _PLACE),
        "m.acked_us",
        "m.found_at",
        "m.via",
        "m.instance",
    )
