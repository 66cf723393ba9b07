"""Topic to group: the records against what each group's consumers received (the deliveries), exactly.

:func:`group_hop` compares digests, block by block of offsets. :func:`classify` joins the rows of blocks that
differ. Positions of consumers (:func:`rewound`, :func:`skipped`) are looked at whether blocks differ or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError
from kedge.evidence.run import Run
from spark_checks.engine.anomalies import kinds, tally
from spark_checks.engine.blocks import Blocks, compared, in_blocks, kept
from spark_checks.engine.facts import deliveries_by, of_run, records_by, to_groups
from spark_checks.engine.files import shown
from spark_checks.engine.ordered_runs import code_of, runs
from spark_checks.engine.readers import Evidence
from spark_checks.engine.spark_types import local_rows
from spark_checks.results import Anomaly

_KEYS: Final = ("group", "topic", "partition")
_CONSUMER_KEYS: Final = ("group", "consumer", "topic", "partition")
_ORDER: Final = ("group", "topic", "partition", "offset")
#: Above every offset: where a load did not end properly, its topics were read to their ends.
_NO_END: Final = (1 << 63) - 1
#: Consumers that a finding lists at most.
_CONSUMERS_SHOWN: Final = 5


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
    blocks = differing_blocks(evidence)
    sides = {"expected": _expected(evidence), "deliveries": _delivered(evidence)}
    totals = {**_rows(sides), "blocks_compared_exactly": blocks.count}
    positions = evidence.shared.get("positions", positions_of(evidence).persist)
    anomalies = tally(rewound(positions), [*_CONSUMER_KEYS, "at_us"])
    if not blocks.count:
        return GroupHop(totals, anomalies)
    files = evidence.need("deliveries").withColumn("file", F.input_file_name())
    got = in_blocks(to_groups(files, run), blocks, "offset")
    # Shuffles the rows of differing blocks, by position.
    expected_rows = in_blocks(expected_by_groups(evidence.need("records"), run), blocks, "offset")
    found = classify(expected_rows, got)
    found = _without_explained_phantoms(found, evidence.need("ledger"), run)
    found = found if run.complete else _unknown_tail(found, got)
    found = evidence.shared.get("group findings", found.persist)
    anomalies |= tally(found, _ORDER)
    if "redelivered" in anomalies:
        _refuse_copies(got)
    totals["not_known"] = anomalies.pop("not_known", Anomaly(0)).count
    if "undelivered" in anomalies:
        undelivered = found.where("kind = 'undelivered'").select(*_ORDER)
        anomalies |= tally(skipped(positions, undelivered), [*_ORDER, "consumer"])
    return GroupHop(totals, anomalies)


def _refuse_copies(got: DataFrame) -> None:
    """Refuse one delivery in two files: a record that came twice came at two times, or in one batch.

    Raises:
        EvidenceError: naming both.
    """
    of = F.min("file").alias("file"), F.max("file").alias("other")
    # Shuffles the deliveries of differing blocks once more, where any came again.
    twice = got.groupBy(*_ORDER, "consumer", "received_us").agg(*of).where("file < other").first()
    if twice is not None:
        place = f"{twice['topic']}-{twice['partition']} offset {twice['offset']}"
        raise EvidenceError(
            f"{shown(twice['file'])} and {shown(twice['other'])}: {place} is in both, received by "
            f"{twice['consumer']} at the same time; is one a copy? remove it"
        )


def differing_blocks(evidence: Evidence) -> Blocks:
    """Return where deliveries are not just the records, each once. Without a records table: everywhere."""
    return evidence.shared.get(
        "group blocks", lambda: kept(compared(_expected(evidence), _delivered(evidence), _KEYS), _KEYS)
    )


def _expected(evidence: Evidence) -> DataFrame:
    """Return the digests of what each group must get."""
    if not evidence.has("records"):
        return _delivered(evidence).where(F.lit(False))
    of_load = records_by(evidence, "topic", "partition", "place_block", "ours").where("ours")
    parts = {"place_block": "block", **{f"place_{part}": part for part in ("rows", "one", "two")}}
    of_load = of_load.select("topic", "partition", *(F.col(name).alias(to) for name, to in parts.items()))
    return of_load.join(F.broadcast(_groups(evidence.session, evidence.run)), "topic", "inner")


def _delivered(evidence: Evidence) -> DataFrame:
    """Return the digests of what each group got."""
    return deliveries_by(evidence, *_KEYS, "block")


def _rows(digests: Mapping[str, DataFrame]) -> dict[str, int]:
    """Return how many rows several digests are of, by name."""
    named = [one.select(F.lit(name).alias("name"), "rows") for name, one in digests.items()]
    sums = reduce(DataFrame.unionByName, named).groupBy("name").agg(F.sum("rows").alias("rows")).collect()
    return dict.fromkeys(digests, 0) | {row["name"]: row["rows"] for row in sums}


def _groups(spark: SparkSession, run: Run) -> DataFrame:
    """Return each group with each of its topics."""
    pairs = [(name, topic) for name, group in run.groups.items() for topic in group.topics]
    return local_rows(spark, pairs or [("", "")], "group string, topic string")


def expected_by_groups(records: DataFrame, run: Run) -> DataFrame:
    """Return (group, topic, partition, offset, producer, seq) of every record that a group must get."""
    of_load = of_run(records, run).where(F.col("producer").isNotNull())
    groups = F.broadcast(_groups(records.sparkSession, run))
    return of_load.join(groups, "topic", "inner").select(*_ORDER, "producer", "seq")


def classify(expected: DataFrame, got: DataFrame) -> DataFrame:
    """Say what is wrong with each position.

    Args:
        expected: the records of some positions: :data:`_ORDER`, producer, seq.
        got: the deliveries of the same positions, with consumer.

    Returns:
        A row a finding: kind, :data:`_ORDER`, producer, seq, delivered (another identity than the topic
        holds), consumers, times (how often it was delivered), _times (how often the finding counts).
    """
    identity = F.struct("producer", "seq")
    # One row a position on each side: ``held`` is what the topic holds there, ``received`` all that consumers
    # got from there. Either is null where that side has nothing.
    held = expected.select(*_ORDER, identity.alias("held"))
    received = got.groupBy(*_ORDER).agg(
        F.sort_array(F.collect_list(identity)).alias("received"),
        F.slice(F.sort_array(F.collect_set("consumer")), 1, _CONSUMERS_SHOWN).alias("consumers"),
    )
    rows = held.join(received, [*_ORDER], "full_outer").withColumn(
        "times", F.size(F.coalesce("received", F.array()))
    )
    mismatched = F.col("held").isNotNull() & F.exists("received", lambda one: one != F.col("held"))
    flags = {
        "undelivered": F.col("times") == 0,
        "redelivered": F.col("times") > 1,
        "mismatched": mismatched,
        "phantom": F.col("held").isNull(),
    }
    # Of three deliveries of a record two are redeliveries.
    counted = F.when(F.col("kind") == "redelivered", F.col("times") - 1).otherwise(F.lit(1))
    return (
        rows.withColumns({
            "kind": F.explode(kinds(flags)),
            "identity": F.coalesce("held", F.array_min("received")),
            "delivered": F.when(mismatched, F.array_max("received")),
        })
        .withColumn("_times", counted)
        .select(
            "kind",
            *_ORDER,
            "identity.*",
            "delivered",
            "consumers",
            F.when(F.col("times") > 0, F.col("times")).alias("times"),
            "_times",
        )
    )  # fmt: skip


def _without_explained_phantoms(rows: DataFrame, ledger: DataFrame, run: Run) -> DataFrame:
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
    acked = ledger.where(F.col("outcome") == "acked").select(*place)
    # The ledger is large and the phantoms are few, so that Spark broadcasts them; if not, it shuffles both.
    lost = acked.join(places, place, "semi")
    real = rest.where(phantom).join(lost, place, "anti")
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
    return local_rows(spark, rows, "topic string, partition int, start long, end long, compacted boolean")


def _unknown_tail(rows: DataFrame, got: DataFrame) -> DataFrame:
    """The load did not end properly: past a group's last known delivery there is no evidence either way."""
    last = got.groupBy(*_KEYS).agg(F.max("offset").alias("last"))
    late = (F.col("kind") == "undelivered") & (F.col("offset") > F.coalesce("last", F.lit(-1)))
    kind = F.when(late, F.lit("not_known")).otherwise(F.col("kind"))
    return rows.join(last, [*_KEYS], "left").withColumn("kind", kind).drop("last")


