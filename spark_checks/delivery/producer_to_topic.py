"""Producer to topic: the ledger against the records, exact."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.delivery.completeness import claimed, refuse_twice, unledgered
from spark_checks.delivery.record_anomalies import LEDGER, MISSING, RECORDS, SCHEMA, Told, judged
from spark_checks.engine.anomalies import block, in_blocks, tally
from spark_checks.engine.facts import facts, intact_of, of_run
from spark_checks.engine.one_pass import FEW, NOTHING, SMALL, Folded, Sum, few, finer, in_parts, sum_of
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly

_IDENTITY = ("producer", "seq")
_HOME = ("topic", "partition", "offset")
_OUTCOMES = ("acked", "failed", "unknown")


@dataclass(frozen=True)
class TopicHop:
    """What the first hop gave: totals, anomalies by kind, and what is in the topics beside what should be.

    ``copies`` are the places (topic, partition, offset) that hold a record again, ``beside`` counts the
    intact records that are no acknowledged one's first copy, ``blocks`` are the (producer, block) in which
    both sides differ.
    """

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]
    copies: DataFrame | pa.Table | None
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


def told(run: Run) -> Told:
    """Return what the exact comparison has to know of the run."""
    topics = run.source_topics()
    return Told(
        claimed(run),
        run.complete,
        frozenset(topic.topic for topic in topics if topic.compacted),
        {(t.topic, partition): start for t in topics for partition, start in t.expired_below().items()},
    )


def topic_hop(evidence: Evidence) -> TopicHop:
    """Compare what generators sent with what the topics hold.

    Both sides are folded into sums by producer and block of sequence numbers; only blocks whose sums differ
    go through the exact join.

    Raises:
        EvidenceError: when the ledger holds one record twice, or the records one place twice.
    """
    counts, blocks, rows = _counted(facts(evidence))
    anomalies = unledgered(evidence)
    copies = None
    beside = 0
    if blocks or counts["damaged"]:
        found = compare(evidence, blocks, rows)
        if counts["damaged"] or counts["foreign"]:
            if isinstance(found, pa.Table):
                found = evidence.session().createDataFrame(found if len(found) else [], SCHEMA)
            records = of_run(evidence.need("records"), evidence.run)
            found = _explained(found, _broken(records)).persist()
        anomalies |= tally(found, ["producer", "seq", *_HOME])
        refuse_twice(evidence, anomalies.pop("ledger_twice", None), anomalies.pop("same_place", None))
        counts["unknown_found_in_topic"] = anomalies.pop("unknown_found", Anomaly(0)).count
        for kind in ("compacted", "beyond_ledger"):
            counts[kind] = anomalies.pop(kind, Anomaly(0)).count
        again = anomalies.pop("copy", Anomaly(0)).count
        beside = counts["unknown_found_in_topic"] + counts["beyond_ledger"] + again
        beside += anomalies["unexpected"].count if "unexpected" in anomalies else 0
        if again:
            copies = _places(found, again)
    return TopicHop(counts, anomalies, copies, beside, blocks)


def _counted(parts: Folded) -> tuple[dict[str, int], list[tuple[int, int]], int]:
    """Return totals, the (producer, block) whose sums are not the same or that hold a wrong key, and how many
    rows these have.
    """
    counts = dict.fromkeys(("sent", *_OUTCOMES, "expired", "records", "foreign", "damaged"), 0)
    ours: dict[tuple[int, int], Sum] = defaultdict(Sum)
    theirs: dict[tuple[int, int], Sum] = defaultdict(Sum)
    wrong: set[tuple[int, int]] = set()
    all_rows: Counter[tuple[int, int]] = Counter()
    for row in parts.rows("sent"):
        counts["sent"] += row["rows"]
        all_rows[row["producer"], row["block"]] += row["rows"]
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
        all_rows[row["producer"], row["block"]] += row["rows"]
        if not row["crc_ok"]:
            counts["damaged"] += row["rows"]
        else:
            theirs[row["producer"], row["block"]] += sum_of(row)
            if row["key_ok"] is False:
                wrong.add((row["producer"], row["block"]))
    unlike = {key for key in {*ours, *theirs} if ours.get(key, NOTHING) != theirs.get(key, NOTHING)}
    blocks = sorted(unlike | wrong)
    counts["blocks_compared_exactly"] = len(blocks)
    return counts, blocks, sum(all_rows[key] for key in blocks)


def compare(evidence: Evidence, blocks: Sequence[tuple[int, int]], rows: int) -> DataFrame | pa.Table:
    """Hold ledger and intact records of some (producer, block) against each other: ``judged`` says how.

    Few rows come here, as an Arrow table; many are shuffled by their block, and a DataFrame is returned.
    Where tasks open the files, only those parts of the blocks come that differ: the rest is as it should be.

    Args:
        evidence: ledger, records and run.json.
        blocks: which of them.
        rows: how many rows they have on both sides together.
    """
    run = evidence.run
    said = told(run)
    numbers = {number for _, number in blocks}
    parts = finer(evidence, "seq", numbers) if numbers else None
    if parts is not None:
        differing = _counted(parts)[1]
        who, fine = ({pair[at] for pair in differing} for at in (0, 1))
        if differing and len(who) * len(fine) <= FEW:
            near = in_parts("seq", fine) & pc.field("producer").isin(sorted(who))
            where = {"ledger": near, "records": near & intact_of(run)}
            found = few(evidence, where, {"ledger": LEDGER, "records": RECORDS})
            return judged(found["ledger"], found["records"], said)
    records = intact(of_run(evidence.need("records"), run))
    ours = in_blocks(evidence.need("ledger"), blocks, ["producer"], "seq").select(*LEDGER)
    theirs = in_blocks(records, blocks, ["producer"], "seq").select(*RECORDS)
    if rows <= SMALL:
        return judged(ours.toArrow(), theirs.toArrow(), said)
    one, two = (side.groupBy(F.col("producer"), block("seq")) for side in (ours, theirs))
    whole = one.cogroup(two).applyInArrow(lambda ledger, records: judged(ledger, records, said), SCHEMA)
    return whole.persist()


def _places(found: DataFrame | pa.Table, count: int) -> DataFrame | pa.Table:
    """Return the places that hold a record again, as an Arrow table where they are few."""
    if isinstance(found, pa.Table):
        return found.filter(pc.field("kind") == "copy").select(list(_HOME))
    copies = found.where("kind = 'copy'").select(*_HOME)
    return copies.toArrow() if count <= SMALL else copies


def _broken(records: DataFrame) -> DataFrame:
    """Return the records that are not intact, few; said so that Spark leaves out files which hold none."""
    return records.where(
        F.col("producer").isNull() | F.col("crc_ok").isNull() | (F.col("crc_ok") == F.lit(False))
    )


def _explained(found: DataFrame, broken: DataFrame) -> DataFrame:
    """Say of what is missing whether its place holds it damaged, and name what else is damaged."""
    missing = found.where(F.col("kind").isin(*MISSING))
    rest = found.where(~F.col("kind").isin(*MISSING))
    return rest.unionByName(_corrupted(missing, broken)).unionByName(_damaged(missing, broken))


def _corrupted(missing: DataFrame, broken: DataFrame) -> DataFrame:
    """Acknowledged, and no intact copy: lost, unless the place holds it damaged or compaction explains it."""
    home = [F.col(f"m.{name}") == F.col(f"r.{name}") for name in _HOME]
    broken = broken.select(*_HOME, *_IDENTITY, F.lit(True).alias("present"))
    by_name = broken.where(F.col("producer").isNotNull()).select(*_IDENTITY).distinct()
    rest = missing.join(by_name, list(_IDENTITY), "anti")
    joined = rest.alias("m").join(broken.alias("r"), home, "left").where("r.producer is null")
    kind = F.when(F.col("r.present"), F.lit("corrupted")).otherwise(F.col("m.kind")).alias("kind")
    return joined.select(kind, *(f"m.{name}" for name in missing.columns if name != "kind"))


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
        "m.found_at",
        "m.via",
        "m.instance",
    )
