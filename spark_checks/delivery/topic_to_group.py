"""Topic to group: the records against the deliveries, exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.engine.anomalies import add, examples, in_blocks, tally
from spark_checks.engine.facts import of_run, to_groups
from spark_checks.engine.folded import FEW, NOTHING, Folded, Sum, few, finer, folded, in_parts, sum_of
from spark_checks.engine.readers import Evidence
from spark_checks.engine.schemas import TABLES
from spark_checks.engine.sequences import SCHEMA, folder
from spark_checks.results import Anomaly

_KEYS = ["group", "topic", "partition"]
_POSITION_KEYS = ["group", "consumer", "topic", "partition"]
_ORDER = ["group", "topic", "partition", "offset"]
#: Above every offset: where a load did not end properly, its topics were read to their ends.
NO_END = (1 << 63) - 1

#: group, topic, partition and number of a block of offsets.
Block = tuple[str, str, int, int]


@dataclass(frozen=True)
class GroupHop:
    """What the second hop gave: totals and anomalies by kind."""

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]


def group_hop(evidence: Evidence) -> GroupHop:
    """Compare what the topics hold with what each group got.

    Sums by (group, topic, partition, block of offsets) first, the exact join for differing blocks only;
    blocks in which something was redelivered always differ.
    """
    run, ledger = evidence.run, evidence.need("ledger")
    got = to_groups(evidence.need("deliveries"), run)
    held, given = _blocks(folded(evidence), run)
    blocks = differing_blocks(evidence)
    totals = {
        "expected": sum(one.rows for one in held.values()),
        "deliveries": sum(one.rows for one in given.values()),
        "blocks_compared_exactly": len(blocks),
    }
    anomalies: dict[str, Anomaly] = {}
    if blocks:
        matched = compare(*_rows_of(evidence, blocks)).persist()
        found = findings(matched, ledger, run).persist()
        anomalies = tally(found, _ORDER)
        totals["not_known"] = anomalies.pop("not_known", Anomaly(0)).count
        if "undelivered" in anomalies:
            undelivered = found.where("kind = 'undelivered'").select(*_ORDER)
            anomalies |= tally(skipped(got, undelivered), [*_ORDER, "consumer"])
        found.unpersist()
        matched.unpersist()
    return GroupHop(totals, anomalies | rewinds(evidence))


def differing_blocks(evidence: Evidence) -> list[Block]:
    """Return the (group, topic, partition, block) in which deliveries are not just the records, each once.

    Without a records table every block is one.
    """
    held, given = _blocks(folded(evidence), evidence.run)
    return sorted(given) if evidence.table("records") is None else _unlike(held, given)


def _unlike(held: Mapping[Block, Sum], given: Mapping[Block, Sum]) -> list[Block]:
    return sorted(key for key in {*held, *given} if held.get(key, NOTHING) != given.get(key, NOTHING))


def _rows_of(evidence: Evidence, blocks: Sequence[Block]) -> tuple[DataFrame, DataFrame]:
    """Return what groups must get and what they got of these blocks.

    Where these are few, only of those parts of them that differ: the rest of a block is as it should be. Of a
    load that did not end properly the whole blocks, since the last delivery in them tells what is known.
    """
    run = evidence.run
    parts = finer(evidence, "offset", {block[-1] for block in blocks}) if run.complete else None
    if parts is not None:
        fine = {block[-1] for block in _unlike(*_blocks(parts, run))}
        if len(fine) <= FEW:
            near = in_parts("offset", fine)
            found = few(evidence, {"records": near, "deliveries": near})
            records, got = (_frame(evidence, name, rows) for name, rows in found.items())
            return wanted_by_groups(records, run), to_groups(got, run)
    places = sorted({block[1:] for block in blocks})
    records = in_blocks(evidence.need("records"), places, _KEYS[1:], "offset")
    got = to_groups(evidence.need("deliveries"), run)
    return (
        in_blocks(wanted_by_groups(records, run), blocks, _KEYS, "offset"),
        in_blocks(got, blocks, _KEYS, "offset"),
    )


def _frame(evidence: Evidence, name: str, rows: pa.Table) -> DataFrame:
    """Return rows of a table as one partition; of no rows no pieces could be made."""
    whole = rows.combine_chunks() if rows.num_rows else []
    return evidence.need(name).sparkSession.createDataFrame(whole, TABLES[name])


def _blocks(parts: Folded, run: Run) -> tuple[dict[Block, Sum], dict[Block, Sum]]:
    """Return what each group must get and what it got, by (group, topic, partition, block)."""
    held: dict[Block, Sum] = defaultdict(Sum)
    given: dict[Block, Sum] = defaultdict(Sum)
    for row in parts.rows("places"):
        for name, group in run.groups.items():
            if row["topic"] in group.topics:
                held[name, row["topic"], row["partition"], row["block"]] += sum_of(row)
    for row in parts.rows("given"):
        given[row["group"], row["topic"], row["partition"], row["block"]] += sum_of(row)
    return dict(held), dict(given)


def wanted_by_groups(records: DataFrame, run: Run) -> DataFrame:
    """Return (group, topic, partition, offset, producer, seq) of every record that a group must get."""
    pairs = [(name, topic) for name, group in run.groups.items() for topic in group.topics]
    groups = records.sparkSession.createDataFrame(pairs or [("", "")], "group string, topic string")
    mine = of_run(records, run).where(F.col("producer").isNotNull())
    return mine.join(F.broadcast(groups), "topic", "inner").select(*_ORDER, "producer", "seq")


def compare(wanted: DataFrame, got: DataFrame) -> DataFrame:
    """Join records and deliveries by position; shuffles both, so give it differing blocks only.

    Returns:
        A row a group and position: ``held`` (identity in the topic), ``least`` and ``most`` (identities
        delivered), ``copies``, ``consumers``, ``last_us``.
    """
    who = F.struct("producer", "seq")
    given = got.groupBy(*_ORDER).agg(
        F.count(F.lit(1)).alias("copies"),
        F.min(who).alias("least"),
        F.max(who).alias("most"),
        F.slice(F.sort_array(F.collect_set("consumer")), 1, 5).alias("consumers"),
        F.max("received_us").alias("last_us"),
    )
    return wanted.select(*_ORDER, who.alias("held")).join(given, _ORDER, "full")


def findings(matched: DataFrame, ledger: DataFrame, run: Run) -> DataFrame:
    """Name what is wrong with each position (columns ``kind``, place, identity, consumers)."""
    held, given = F.col("held").isNotNull(), F.col("copies").isNotNull()
    mismatch = held & given & ((F.col("least") != F.col("held")) | (F.col("most") != F.col("held")))
    flags = {
        "undelivered": held & ~given,
        "redelivered": F.coalesce(F.col("copies"), F.lit(0)) > 1,
        "mismatched": mismatch,
        "phantom": given & ~held,
    }
    kinds = F.array_compact(F.array(*(F.when(flag, F.lit(kind)) for kind, flag in flags.items())))
    rows = matched.select(
        F.explode(kinds).alias("kind"),
        *_ORDER,
        F.coalesce(F.col("held"), F.col("least")).alias("identity"),
        F.when(mismatch, F.col("most")).alias("delivered"),
        "consumers",
        F.col("copies").alias("times"),
    )
    rows = _explained_phantoms(rows, ledger, run)
    if not run.complete:
        rows = _unknown_tail(rows, matched)
    return rows.select(
        "kind",
        *_ORDER,
        "identity.producer",
        "identity.seq",
        "delivered",
        "consumers",
        "times",
        F.when(F.col("kind") == "redelivered", F.col("times") - 1).otherwise(1).alias("_times"),
    )


def _explained_phantoms(rows: DataFrame, ledger: DataFrame, run: Run) -> DataFrame:
    """Drop deliveries without a record that the first hop or the run's bounds account for.

    An acknowledged place without its record is a loss already; places before the log start or outside of
    the run's range, and in compacted topics, say nothing.
    """
    ranges = F.broadcast(_ranges(rows.sparkSession, run))
    rows = rows.join(ranges, ["topic", "partition"], "left")
    beyond = (F.col("offset") < F.col("start")) | (F.col("offset") >= F.col("end"))
    outside = F.coalesce(F.col("compacted") | beyond, F.lit(False))
    phantom = F.col("kind") == "phantom"
    rest = rows.where(~(phantom & outside)).drop("start", "end", "compacted")
    place = ["topic", "partition", "offset"]
    places = rest.where(phantom).select(*place).distinct().persist()
    if places.isEmpty():
        return rest.where(~phantom)
    homes = ledger.where(F.col("outcome") == "acked").select(*place)
    # The ledger is large and the phantoms are few: broadcast them, not it.
    homes = homes.join(F.broadcast(places), place, "semi")
    real = rest.where(phantom).join(F.broadcast(homes), place, "anti")
    return rest.where(~phantom).unionByName(real)


def _ranges(spark: SparkSession, run: Run) -> DataFrame:
    """Return the run's range of each partition (topic, partition, start, end or null, compacted)."""
    rows = [
        (
            topic.topic,
            partition,
            max(first, topic.log_start_offsets.get(partition, 0)),
            topic.end_offsets.get(partition, NO_END),
            topic.compacted,
        )
        for topic in run.source_topics()
        for partition, first in topic.start_offsets.items()
    ]
    return spark.createDataFrame(rows, "topic string, partition int, start long, end long, compacted boolean")