def positions_of(evidence: Evidence) -> DataFrame:
    """Return the deliveries as stretches of consecutive positions of one consumer in one partition.

    Consecutive, and not just ascending: what a file lacks in the middle of a stretch may lie in another file.

    Returns:
        group, consumer, topic, partition, and the columns of :func:`runs`: by time (us) and offset.
    """
    got = to_groups(evidence.need("deliveries"), evidence.run)
    # Stretches have a code in the place of the keys. The keys were counted already: finding them again would
    # read all deliveries once more.
    known = deliveries_by(evidence, *_CONSUMER_KEYS).select(*_CONSUMER_KEYS)
    found = runs(got, _CONSUMER_KEYS, "received_us", "offset", consecutive=True)
    return found.join(known.withColumn("code", code_of(_CONSUMER_KEYS)), "code", "inner")


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
        undelivered: (group, topic, partition, offset).
    """
    jumped = positions.where("first_value > before_value + 1").select(
        *_CONSUMER_KEYS,
        F.col("before_value").alias("from_offset"),
        F.col("first_value").alias("offset"),
        F.col("first_order").alias("at_us"),
    )
    # Both ends of a jump among what is undelivered: how much lies before each says how much is between them.
    # Shuffles both by partition of a topic.
    ends = jumped.withColumn("at", F.explode(F.array("from_offset", "offset")))
    holes = undelivered.select(*_KEYS, F.col("offset").alias("at"), F.lit(1).alias("hole"))
    so_far = (
        Window.partitionBy(*_KEYS).orderBy("at").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        ends.unionByName(holes, allowMissingColumns=True)
        .withColumn("holes", F.count("hole").over(so_far))
        .where("hole is null")
        .groupBy(*_CONSUMER_KEYS, "from_offset", "offset")
        .agg(F.min("at_us").alias("at_us"), (F.max("holes") - F.min("holes")).alias("undelivered"))
        .where("undelivered > 0")
        .withColumn("kind", F.lit("skipped"))
    )
