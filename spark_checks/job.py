"""The audit from evidence to results: land what is missing, run every check, compose."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_checks.checks import asked
from spark_checks.errors import EvidenceError
from spark_checks.land import Landing, land
from spark_checks.levels import Levels
from spark_checks.model import Result, Verdict, compose
from spark_checks.readers import Evidence, damaged, explain, open_evidence, read_table
from spark_checks.restarts import Restart, read_restarts


@dataclass(frozen=True)
class Audit:
    """The outcome of a job: the composed verdict, each check's result, and what the report draws."""

    run_id: str
    verdict: Verdict
    results: tuple[Result, ...]
    evidence: Evidence
    restarts: tuple[Restart, ...]
    landing: Landing | None
    seconds: dict[str, float]


def audit(
    spark: SparkSession, uri: str, levels: Levels, say: Callable[[str], None] = lambda _: None
) -> Audit:
    """Run every registered check on the evidence.

    Args:
        spark: the session.
        uri: the evidence folder, anything that Spark reads.
        levels: the service levels.
        say: told of each step, for a person who waits.

    Raises:
        EvidenceError: when the evidence cannot be read; then there is no verdict.
    """
    seconds: dict[str, float] = {}
    begin = time.monotonic()
    try:
        evidence = open_evidence(spark, uri)
        landing = None
        if evidence.table("records") is None:
            say("landing the topics")
            landing = land(spark, evidence.uri, evidence.run)
            records = None if landing.reason else read_table(spark, evidence.uri, "records")
            evidence = replace(evidence, tables={**evidence.tables, "records": records})
        seconds["read"] = round(time.monotonic() - begin, 2)
        results = []
        for name, check in asked(evidence.run, levels).items():
            say(f"check {name}")
            begin = time.monotonic()
            result = check(evidence, levels)
            if landing is not None and landing.reason and result.verdict == "unknown":
                result = replace(result, because=f"{result.because} ({landing.reason})")
            results.append(replace(result, definition=inspect.getdoc(check) or ""))
            seconds[name] = round(time.monotonic() - begin, 2)
        restarts = read_restarts(evidence.table("actions"), evidence.run)
    except (PySparkException, Py4JJavaError) as error:
        if not damaged(error):
            raise
        raise EvidenceError(explain(error, uri)) from error
    verdict = compose(result.verdict for result in results)
    return Audit(evidence.run.run_id, verdict, tuple(results), evidence, tuple(restarts), landing, seconds)
