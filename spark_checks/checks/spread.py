"""Consumers that come home: what each instance carries after a run's restarts, against before."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Window
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

InstanceKey = tuple[str, str]


class Carried(NamedTuple):
    """What the instances of a group carry, by group and instance."""

    consumers: Counter[InstanceKey]
    partitions: Counter[InstanceKey]


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
    before = carried(homes, run.measured_from_us, restarts[0].begin_us)
    after = carried(homes, last_end, run.measured_until_us)
    if not before.consumers or not after.consumers:
        when = "after the last restart" if before.consumers else "before the first restart"
        return Result(NAME, "unknown", f"no consumer read {when}")
    found = changes(before, after)
    worst = {what: max(row[f"{what}_percent"] for row in found) for what in ("consumers", "partitions")}
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


def carried(homes: DataFrame, from_us: int, until_us: int) -> Carried:
    """Return what instances carry at the end of a window, by the last samples of each consumer in it."""
    last = Window.partitionBy("group", "consumer").orderBy(F.desc("at_us"))
    within = homes.where(F.col("at_us").between(from_us, until_us - 1))
    rows = within.withColumn("back", F.row_number().over(last)).where(F.col("back") <= _SAMPLES).collect()
    home = {(row["group"], row["consumer"]): row["instance"] for row in rows if row["back"] == 1}
    read: Counter[tuple[str, str]] = Counter()
    for row in rows:
        who = (row["group"], row["consumer"])
        if row["instance"] == home[who]:
            read[who] = max(read[who], row["partitions"])
    found = Carried(Counter(), Counter())
    for (group, consumer), instance in home.items():
        found.consumers[group, instance] += 1
        found.partitions[group, instance] += read[group, consumer]
    return found


def changes(before: Carried, after: Carried) -> list[dict[str, Any]]:
    """Return a row for each group's instance, the largest change first."""
    places = before.consumers.keys() | after.consumers.keys()
    rows = []
    for group, instance in places:
        place = (group, instance)
        row: dict[str, Any] = {"group": group, "instance": instance}
        for what in Carried._fields:
            was, now = getattr(before, what), getattr(after, what)
            all_before = [count for (of, _), count in was.items() if of == group]
            mean = sum(all_before) / len(all_before) if all_before else 0.0
            change = abs(now[place] - was[place])
            row |= {f"{what}_before": was[place], what: now[place]}
            row[f"{what}_percent"] = round(100 * change / (was[place] or mean or 1), 1)
        rows.append(row)
    rows.sort(key=lambda row: (-row["consumers_percent"], -row["partitions_percent"], row["instance"]))
    return rows


def _advice(beyond: list[dict[str, Any]]) -> Recommendation:
    return Recommendation(
        "let clients return to a restarted instance: delete the new consumer instance, and create one at the "
        "former address (docs/balancer.md). In the classic protocol each return stops the whole group: move "
        "to the consumer protocol first (docs/group_protocol.md)",
        f"{beyond[0]['instance']} had {beyond[0]['consumers_before']} consumers before the restarts, and "
        f"{beyond[0]['consumers']} after",
    )
