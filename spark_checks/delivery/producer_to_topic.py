"""Producer to topic: the ledger against the records, exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.delivery.completeness import claimed, refuse_twice, unledgered
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import differing, digests, in_blocks
from spark_checks.engine.facts import intact, ledger_blocks, of_run, record_blocks
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly

_IDENTITY: Final = ("producer", "seq")
_PLACE: Final = ("topic", "partition", "offset")
_OUTCOMES: Final = ("acked", "failed", "unknown")
#: Places that a finding names at most.
_NAMED: Final = 5
#: The kinds of records that were acknowledged and of which there is no intact copy.
_MISSING: Final = ("lost", "compacted")
#: Findings that are no anomalies: a send without an acknowledgement that is in the topic; no evidence either
#: way; a place that holds a record again; and two that say that the evidence itself is none.
_COUNTED: Final = ("unknown_found", "compacted", "beyond_ledger", "copy", "ledger_twice", "same_place")


@dataclass(frozen=True)
class TopicHop:
    """What the first hop gave: totals, anomalies by kind, and where both sides differ.

    ``copies`` are the places (topic, partition, offset) that hold a record again, None where nothing is there
    twice; ``blocks`` are the (producer, block) in which both sides differ.
    """

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]
    copies: DataFrame | None
    blocks: Sequence[tuple[int, int]]


def topic_hop(evidence: Evidence) -> TopicHop:
    """Compare what generators sent with what the topics hold.

    Digests by producer and block of sequence numbers first; only blocks whose digests differ go through the
    exact join.

    Raises:
        EvidenceError: when the ledger holds one record twice, or the records one place twice.
    """
    run, ledger, records = evidence.run, ledger_blocks(evidence), record_blocks(evidence)
    blocks = _differing(ledger, records)
    counts = _totals(ledger, records) | {"blocks_compared_exactly": len(blocks)}
    anomalies = unledgered(evidence)
    if not blocks and not counts["damaged"]:
        return TopicHop(counts, anomalies, None, ())
    topics = of_run(evidence.need("records"), run)
    # Shuffles the rows of differing blocks, by identity.
    found = compare(
        in_blocks(evidence.need("ledger"), blocks, ["producer"], "seq"),
        in_blocks(intact(topics), blocks, ["producer"], "seq"),
        run,
    )
    if counts["damaged"] or counts["foreign"]:
        found = _explained(found.persist(), _broken(topics))
    found = evidence.shared.get("topic findings", found.persist)
    anomalies |= tally(found, [*_IDENTITY, *_PLACE])
    counted = {kind: anomalies.pop(kind, None) for kind in _COUNTED}
    refuse_twice(evidence, counted["ledger_twice"], counted["same_place"])
    counts["unknown_found_in_topic"] = (counted["unknown_found"] or Anomaly(0)).count
    for kind in ("compacted", "beyond_ledger"):
        counts[kind] = (counted[kind] or Anomaly(0)).count
    copies = found.where("kind = 'copy'").select(*_PLACE) if counted["copy"] else None
    return TopicHop(counts, anomalies, copies, blocks)


def _totals(ledger: pa.Table, records: pa.Table) -> dict[str, int]:
    def whole(table: pa.Table, name: str, where: pc.Expression | None = None) -> int:
        rows = table if where is None else table.filter(where)
        return int(pc.sum(rows[name]).as_py() or 0)

    ours = pc.field("producer").is_valid()
    return {
        "sent": whole(ledger, "records"),
        **{outcome: whole(ledger, "records", pc.field("outcome") == outcome) for outcome in _OUTCOMES},
        "expired": whole(ledger, "expired"),
        "records": whole(records, "rows", ours),
        "foreign": whole(records, "rows", ~ours),
        "damaged": whole(records, "rows", ours & ~pc.field("crc_ok")),
    }


def _differing(ledger: pa.Table, records: pa.Table) -> list[tuple[int, int]]:
    """Return the (producer, block) whose digests are not the same, or that hold a wrong key."""
    keys = ["producer", "block"]
    sound = records.filter(pc.field("producer").is_valid() & pc.field("crc_ok"))
    wrong = sound.filter(~pc.field("key_ok"))
    keyed = zip(*(wrong[key].to_pylist() for key in keys), strict=True)
    # A block of a failed send alone holds nothing that was to be there.
    return sorted(differing(digests(ledger, keys), digests(sound, keys)) | {*keyed})


def compare(ledger: DataFrame, records: DataFrame, run: Run) -> DataFrame:
    """Name what is wrong with each identity.

    Args:
        ledger: all rows of some identities.
        records: all intact records of the same identities.
        run: run.json.

    Returns:
        A row a finding: kind (those of delivery.check and :data:`_COUNTED`), producer, seq, topic, partition,
        offset (where it was acknowledged, else where it is), acked_us, found_at (all places), via, instance.
    """
    place = F.struct(*_PLACE)
    sent = ledger.groupBy(*_IDENTITY).agg(
        F.count(F.lit(1)).alias("times"),
        F.first(F.struct(place.alias("place"), "outcome", "crc", "acked_us", "via", "instance")).alias(
            "sent"
        ),
    )
    held = records.groupBy(*_IDENTITY).agg(
        F.sort_array(F.collect_list(F.struct(place.alias("place"), "crc", "key_ok"))).alias("held")
    )
    rows = sent.join(held, [*_IDENTITY], "full_outer").withColumns({
        "known": F.col("sent").isNotNull(),
        "acked": F.coalesce(F.col("sent.outcome") == "acked", F.lit(False)),
        "places": F.transform(F.coalesce("held", F.array()), lambda one: one["place"]),
        "lacking": _may_lack(run),
    })  # fmt: skip
    there, twice = F.size("places") > 0, F.size("places") > 1
    topic = F.col("sent.place.topic")
    compacted = topic.isin([one.topic for one in run.source_topics() if one.compacted])
    missing = F.col("acked") & ~there & ~_expired_place(run)
    flags = {
        "duplicated": twice,
        "ledger_twice": there & (F.col("times") > 1),
        "same_place": F.size(F.array_distinct("places")) < F.size("places"),
        "misplaced": F.col("acked") & there & ~F.array_contains("places", F.col("sent.place")),
        "corrupted": F.col("known") & F.exists("held", lambda one: one["crc"] != F.col("sent.crc")),
        "wrong_key": F.col("known") & F.exists("held", lambda one: ~one["key_ok"]),
        "unknown_found": F.col("known") & ~F.col("acked") & there,
        "unexpected": ~F.col("known") & ~F.col("lacking"),
        "beyond_ledger": ~F.col("known") & F.col("lacking"),
        "lost": missing & ~compacted,
        "compacted": missing & compacted,
    }
    kinds = F.array_compact(F.array(*(F.when(flag, F.lit(kind)) for kind, flag in flags.items())))
    home = F.coalesce(F.when(F.col("sent.place.offset").isNotNull(), F.col("sent.place")), F.col("places")[0])
    shown = rows.withColumns({"home": home, "kinds": kinds, "via": F.col("sent.via")})
    about = ("acked_us", "found_at", "via", "instance")
    found = shown.withColumns({
        "acked_us": F.when(F.col("acked"), F.col("sent.acked_us")),
        "found_at": F.when(there, F.slice("places", 1, _NAMED)),
        "instance": F.col("sent.instance"),
    })  # fmt: skip
    named = found.select(F.explode("kinds").alias("kind"), *_IDENTITY, "home.*", *about)
    # The one that counts is where it was acknowledged, else the first.
    counts = F.when(F.array_contains("places", F.col("home")), F.col("home")).otherwise(F.col("places")[0])
    again = found.where(twice).withColumn("copy", F.explode(F.array_remove("places", counts)))
    return named.unionByName(again.select(F.lit("copy").alias("kind"), *_IDENTITY, "copy.*", *about))


def _may_lack(run: Run) -> Column:
    """Return whether a record that no ledger row speaks of may have been sent.

    It may when its generator says that it wrote a row of that number, and when the load did not end properly:
    then the ledger may be cut off anywhere.
    """
    if not run.complete:
        return F.lit(True)
    written = F.lit(0).cast("long")
    for producer, records in claimed(run).items():
        written = F.when(F.col("producer") == producer, F.lit(records)).otherwise(written)
    return F.col("seq") < written


def _expired_place(run: Run) -> Column:
    """Return whether the acknowledged place of a row lies before its partition's log start."""
    gone = F.lit(False)
    for topic in run.source_topics():
        for partition, start in topic.expired_below().items():
            at = (F.col("sent.place.topic") == topic.topic) & (F.col("sent.place.partition") == partition)
            gone = gone | (at & (F.col("sent.place.offset") < start))
    return F.coalesce(gone, F.lit(False))


