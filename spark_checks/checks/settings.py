"""Whether the instances run with what was planned for them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from evidence.levels import Levels, given
from spark_checks.engine.anomalies import tally
from spark_checks.engine.readers import Evidence
from spark_checks.results import Figure, Recommendation, Result, judge

_ORDER = ["host", "service", "instance", "file", "key"]


def check(evidence: Evidence, levels: Levels) -> Result:
    """Each planned setting against what its instance's file or unit says on the host, read after the load.

    - different: the file holds another value, or lacks the key. Values are compared as texts, without the
      blanks around them; of numbers and truth values the spelling does not count (1e3 is 1000, True is true).
    - unread: nothing could be read of that instance's file, so that nothing is known of its settings.

    Secrets are compared by their presence alone. Without a settings table nothing is known.
    """
    settings, slo = evidence.table("settings"), given(levels.settings)
    if settings is None:
        return Result("settings", "unknown", "there is no settings table: verify.collect writes it", slo=slo)
    number = "try_cast(trim({0}) as double)"
    same = F.expr(
        "lower(trim(planned)) = lower(trim(running)) or "
        f"coalesce({number.format('planned')} = {number.format('running')}, false)"
    )
    # One row a planned setting: some hundreds to a few hundred thousand, never the run's records.
    file = Window.partitionBy("host", "service", "instance", "file")
    file = file.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    file_read = F.count("running").over(file) > 0
    rows = settings.withColumn("file_read", file_read).withColumn("same", same).persist()
    kinds = F.when(~F.col("file_read"), "unread").when(~F.coalesce("same", F.lit(False)), "different")
    found = (
        rows.withColumn("kind", kinds).where("kind is not null").select("kind", *_ORDER, "planned", "running")
    )
    anomalies = tally(found, _ORDER)
    by_service = {
        row["service"]: {"settings": row["n"], "instances": row["instances"], "hosts": row["hosts"]}
        for row in rows.groupBy("service")
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.count_distinct("host", "instance").alias("instances"),
            F.count_distinct("host").alias("hosts"),
        )
        .orderBy("service")
        .collect()
    }
    rows.unpersist()
    different = anomalies["different"].count if "different" in anomalies else 0
    unread = anomalies["unread"].count if "unread" in anomalies else 0
    whole = sum(part["settings"] for part in by_service.values())
    problems, doubts = [], []
    if levels.settings.different is not None and different > levels.settings.different:
        problems.append(f"{different:,} of {whole:,} settings are not as planned{_first(anomalies)}")
    if unread:
        doubts.append(f"{unread:,} settings could not be read")
    if not whole:
        doubts.append("the settings table is empty: no host was planned, or none could be read")
    short = f"{whole:,} settings, {different:,} different"
    level = levels.settings.different
    verdict, because = judge(problems, doubts, short, judged=level is not None)
    return Result(
        "settings",
        verdict,
        because,
        slo=slo,
        measured={"settings": whole, "different": different, "unread": unread, "by_service": by_service},
        anomalies=anomalies,
        recommendations=_recommend(different),
        figures=(Figure("different", different, level, key="settings.different", of=whole),),
    )


def _first(anomalies: Any) -> str:
    one = anomalies["different"].examples[0]
    running = repr(one["running"]) if "running" in one else "nothing"
    where = f"{one['service']} {one['instance']} on {one['host']}"
    return f" (first: {one['key']} at {where}: planned {one['planned']!r}, runs with {running})"


def _recommend(different: int) -> tuple[Recommendation, ...]:
    if not different:
        return ()
    return (
        Recommendation(
            "Run deploy.yml, or put the hosts' own values into the inventory",
            f"{different:,} settings on the hosts are not those that were planned",
            effect="what runs is what was planned, so that the plan's sums hold",
        ),
    )
