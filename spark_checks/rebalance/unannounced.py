"""Processes that began anew without an action that says so: restarted by hand, or fallen over."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from evidence.run import Run
from spark_checks.engine.anomalies import tally
from spark_checks.rebalance.restarts import Restart
from spark_checks.results import Anomaly

#: Samples bear the time of their host's clock and come once a second; actions that of the control machine.
_MARGIN_US: Final = 2_000_000
_WHO: Final = ("host", "service", "instance")
_SHOWN: Final = (*_WHO, "from_us", "until_us")


def unannounced(processes: DataFrame, restarts: list[Restart], run: Run) -> dict[str, Anomaly]:
    """Find instances whose process began anew between two samples, over the whole run.

    A process's CPU time only ever grows: where it went down, another process runs. A sample an instance and
    second; they are sorted by instance.

    Returns:
        ``unannounced_restart``: host, service, instance, from_us and until_us, the samples before and after.
    """
    return tally(begun_anew(processes, restarts, run), _SHOWN)


def begun_anew(processes: DataFrame, restarts: list[Restart], run: Run) -> DataFrame:
    """Return those that began anew while no restart of their instance was under way (kind, _SHOWN)."""
    window = Window.partitionBy(*_WHO).orderBy("at_us")
    known = F.lit(False)
    for restart in restarts:
        until = run.ended_us if restart.end_us is None else restart.end_us
        mine = (F.col("host") == restart.host) & (F.col("instance") == restart.instance)
        begins = F.col("until_us") >= restart.begin_us - _MARGIN_US
        ends = F.lit(until is None) | (F.col("from_us") <= F.lit((until or 0) + _MARGIN_US))
        known = known | (mine & (F.col("service") == restart.service) & begins & ends)
    return (
        processes.select(
            *_WHO,
            F.lag("at_us").over(window).alias("from_us"),
            F.col("at_us").alias("until_us"),
            (F.col("cpu_us") < F.lag("cpu_us").over(window)).alias("anew"),
        )
        .where(F.col("anew") & ~known)
        .select(F.lit("unannounced_restart").alias("kind"), *_SHOWN)
    )
