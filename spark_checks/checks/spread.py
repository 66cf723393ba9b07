"""Consumers that come home: what each instance carries after a run's restarts, against before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kedge.evidence.levels import Levels
from spark_checks.engine.anomalies import listed
from spark_checks.engine.readers import Evidence
from spark_checks.rebalance.restarts import read_restarts
from spark_checks.results import Figure, Recommendation, Result, concluded

NAME: Final = "spread"
#: Beyond this an instance is named where no level says otherwise.
_NAMED_PERCENT: Final = 20.0
#: Samples of a consumer, the last ones of a window: in one of them a partition may have had no record.
_SAMPLES: Final = 3

_COUNTED: Final = ("consumers", "partitions")
#: By group and instance what it carries (:data:`_COUNTED`).
Carried = Mapping[tuple[str, str], Row]


def check(evidence: Evidence, levels: Levels) -> Result:
    """Does each instance carry after the restarts what it carried before?

    A consumer instance of a REST proxy lives in one process. When that restarts, its client makes itself a
    new one elsewhere, and nothing brings it back: the instance that was restarted last is left with nothing.
    Counted are the consumers of each instance and the partitions that they read, by their last samples before
    the first restart begins and before the measured time ends. The figure is the largest change of an
    instance, in percent of what it carried before; of one that carried nothing, in percent of the mean. With
    few consumers an instance a change of one is a large share, and counts as such. Connections are not
    counted.
    """
    run = evidence.run
    homes, restarts = evidence.samples("homes").get("homes"), read_restarts(evidence.rows("actions"), run)
    if homes is None:
        return Result(NAME, "unknown", "the owning instances of consumers were not noted")
    if not restarts or restarts[-1].end_us is None:
        doubt = "an instance never came back" if restarts else "no instance was restarted"
        return Result(NAME, "unknown", doubt)
    last_end = max(restart.end_us or 0 for restart in restarts)
    before, after = carried(
        homes, (run.measured_from_us, restarts[0].begin_us), (last_end, run.measured_until_us)
    )
    if not before or not after:
        when = "after the last restart" if before else "before the first restart"
        return Result(NAME, "unknown", f"no consumer read {when}")
    found = changes(before, after)
    worst = {what: max(row[f"{what}_percent"] for row in found) for what in _COUNTED}
    level = levels.spread.percent
    bound = _NAMED_PERCENT if level is None else level
    beyond = [row for row in found if max(row["consumers_percent"], row["partitions_percent"]) > bound]
    problems = []
    if level is not None and beyond:
        row = beyond[0]
        problems.append(
            f"{row['instance']} of {row['group']} has {row['consumers']} consumers and "
            f"{row['partitions']} partitions, and had {row['consumers_before']} and "
            f"{row['partitions_before']} before; "
            f"{level:g} percent are allowed"
        )
    most, what = max(worst.values()), "largest change of an instance's load"
    return concluded(
        NAME,
        problems,
        [],
        f"the most that an instance's load changed is {most:.0f} percent",
        [Figure(what, most, level, "percent", key="spread.percent")],
        measured={f"{what}_percent": value for what, value in worst.items()} | {"by_instance": found},
        anomalies=listed("piled_up", beyond),
        recommendations=(_advice(beyond),) if beyond else (),
    )


def carried(homes: DataFrame, *spans: tuple[int, int]) -> list[Carried]:
    """Return what instances carry at the end of each span of time, by the last samples of each consumer."""
    at, span = F.col("at_us"), F.lit(None).cast("int")
    for number, (from_us, until_us) in enumerate(spans):
        span = F.when((at >= from_us) & (at < until_us), F.lit(number)).otherwise(span)
    last = Window.partitionBy("span", "group", "consumer").orderBy(F.desc("at_us"))
    read = F.max(F.when(F.col("instance") == F.col("home"), F.col("partitions")))
    rows = (
        homes.withColumn("span", span)
        .where("span is not null")
        .withColumns({"home": F.first("instance").over(last), "back": F.row_number().over(last)})
        .where(F.col("back") <= _SAMPLES)
        .groupBy("span", "group", "consumer", "home")
        .agg(read.alias("partitions"))
        .groupBy("span", "group", "home")
        .agg(F.count(F.lit(1)).alias("consumers"), F.sum("partitions").alias("partitions"))
        .collect()
    )
    return [
        {(row["group"], row["home"]): row for row in rows if row["span"] == number}
        for number in range(len(spans))
    ]


def changes(before: Carried, after: Carried) -> list[dict[str, Any]]:
    """Return a row for each group's instance, the largest change first."""
    rows = []
    for place in sorted({*before, *after}):
        row: dict[str, Any] = dict(zip(("group", "instance"), place, strict=True))
        for what in _COUNTED:
            was, now = (side[place][what] if place in side else 0 for side in (before, after))
            of_group = [one[what] for (group, _), one in before.items() if group == place[0]]
            mean = sum(of_group) / len(of_group) if of_group else 0.0
            row |= {f"{what}_before": was, what: now}
            row[f"{what}_percent"] = round(100 * abs(now - was) / (was or mean or 1), 1)
        rows.append(row)
    return sorted(
        rows, key=lambda row: (-row["consumers_percent"], -row["partitions_percent"], row["instance"])
    )


def _advice(beyond: list[dict[str, Any]]) -> Recommendation:
    return Recommendation(
        "let clients return to a restarted instance: delete the new consumer instance, and create one at the "
        "former address (docs/balancer.md). In the classic protocol each return stops the whole group: move "
        "to the consumer protocol first (docs/group_protocol.md)",
        f"{beyond[0]['instance']} had {beyond[0]['consumers_before']} consumers before the restarts, and "
        f"{beyond[0]['consumers']} after",
    )
