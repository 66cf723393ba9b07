"""Topic to group: the records against the deliveries, exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.engine.blocks import Digest, differing, digests, in_blocks
from spark_checks.engine.facts import delivery_blocks, of_run, record_blocks, to_groups
from spark_checks.engine.readers import Evidence
from spark_checks.engine.runs import code_of, runs
from spark_checks.results import Anomaly

_KEYS: Final = ("group", "topic", "partition")
_CONSUMER_KEYS: Final = ("group", "consumer", "topic", "partition")
_ORDER: Final = ("group", "topic", "partition", "offset")
#: Above every offset: where a load did not end properly, its topics were read to their ends.
_NO_END: Final = (1 << 63) - 1
#: Consumers that a finding names at most.
_NAMED: Final = 5

#: group, topic, partition and number of a block of offsets.
Block = tuple[str, str, int, int]


@dataclass(frozen=True)
class GroupHop:
    """What the second hop gave: totals and anomalies by kind."""

    totals: Mapping[str, int]
    anomalies: Mapping[str, Anomaly]


def group_hop(evidence: Evidence) -> GroupHop:
    """Compare what the topics hold with what each group got.

    Digests by (group, topic, partition, block of offsets) first, the exact join for differing blocks only;
    blocks in which something was redelivered always differ.
    """
    run = evidence.run
    held, given = _digests(evidence)
    blocks = differing_blocks(evidence)
    totals = {
        "expected": sum(one.rows for one in held.values()),
        "deliveries": sum(one.rows for one in given.values()),
        "blocks_compared_exactly": len(blocks),
    }
    positions = evidence.shared.get("positions", positions_of(evidence).persist)
    anomalies = tally(rewound(positions), [*_CONSUMER_KEYS, "at_us"])
    if not blocks:
        return GroupHop(totals, anomalies)
    got = in_blocks(to_groups(evidence.need("deliveries"), run), blocks, _KEYS, "offset")
    # Shuffles the rows of differing blocks, by position.
    found = compare(in_blocks(wanted_by_groups(evidence.need("records"), run), blocks, _KEYS, "offset"), got)
    found = _explained_phantoms(found, evidence.need("ledger"), run)
    found = found if run.complete else _unknown_tail(found, got)
    found = evidence.shared.get("group findings", found.persist)
    anomalies |= tally(found, _ORDER)
    totals["not_known"] = anomalies.pop("not_known", Anomaly(0)).count
    if "undelivered" in anomalies:
        undelivered = found.where("kind = 'undelivered'").select(*_ORDER)
        anomalies |= tally(skipped(positions, undelivered), [*_ORDER, "consumer"])
    return GroupHop(totals, anomalies)


def differing_blocks(evidence: Evidence) -> list[Block]:
    """Return where deliveries are not just the records, each once. Without a records table: everywhere."""
    held, given = _digests(evidence)
    return sorted(differing(held, given))


def _digests(evidence: Evidence) -> tuple[dict[Block, Digest], dict[Block, Digest]]:
    """Return what each group must get and what it got."""
    given = digests(delivery_blocks(evidence), [*_KEYS, "block"])
    held: dict[Block, Digest] = {}
    if evidence.has("records"):
        ours = record_blocks(evidence).filter(pc.field("producer").is_valid())
        for (topic, *place), one in digests(ours, ["topic", "partition", "place_block"], "place_").items():
            for name, group in evidence.run.groups.items():
                if topic in group.topics:
                    held[name, topic, place[0], place[1]] = one
    return held, {(key[0], key[1], key[2], key[3]): one for key, one in given.items()}


def wanted_by_groups(records: DataFrame, run: Run) -> DataFrame:
    """Return (group, topic, partition, offset, producer, seq) of every record that a group must get."""
    pairs = [(name, topic) for name, group in run.groups.items() for topic in group.topics]
    groups = records.sparkSession.createDataFrame(pairs or [("", "")], "group string, topic string")
    mine = of_run(records, run).where(F.col("producer").isNotNull())
    return mine.join(F.broadcast(groups), "topic", "inner").select(*_ORDER, "producer", "seq")


def compare(wanted: DataFrame, got: DataFrame) -> DataFrame:
    """Name what is wrong with each position.

    Args:
        wanted: the records of some positions: :data:`_ORDER`, producer, seq.
        got: the deliveries of the same positions, with consumer.

    Returns:
        A row a finding: kind, :data:`_ORDER`, producer, seq, delivered (another identity than the topic
        holds), consumers, times (how often it was delivered), _times (how often the finding counts).
    """
    who = F.struct("producer", "seq")
    ours = wanted.select(*_ORDER, who.alias("ours"))
    theirs = got.groupBy(*_ORDER).agg(
        F.sort_array(F.collect_list(who)).alias("who"),
        F.slice(F.sort_array(F.collect_set("consumer")), 1, _NAMED).alias("consumers"),
    )
    rows = ours.join(theirs, [*_ORDER], "full_outer").withColumn(
        "times", F.size(F.coalesce("who", F.array()))
    )
    other = F.exists("who", lambda one: one != F.col("ours"))
    flags = {
        "undelivered": F.col("times") == 0,
        "redelivered": F.col("times") > 1,
        "mismatched": F.col("ours").isNotNull() & other,
        "phantom": F.col("ours").isNull(),
    }
    kinds = F.array_compact(F.array(*(F.when(flag, F.lit(kind)) for kind, flag in flags.items())))
    again = F.when(F.col("kind") == "redelivered", F.col("times") - 1).otherwise(F.lit(1))
    return (
        rows.withColumns({
            "kind": F.explode(kinds),
            "who_shown": F.coalesce("ours", F.array_min("who")),
            "delivered": F.when(F.col("ours").isNotNull() & other, F.array_max("who")),
        })
        .withColumn("_times", again)
        .select(
            "kind",
            *_ORDER,
            "who_shown.*",
            "delivered",
            "consumers",
            F.when(F.col("times") > 0, F.col("times")).alias("times"),
            "_times",
        )
    )  # fmt: skip


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
    rest = rows.where(~(phantom & outside)).drop("start", "end", "compacted").persist()
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
            topic.end_offsets.get(partition, _NO_END),
            topic.compacted,
        )
        for topic in run.source_topics()
        for partition, first in topic.start_offsets.items()
    ]
    return spark.createDataFrame(rows, "topic string, partition int, start long, end long, compacted boolean")


def _unknown_tail(rows: DataFrame, got: DataFrame) -> DataFrame:
    """The load did not end properly: past a group's last known delivery there is no evidence either way."""
    last = got.groupBy(*_KEYS).agg(F.max("offset").alias("last"))
    late = (F.col("kind") == "undelivered") & (F.col("offset") > F.coalesce("last", F.lit(-1)))
    kind = F.when(late, F.lit("not_known")).otherwise(F.col("kind"))
    return rows.join(last, [*_KEYS], "left").withColumn("kind", kind).drop("last")