def _unknown_tail(rows: DataFrame, matched: DataFrame) -> DataFrame:
    """The load did not end properly: past a group's last known delivery there is no evidence either way."""
    last = matched.where(F.col("copies").isNotNull()).groupBy(*_KEYS).agg(F.max("offset").alias("last"))
    late = (F.col("kind") == "undelivered") & (F.col("offset") > F.coalesce("last", F.lit(-1)))
    kind = F.when(late, F.lit("not_known")).otherwise(F.col("kind"))
    return rows.join(last, _KEYS, "left").withColumn("kind", kind).drop("last")


def rewinds(evidence: Evidence) -> dict[str, Anomaly]:
    """Find where a consumer's position went back within a partition: from_offset, offset, at_us.

    What each task saw of a consumer's time in a partition follows on what another saw, mostly: then the
    places where it went back are those within them and those between them. Where two overlap in time, their
    rows are sorted.
    """
    parts = folded(evidence)
    apart: list[dict[str, Any]] = []
    mixed: set[tuple[Any, ...]] = set()
    by_consumer: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for one in parts.rows("polls"):
        by_consumer[tuple(one[key] for key in _POSITION_KEYS)].append(one)
    for key, polls in by_consumer.items():
        polls.sort(key=lambda one: (one["from_us"], one["first_offset"]))
        for before, after in pairwise(polls):
            back = after["first_offset"] <= before["last_offset"]
            if after["from_us"] < before["to_us"] or (back and after["from_us"] == before["to_us"]):
                mixed.add(key)
            elif back:
                places = {"from_offset": before["last_offset"], "offset": after["first_offset"]}
                apart.append(
                    dict(zip(_POSITION_KEYS, key, strict=True)) | places | {"at_us": after["from_us"]}
                )
    apart += parts.rows("rewinds")
    found = [one for one in apart if tuple(one[key] for key in _POSITION_KEYS) not in mixed]
    found.sort(key=lambda one: tuple(one[name] for name in (*_POSITION_KEYS, "at_us")))
    told = {"rewound": Anomaly(len(found), tuple(found[: examples()]))} if found else {}
    if not mixed:
        return told
    got = to_groups(evidence.need("deliveries"), evidence.run)
    schema = got.select(*_POSITION_KEYS).schema
    asked = got.sparkSession.createDataFrame(sorted(mixed), schema)
    theirs = rewound(got.join(F.broadcast(asked), _POSITION_KEYS, "semi"))
    return add(told, tally(theirs, [*_POSITION_KEYS, "at_us"]))


