"""Topic to group: the records against the deliveries, exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.delivery.positions import SCHEMA as POSITIONS
from spark_checks.delivery.positions import judged
from spark_checks.engine.anomalies import add, block, examples, in_blocks, tally
from spark_checks.engine.facts import facts, given_to, of_run, to_groups
from spark_checks.engine.one_pass import FEW, NOTHING, Folded, Sum, few, finer, in_parts, sum_of
from spark_checks.engine.readers import Evidence
from spark_checks.engine.sequences import SCHEMA, folder
from spark_checks.results import Anomaly

_KEYS = ["group", "topic", "partition"]
_POSITION_KEYS = ["group", "consumer", "topic", "partition"]
_ORDER = ["group", "topic", "partition", "offset"]
#: Above every offset: where a load did not end properly, its topics were read to their ends.
NO_END = (1 << 63) - 1

#: The columns that are compared.
_COMPARED: Final = {
    "records": ("cluster", "topic", "partition", "offset", "producer", "seq"),
    "deliveries": (
        *("group", "consumer", "topic", "partition", "offset"),
        *("producer", "seq", "intended_us", "received_us"),
    ),
}
_WANTED: Final = pa.schema([
    ("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
    ("producer", pa.int32()), ("seq", pa.int64()),
])  # fmt: skip

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
    run = evidence.run
    held, given = _blocks(facts(evidence), run)
    more = differing(evidence)
    totals = {
        "expected": sum(one.rows for one in held.values()),
        "deliveries": sum(one.rows for one in given.values()),
        "blocks_compared_exactly": len(more.blocks),
    }
    anomalies: dict[str, Anomaly] = {}
    if more.blocks:
        found = compare(evidence, more)
        anomalies = tally(found, _ORDER)
        totals["not_known"] = anomalies.pop("not_known", Anomaly(0)).count
        if "undelivered" in anomalies:
            undelivered = _as_frame(evidence, found).where("kind = 'undelivered'").select(*_ORDER)
            got = to_groups(evidence.need("deliveries"), run)
            anomalies |= tally(skipped(got, undelivered), [*_ORDER, "consumer"])
    return GroupHop(totals, anomalies | rewinds(evidence))


@dataclass(frozen=True)
class Differing:
    """Where deliveries are not just the records, each once.

    Attributes:
        blocks: (group, topic, partition, block), in order.
        parts: numbers of the parts of blocks (``one_pass.FINE_BITS``) that differ, where these are few.
        rows: the records and deliveries of those parts, by table; None where whole blocks are looked at.
    """

    blocks: Sequence[Block]
    parts: Sequence[int] = ()
    rows: Mapping[str, pa.Table] | None = None


def differing(evidence: Evidence) -> Differing:
    """Return where deliveries differ from the records. Without a records table every block does.

    Where they are few, only those parts of blocks that differ: the rest of a block is as it should be. Of a
    load that did not end properly the whole blocks, since the last delivery in them tells what is known.
    """
    return evidence.shared.get("differing", lambda: _differing(evidence))


def _differing(evidence: Evidence) -> Differing:
    run = evidence.run
    held, given = _blocks(facts(evidence), run)
    if not evidence.has("records"):
        return Differing(sorted(given))
    blocks = _unlike(held, given)
    parts = finer(evidence, "offset", {one[-1] for one in blocks}) if blocks and run.complete else None
    if parts is None:
        return Differing(blocks)
    fine = sorted({one[-1] for one in _unlike(*_blocks(parts, run))})
    if len(fine) > FEW:
        return Differing(blocks)
    near = in_parts("offset", fine)
    rows = few(evidence, {"records": near, "deliveries": near}, _COMPARED)
    return Differing(blocks, fine, rows)


def _unlike(held: Mapping[Block, Sum], given: Mapping[Block, Sum]) -> list[Block]:
    return sorted(key for key in {*held, *given} if held.get(key, NOTHING) != given.get(key, NOTHING))


def compare(evidence: Evidence, more: Differing) -> DataFrame | pa.Table:
    """Hold records and deliveries against each other where they differ, see :func:`judged`.

    Few rows are compared here, and an Arrow table is returned; many are shuffled by their block.
    """
    run = evidence.run
    if more.rows is not None:
        records, got = more.rows["records"], more.rows["deliveries"]
        found = judged(_wanted_here(records, run), got.filter(given_to(run)))
        if "phantom" not in found["kind"].unique().to_pylist():
            return found
        return _explained_phantoms(_as_frame(evidence, found), evidence.need("ledger"), run)
    places = sorted({one[1:] for one in more.blocks})
    records = in_blocks(evidence.need("records"), places, _KEYS[1:], "offset")
    wanted = in_blocks(wanted_by_groups(records, run), more.blocks, _KEYS, "offset")
    got = in_blocks(to_groups(evidence.need("deliveries"), run), more.blocks, _KEYS, "offset")
    one, two = (side.groupBy(*_KEYS, block("offset")) for side in (wanted, got))
    rows = _explained_phantoms(one.cogroup(two).applyInArrow(judged, POSITIONS), evidence.need("ledger"), run)
    return (rows if run.complete else _unknown_tail(rows, got)).persist()


def _as_frame(evidence: Evidence, found: DataFrame | pa.Table) -> DataFrame:
    if isinstance(found, DataFrame):
        return found
    return evidence.session().createDataFrame(found.combine_chunks() if found.num_rows else [], POSITIONS)


def _wanted_here(records: pa.Table, run: Run) -> pa.Table:
    """Return what :func:`wanted_by_groups` does, of an Arrow table."""
    named = [(one.cluster, one.topic) for one in run.source_topics()]
    parts = [_WANTED.empty_table()]
    for name, group in run.groups.items():
        for cluster, topic in named:
            if topic in group.topics:
                mine = (pc.field("cluster") == cluster) & (pc.field("topic") == topic)
                rows = records.filter(mine & pc.field("producer").is_valid())
                who = pa.repeat(pa.scalar(name), rows.num_rows)
                parts.append(rows.append_column("group", who).select(_WANTED.names).cast(_WANTED))
    return pa.concat_tables(parts)


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


def _unknown_tail(rows: DataFrame, got: DataFrame) -> DataFrame:
    """The load did not end properly: past a group's last known delivery there is no evidence either way."""
    last = got.groupBy(*_KEYS).agg(F.max("offset").alias("last"))
    late = (F.col("kind") == "undelivered") & (F.col("offset") > F.coalesce("last", F.lit(-1)))
    kind = F.when(late, F.lit("not_known")).otherwise(F.col("kind"))
    return rows.join(last, _KEYS, "left").withColumn("kind", kind).drop("last")


def rewinds(evidence: Evidence) -> dict[str, Anomaly]:
    """Find where a consumer's position went back within a partition: from_offset, offset, at_us.

    What each task saw of a consumer's time in a partition follows on what another saw, mostly: then the
    places where it went back are those within them and those between them. Where two overlap in time, their
    rows are sorted.
    """
    parts = facts(evidence)
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