def positions_of(evidence: Evidence) -> DataFrame:
    """Return the deliveries as runs of consecutive positions of one consumer in one partition.

    A run without holes cannot hide what another file holds of the same time.

    Returns:
        group, consumer, topic, partition, and the columns of :func:`runs`: by time (us) and offset.
    """
    got = to_groups(evidence.need("deliveries"), evidence.run)
    # Those who received are known already: finding them again would read all deliveries once more.
    known = delivery_blocks(evidence).group_by([*_CONSUMER_KEYS]).aggregate([]).to_pylist()
    schema = got.select(*_CONSUMER_KEYS).schema
    names = got.sparkSession.createDataFrame([tuple(row.values()) for row in known], schema)
    names = names.withColumn("code", code_of(_CONSUMER_KEYS))
    found = runs(got, _CONSUMER_KEYS, "received_us", "offset", consecutive=True)
    return found.join(F.broadcast(names), "code", "inner")


def rewound(positions: DataFrame) -> DataFrame:
    """Return where a consumer's position went back within a partition: from_offset, offset, at_us."""
    return positions.where("first_value <= before_value").select(
        F.lit("rewound").alias("kind"),
        *_CONSUMER_KEYS,
        F.col("before_value").alias("from_offset"),
        F.col("first_value").alias("offset"),
        F.col("first_order").alias("at_us"),
    )


def skipped(positions: DataFrame, undelivered: DataFrame) -> DataFrame:
    """Return where a consumer's position jumped over records that its group never got.

    Args:
        positions: as :func:`positions_of` returns them.
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
    jumps = positions.where("first_value > before_value + 1")
    over = F.col("hole").between(F.col("before_value") + 1, F.col("first_value") - 1)
    return (
        jumps.join(holes, [*_KEYS], "inner")
        .where(over)
        .groupBy(
            *_CONSUMER_KEYS, F.col("before_value").alias("from_offset"), F.col("first_value").alias("offset")
        )
        .agg(F.min("first_order").alias("at_us"), F.sum("records").alias("undelivered"))
        .withColumn("kind", F.lit("skipped"))
    )