def _broken(records: DataFrame) -> DataFrame:
    """Return the records that are not intact, few; said so that Spark leaves out files which hold none."""
    return records.where(
        F.col("producer").isNull() | F.col("crc_ok").isNull() | (F.col("crc_ok") == F.lit(False))
    )


def _explained(found: DataFrame, broken: DataFrame) -> DataFrame:
    """Say of what is missing whether its place holds it damaged, and name what else is damaged."""
    missing = found.where(F.col("kind").isin(*_MISSING))
    rest = found.where(~F.col("kind").isin(*_MISSING))
    return rest.unionByName(_corrupted(missing, broken)).unionByName(_damaged(missing, broken))


def _corrupted(missing: DataFrame, broken: DataFrame) -> DataFrame:
    """Acknowledged, and no intact copy: lost, unless the place holds it damaged or compaction explains it."""
    home = [F.col(f"m.{name}") == F.col(f"r.{name}") for name in _PLACE]
    broken = broken.select(*_PLACE, *_IDENTITY, F.lit(True).alias("present"))
    by_name = broken.where(F.col("producer").isNotNull()).select(*_IDENTITY).distinct()
    rest = missing.join(by_name, list(_IDENTITY), "anti")
    joined = rest.alias("m").join(broken.alias("r"), home, "left").where("r.producer is null")
    kind = F.when(F.col("r.present"), F.lit("corrupted")).otherwise(F.col("m.kind")).alias("kind")
    return joined.select(kind, *(f"m.{name}" for name in missing.columns if name != "kind"))


def _damaged(missing: DataFrame, broken: DataFrame) -> DataFrame:
    """Records of the run with a wrong checksum, named after the ledger's record that belongs there."""
    broken = broken.where(F.col("producer").isNotNull())
    home = [F.col(f"r.{name}") == F.col(f"m.{name}") for name in _PLACE]
    joined = broken.alias("r").join(missing.alias("m"), home, "left")
    return joined.select(
        F.lit("corrupted").alias("kind"),
        *(F.coalesce(F.col(f"m.{name}"), F.col(f"r.{name}")).alias(name) for name in _IDENTITY),
        *(F.col(f"r.{name}").alias(name) for name in _PLACE),
        "m.acked_us",
        "m.found_at",
        "m.via",
        "m.instance",
    )
