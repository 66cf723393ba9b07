"""Consumer instances whose client is gone: they hold partitions, and nobody reads these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels
from kedge.evidence.run import Run
from spark_checks.engine.anomalies import examples
from spark_checks.engine.facts import acked_grains, delivered_grains
from spark_checks.engine.readers import Evidence
from spark_checks.engine.stretches import PLACE, owning_groups
from spark_checks.results import Anomaly, Figure, Recommendation, Result, concluded

NAME: Final = "zombies"
#: Shorter silences are a slow first read: 5.2 s were measured through a REST proxy with default settings.
LEAST_S: Final = 6.0
_MEMBER: Final = ["group", "consumer"]


def check(evidence: Evidence, levels: Levels) -> Result:
    """Which members held partitions to the end of their membership without reading from them.

    A client of a REST proxy that vanishes leaves its consumer instance behind: it goes on as a member of the
    group until consumer.instance.timeout.ms, and its partitions are read by nobody. Such a member is one that
    got nothing from any of its partitions in its last six seconds or more, while records were acknowledged
    there. Its time is from its last delivery, or from the assignment where it never got any, to the
    revocation; the sampling interval of the group is the error. Only the steady window counts. Ownership is
    known where the group was watched; without it nothing is known.
    """
    run = evidence.run
    table, delivered = evidence.samples("assignments").get("assignments"), delivered_grains(evidence)
    missing = sorted(run.groups.keys() - {*owning_groups(evidence)})
    if table is None or delivered is None or missing:
        doubt = f"nothing is known of who owned what in {', '.join(missing) or 'any group'}"
        return Result(NAME, "unknown", doubt)
    spans = owned(table, run)
    found = silent(spans, delivered, acked_grains(evidence), blind_us(run))
    found = found.where(F.col("held_us") >= LEAST_S * 1e6).persist()
    (counted,) = found.agg(F.count(F.lit(1)).alias("members"), F.collect_set("group").alias("of")).collect()
    order = (F.desc("held_us"), "group", "consumer")
    rows = found.orderBy(*order).limit(max(1, examples())).collect() if counted["members"] else []
    found.unpersist()
    count, level = counted["members"], levels.zombies.held_s
    longest = rows[0]["held_us"] / 1e6 if rows else 0.0
    problems = []
    if level is not None and longest > level:
        problems.append(
            f"{rows[0]['consumer']} held partitions unread for {longest:.1f} s, the level is {level:g} s"
        )
    fine = f"{count} members held partitions that nobody read, {longest:.1f} s at most" if rows else "none"
    shown = tuple(_example(row, run) for row in rows[: examples()])
    return concluded(
        NAME,
        problems,
        [],
        fine,
        [Figure("longest unread hold", longest, level, "s", key="zombies.held_s")],
        measured={"zombies": count, "held_s": longest},
        anomalies={"zombie": Anomaly(count, shown)} if count else {},
        recommendations=(_advice(longest, run, counted["of"]),) if count else (),
    )


def owned(assignments: DataFrame, run: Run) -> DataFrame:
    """Return who owned which partition from when until when: :data:`PLACE`, consumer, from_us, until_us."""
    rows = assignments.where(F.col("group").isin([*run.groups])).withColumn(
        "assigned", F.col("event") == "assigned"
    )
    until = F.lead("at_us").over(Window.partitionBy(*PLACE).orderBy("at_us", "assigned"))
    # The window comes before the filter: what ends an ownership is any event.
    spans = rows.withColumn("until", F.coalesce(until, F.lit(run.measured_until_us))).where("assigned")
    return spans.select(
        *PLACE,
        "consumer",
        F.greatest("at_us", F.lit(run.measured_from_us)).alias("from_us"),
        F.least("until", F.lit(run.measured_until_us)).alias("until_us"),
    ).where("until_us > from_us")


def blind_us(run: Run) -> int:
    """Return for how long before a sampled revocation the next owner may have read already."""
    return 2 * run.sampling_us.get("assignments_rest", 100_000)


def silent(owned: DataFrame, delivered: DataFrame, acked: DataFrame, blind_us: int) -> DataFrame:
    """Return how long each member got nothing before its partitions went, while records came there.

    Deliveries in the last ``blind_us`` of an ownership are the next owner's. Ownerships are few, so that
    Spark broadcasts them to the grains.

    Returns:
        group, consumer, from_us, until_us, held_us, partitions (``topic-partition``), records (acknowledged
        in that time on the member's partitions).
    """
    own = F.col("last_us").between(F.col("from_us"), F.col("until_us") - blind_us)
    read = delivered.join(owned, [*PLACE]).where(own).groupBy(*_MEMBER).agg(F.max("last_us").alias("read_us"))
    held = owned.groupBy(*_MEMBER).agg(
        F.min("from_us").alias("began_us"), F.max("until_us").alias("ended_us")
    )
    members = held.join(read, _MEMBER, "left").select(
        *_MEMBER, F.coalesce("read_us", "began_us").alias("silent_us"), "ended_us"
    )
    came = acked.select("topic", "partition", "first_us", "records").join(
        owned.join(members, _MEMBER), ["topic", "partition"]
    )
    unread = came.where(F.col("first_us").between(F.greatest("silent_us", "from_us"), F.col("ended_us")))
    return unread.groupBy(
        *_MEMBER, F.col("silent_us").alias("from_us"), F.col("ended_us").alias("until_us")
    ).agg(
        (F.first("ended_us") - F.first("silent_us")).alias("held_us"),
        F.sort_array(F.collect_set(F.concat_ws("-", "topic", "partition"))).alias("partitions"),
        F.sum("records").alias("records"),
    )


def _example(row: Row, run: Run) -> dict[str, Any]:
    return {
        "group": row["group"],
        "member": row["consumer"],
        "partitions": ", ".join(row["partitions"]),
        "from_s": round((row["from_us"] - run.started_us) / 1e6, 1),
        "held_s": round(row["held_us"] / 1e6, 1),
        "unread_records": row["records"],
    }


def _advice(longest: float, run: Run, groups: Sequence[str]) -> Recommendation:
    because = f"a member that nobody used held partitions for {longest:.1f} s"
    if any(run.groups[group].via == "rest" for group in groups):
        return Recommendation(
            "have clients delete their consumer instance when they end, also when they fail; "
            "consumer.instance.timeout.ms follows from kafka_rest_workload.client_pause_ms and from "
            "service_levels.rebalance.consume_stall_s: lower these where they are longer than true",
            because,
        )
    return Recommendation("see what keeps the member from polling: its log names the partitions", because)
