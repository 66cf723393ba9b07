"""Consumer instances whose client is gone: they hold partitions, and nobody reads these."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evidence.levels import Levels, given
from evidence.run import Run
from spark_checks.engine.facts import acked_grains, delivered_grains
from spark_checks.engine.readers import Evidence
from spark_checks.results import Anomaly, Figure, Recommendation, Result, judge

NAME: Final = "zombies"
#: Shorter silences are a slow first read: 5.2 s were measured through a REST proxy with default settings.
LEAST_S: Final = 6.0
_EXAMPLES: Final = 5
_PLACE: Final = ["group", "topic", "partition"]


def check(evidence: Evidence, levels: Levels) -> Result:
    """Which members held partitions to the end of their membership without reading from them.

    A client of a REST proxy that vanishes leaves its consumer instance behind: it goes on as a member of the
    group until consumer.instance.timeout.ms, and its partitions are read by nobody. Such a member is one that
    got nothing from any of its partitions in its last six seconds or more, while records were acknowledged
    there. Its time is from its last delivery, or from the assignment where it never got any, to the
    revocation; the sampling interval of the group is the error. Only the steady window counts. Ownership is
    known where the group was watched; without it nothing is known.
    """
    run, slo = evidence.run, given(levels.zombies)
    assignments, delivered = evidence.table("assignments"), delivered_grains(evidence)
    watched = _watched(assignments, run)
    missing = sorted(run.groups.keys() - watched)
    if assignments is None or delivered is None or missing:
        doubt = f"nothing is known of who owned what in {', '.join(missing) or 'any group'}"
        return Result(NAME, "unknown", doubt, slo=slo)
    rows = (
        silent(owned(assignments, run), delivered, acked_grains(evidence), blind_us(run))
        .where(F.col("held_us") >= LEAST_S * 1e6)
        .orderBy(F.desc("held_us"), "group", "consumer")
        .collect()  # members, never records
    )
    longest = rows[0]["held_us"] / 1e6 if rows else 0.0
    level = levels.zombies.held_s
    problems = []
    if level is not None and longest > level:
        problems.append(
            f"{rows[0]['consumer']} held partitions unread for {longest:.1f} s, the level is {level:g} s"
        )
    fine = (
        f"{len(rows)} members held partitions that nobody read, {longest:.1f} s at most" if rows else "none"
    )
    verdict, because = judge(problems, [], fine, judged=level is not None)
    examples = tuple(_example(row.asDict(), run) for row in rows[:_EXAMPLES])
    return Result(
        NAME,
        verdict,
        because,
        slo=slo,
        measured={"zombies": len(rows), "held_s": longest},
        anomalies={"zombie": Anomaly(len(rows), examples)} if rows else {},
        recommendations=(_advice(longest, run, {row["group"] for row in rows}),) if rows else (),
        figures=(Figure("longest unread hold", longest, level, "s", key="zombies.held_s"),),
    )


def _watched(assignments: DataFrame | None, run: Run) -> set[str]:
    if assignments is None:
        return set()
    # One row a group.
    return {row["group"] for row in assignments.select("group").distinct().collect()} & run.groups.keys()


def owned(assignments: DataFrame, run: Run) -> DataFrame:
    """Return who owned which partition from when until when: :data:`_PLACE`, consumer, from_us, until_us.

    Sorts the events of each partition, which are few.
    """
    window = Window.partitionBy(*_PLACE).orderBy("at_us", (F.col("event") == "assigned").cast("int"))
    return (
        assignments.where(F.col("group").isin(list(run.groups)))
        .withColumn("next_us", F.lead("at_us").over(window))
        .where((F.col("event") == "assigned") & (F.col("at_us") < run.measured_until_us))
        .select(
            *_PLACE,
            "consumer",
            F.greatest("at_us", F.lit(run.measured_from_us)).alias("from_us"),
            F.least(F.coalesce("next_us", F.lit(run.measured_until_us)), F.lit(run.measured_until_us)).alias(
                "until_us"
            ),
        )
        .where("until_us > from_us")
    )


def blind_us(run: Run) -> int:
    """Return for how long before a sampled revocation the next owner may have read already."""
    return 2 * run.sampling_us.get("assignments_rest", 100_000)


def silent(owned: DataFrame, delivered: DataFrame, acked: DataFrame, blind_us: int) -> DataFrame:
    """Return how long each member got nothing before its partitions went, while records came there.

    Deliveries in the last ``blind_us`` of an ownership are the next owner's. Ownerships are few and
    broadcast; grains bound what is joined with them by the run's length.

    Returns:
        group, consumer, from_us, until_us, held_us, partitions (``topic-partition``), records (acknowledged
        in that time on the member's partitions).
    """
    during = F.col("last_us").between(F.col("from_us"), F.col("until_us") - blind_us)
    reads = (
        delivered.select(*_PLACE, "last_us")
        .join(F.broadcast(owned), _PLACE, "inner")
        .where(during)
        .groupBy("group", "consumer")
        .agg(F.max("last_us").alias("read_us"))
    )
    members = (
        owned.groupBy("group", "consumer")
        .agg(F.min("from_us").alias("since_us"), F.max("until_us").alias("until_us"))
        .join(F.broadcast(reads), ["group", "consumer"], "left")
        .select("group", "consumer", F.coalesce("read_us", "since_us").alias("silent_us"), "until_us")
    )
    unread = owned.drop("until_us").join(F.broadcast(members), ["group", "consumer"], "inner")
    came = F.col("first_us").between(F.greatest("silent_us", "from_us"), F.col("until_us"))
    return (
        acked.select("topic", "partition", "first_us", F.col("records").alias("acked"))
        .join(F.broadcast(unread), ["topic", "partition"], "inner")
        .where(came)
        .groupBy("group", "consumer", F.col("silent_us").alias("from_us"), "until_us")
        .agg(
            F.sum("acked").alias("records"),
            F.sort_array(F.collect_set(F.concat_ws("-", "topic", "partition"))).alias("partitions"),
        )
        .withColumn("held_us", F.col("until_us") - F.col("from_us"))
    )


def _example(row: dict[str, Any], run: Run) -> dict[str, Any]:
    return {
        "group": row["group"],
        "member": row["consumer"],
        "partitions": ", ".join(row["partitions"]),
        "from_s": round((row["from_us"] - run.started_us) / 1e6, 1),
        "held_s": round(row["held_us"] / 1e6, 1),
        "unread_records": row["records"],
    }


def _advice(longest: float, run: Run, groups: set[str]) -> Recommendation:
    because = f"a member that nobody used held partitions for {longest:.1f} s"
    if any(run.groups[group].via == "rest" for group in groups):
        return Recommendation(
            "have clients delete their consumer instance when they end, also when they fail; "
            "consumer.instance.timeout.ms follows from kafka_rest_workload.client_pause_ms and from "
            "service_levels.rebalance.consume_stall_s: lower these where they are longer than true",
            because,
        )
    return Recommendation("see what keeps the member from polling: its log names the partitions", because)
