"""Altered copies: which record that is missing is which record that nobody sent.

A record that is known by its content is another record once its content changed: it is missing in the target,
and a copy is there that the source does not have. Such leftovers are paired here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.engine.anomalies import kinds

#: What a mirror has to keep of a record, by the names of the anomalies.
PARTS: Final = ("key", "value", "headers", "timestamp")
#: The kind of what is in the target alone, and older than the run.
EARLIER: Final = "earlier"
#: By what leftovers are paired, most certain first: the identity that a damaged copy still claims, then all
#: parts but one, then fewer. Where several would do, they go in the order of their partitions and offsets.
_ROUNDS: Final[tuple[tuple[str, ...], ...]] = (
    ("claimed",),
    ("key", "value", "headers"),
    ("key", "value", "timestamp"),
    ("value", "headers", "timestamp"),
    ("key", "headers", "timestamp"),
    ("key", "value"),
    ("value",),
)
_SHOWN: Final = ("kind", "_times", "mirror", "producer", "ident", "held", "found", "again")


def paired(found: DataFrame, began_us: int) -> DataFrame:
    """Return findings in which a missing record and an unexpected one that is its copy are one altered one.

    What is unexpected then, known by its content alone and from before the run began, is of the kind
    ``earlier``: a mirror that was behind has copied it late.

    Sorts what is missing and what is unexpected up to seven times: few, unless the mirror alters everything.

    Args:
        found: as ``parity.findings`` returns them.
    """
    rest = found.where("kind not in ('missing', 'unexpected')").select(*_SHOWN)
    lost = _one_by_one(found.where("kind = 'missing'"), "wanted", "held")
    extra = _one_by_one(found.where("kind = 'unexpected'"), "got", "found")
    for keys in _ROUNDS:
        if lost.isEmpty() or extra.isEmpty():
            break
        # Each round builds on the one before: a plan of all of them takes Spark minutes to think about.
        pairs = _kept(_pair(lost, extra, keys))
        if pairs.isEmpty():
            continue
        rest = rest.unionByName(_altered(pairs))
        lost, extra = (
            _kept(side.join(pairs.select(F.col(f"{name}_id").alias("id")), "id", "anti"))
            for name, side in (("lost", lost), ("extra", extra))
        )
    # Where the target's broker stamps records, their own time is not known, and 0 stands for it.
    before = F.col("claimed").isNull() & (F.col("timestamp") > 0) & (F.col("timestamp") < began_us)
    extra = extra.withColumn("kind", F.when(before, F.lit(EARLIER)).otherwise(F.col("kind")))
    return rest.unionByName(lost.select(*_SHOWN)).unionByName(extra.select(*_SHOWN))


def _one_by_one(found: DataFrame, contents: str, place: str) -> DataFrame:
    """Return a row for each time: a name of its own (``id``), its content, and who it is or claims to be."""
    own = F.when(F.col("producer") >= 0, F.struct("producer", F.col("ident").alias("seq")))
    content = F.col(contents)[0]
    return _kept(
        found.withColumn("nth", F.explode(F.sequence(F.lit(1), F.col("_times").cast("int")))).select(
            *(name for name in _SHOWN if name != "_times"),
            F.lit(1).alias("_times"),
            F.struct("mirror", "producer", "ident", "nth").alias("id"),
            F.col(place).alias("place"),
            F.coalesce("claimed", own).alias("claimed"),
            *(content[part].alias(part) for part in PARTS),
        )
    )


def _kept(rows: DataFrame) -> DataFrame:
    """Keep rows without the plan that made them, on two nodes, so that one may be lost."""
    return rows.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)


def _pair(lost: DataFrame, extra: DataFrame, keys: Sequence[str]) -> DataFrame:
    on = ["mirror", *keys, "turn"]
    turn = F.row_number().over(Window.partitionBy("mirror", *keys).orderBy("place"))
    left = lost.withColumn("turn", turn).select(
        *on,
        *(F.col(name).alias(f"lost_{name}") for name in ("id", "producer", "ident", "held", *PARTS)),
    )
    right = extra.withColumn("turn", turn).select(
        *on, *(F.col(name).alias(f"extra_{name}") for name in ("id", "found", *PARTS))
    )
    return left.join(right, on, "inner")


def _altered(pairs: DataFrame) -> DataFrame:
    changed = {f"altered_{part}": F.col(f"lost_{part}") != F.col(f"extra_{part}") for part in PARTS}
    return pairs.select(
        F.explode(kinds(changed)).alias("kind"),
        F.lit(1).alias("_times"),
        "mirror",
        F.col("lost_producer").alias("producer"),
        F.col("lost_ident").alias("ident"),
        F.col("lost_held").alias("held"),
        F.col("extra_found").alias("found"),
        F.col("extra_found").alias("again"),
    )