def rewound(got: DataFrame) -> DataFrame:
    """Return where a consumer's position went back within a partition: from_offset, offset, at_us."""
    window = Window.partitionBy(*_POSITION_KEYS).orderBy("first_order", "first_value")
    back = _positions(got).withColumn("from_offset", F.lag("last_value").over(window))
    return back.where(F.col("first_value") <= F.col("from_offset")).select(
        F.lit("rewound").alias("kind"),
        *_POSITION_KEYS,
        "from_offset",
        F.col("first_value").alias("offset"),
        F.col("first_order").alias("at_us"),
    )


def skipped(got: DataFrame, undelivered: DataFrame) -> DataFrame:
    """Return where a consumer's position jumped over records that its group never got.

    Args:
        got: deliveries.
        undelivered: (group, topic, partition, offset), few.
    """
    by_place = Window.partitionBy(*_KEYS).orderBy("offset")
    island = F.col("offset") - F.row_number().over(by_place)
    holes = (
        undelivered.withColumn("_island", island)
        .groupBy(*_KEYS, "_island")
        .agg(F.min("offset").alias("hole"), F.count(F.lit(1)).alias("records"))
        .drop("_island")
    )
    touched = F.broadcast(undelivered.select(*_KEYS).distinct())
    by_time = Window.partitionBy(*_POSITION_KEYS).orderBy("first_order", "first_value")
    jumps = (
        _positions(got.join(touched, _KEYS, "semi"))
        .withColumn("from_offset", F.lag("last_value").over(by_time))
        .where(F.col("first_value") > F.col("from_offset") + 1)
    )
    over = F.col("hole").between(F.col("from_offset") + 1, F.col("first_value") - 1)
    return (
        jumps.join(holes, _KEYS, "inner")
        .where(over)
        .groupBy(*_POSITION_KEYS, "from_offset", F.col("first_value").alias("offset"))
        .agg(F.min("first_order").alias("at_us"), F.sum("records").alias("undelivered"))
        .withColumn("kind", F.lit("skipped"))
    )


def _positions(got: DataFrame) -> DataFrame:
    """Fold deliveries into runs of consecutive positions of one consumer in one partition.

    A run without holes cannot hide what another file holds of the same time.
    """
    code = F.xxhash64(*_POSITION_KEYS).alias("code")
    names = got.select(code, *_POSITION_KEYS).distinct()
    runs = got.select(code, "received_us", "offset").mapInArrow(folder(consecutive=True), SCHEMA)
    return runs.join(F.broadcast(names), "code", "inner")
