"""Figures of runs as a table of history, and what earlier runs of the same subject came to.

A row is a figure of a run: run_id, the partition, which another audit of the run replaces; subject,
started_us, kit; check, what, value, unit, level, verdict.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kedge.evidence.errors import EvidenceError
from spark_checks.engine.files import located
from spark_checks.engine.readers import explain
from spark_checks.engine.spark_types import local_rows
from spark_checks.job import Audit
from spark_checks.report.subject import loads
from spark_checks.results import Earlier, Result

#: As many runs are looked back at.
LAST: Final = 20
_KEYS: Final = ("check", "what")
_SCHEMA: Final = (
    "subject string, started_us long, kit string, check string, what string, value double, unit string, "
    "level double, verdict string, run_id string"
)


def beside_earlier(audit: Audit, history: str) -> Audit:
    """Note an audit's figures in a table of history; return it with what earlier runs came to beside each.

    Args:
        history: the table, anything that Spark writes to. It is a Delta table where the session has Delta's
            extension, else Parquet.

    Raises:
        EvidenceError: when the table cannot be written or read.
    """
    spark, uri = audit.evidence.session, located(history)
    spark.sparkContext.setJobGroup("history", f"{uri}: history")
    form = "delta" if "delta" in (spark.conf.get("spark.sql.extensions", "") or "") else "parquet"
    try:
        _note(spark, audit, uri, form)
        rows = spark.read.format(form)
        # Delta has its own schema, and would take an empty folder for none of its tables.
        table = (rows if form == "delta" else rows.schema(_SCHEMA)).load(uri)
        found = {(row.pop("check"), row.pop("what")): Earlier(**row) for row in _summed_up(table, audit)}
    except (PySparkException, Py4JJavaError) as error:
        raise EvidenceError(explain(error, uri)) from error
    return replace(audit, results=tuple(_beside(result, found) for result in audit.results))


def subject_of(audit: Audit) -> str:
    """Return the name of what was tested: by it runs are beside each other.

    It follows from the services, the load and the services that were restarted. Versions, hosts and settings
    do not count: whether they made a difference is what a history is asked.
    """
    run = audit.evidence.run
    about = [
        sorted({(one.service, one.distribution) for one in run.subject.services}),
        sorted((topic.cluster, topic.topic) for topic in run.source_topics()),
        [load.model_dump() for load in loads(run)],
        sorted({restart.service for restart in audit.restarts}),
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def figures_of(audit: Audit) -> list[dict[str, Any]]:
    """Return the rows of an audit in a table of history."""
    run, subject = audit.evidence.run, subject_of(audit)
    return [
        {
            "subject": subject,
            "started_us": run.started_us,
            "kit": run.subject.kit,
            "check": result.name,
            "what": figure.what,
            "value": None if figure.value is None else float(figure.value),
            "unit": figure.unit,
            "level": None if figure.level is None else float(figure.level),
            "verdict": figure.verdict,
            "run_id": run.run_id,
        }
        for result in audit.results
        for figure in result.figures
    ]


def _note(spark: SparkSession, audit: Audit, uri: str, form: str) -> None:
    table = local_rows(spark, [tuple(row.values()) for row in figures_of(audit)], _SCHEMA)
    # Each run has a partition of its own, so that two audits at the same time are not in each other's way.
    writer = table.coalesce(1).write.format(form).partitionBy("run_id").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").save(uri)


def _summed_up(table: DataFrame, audit: Audit) -> list[dict[str, Any]]:
    """Return check, what, runs, median, lowest and highest of the last runs before this one."""
    run = audit.evidence.run
    of_subject = table.where(
        (F.col("subject") == subject_of(audit))
        & (F.col("started_us") < run.started_us)
        & (F.col("run_id") != run.run_id)
    )
    last = of_subject.groupBy("run_id").agg(F.max("started_us").alias("at")).orderBy(F.desc("at")).limit(LAST)
    # What was doubtful in a run is no measure for others.
    known = of_subject.join(F.broadcast(last), "run_id").where("value IS NOT NULL AND verdict != 'unknown'")
    figures = known.groupBy(*_KEYS).agg(
        F.count(F.lit(1)).alias("runs"),
        F.expr("percentile(value, 0.5)").alias("median"),
        F.min("value").alias("lowest"),
        F.max("value").alias("highest"),
    )
    return [row.asDict() for row in figures.collect()]


def _beside(result: Result, found: dict[tuple[str, str], Earlier]) -> Result:
    figures = (replace(one, earlier=found.get((result.name, one.what))) for one in result.figures)
    return replace(result, figures=tuple(figures))
