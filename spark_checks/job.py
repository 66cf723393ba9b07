"""The audit from evidence to results: read the topics where need be, run every check, compose."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kedge.evidence.errors import EvidenceError
from kedge.evidence.levels import Levels, given
from spark_checks.engine import session
from spark_checks.engine.readers import Evidence, damaged, explain, open_evidence, with_tables
from spark_checks.ingest import Ingest, ingest
from spark_checks.rebalance.restarts import Restart, read_restarts
from spark_checks.registry import CHECKS, Check, asked, needs
from spark_checks.results import Result, Verdict, compose


@dataclass(frozen=True)
class Audit:
    """The outcome of a job: the composed verdict, each check's result, and what the report draws."""

    run_id: str
    verdict: Verdict
    results: tuple[Result, ...]
    evidence: Evidence
    restarts: tuple[Restart, ...]
    ingest: Ingest | None
    seconds: dict[str, float]

    def result(self, name: str) -> Result:
        """Return a check's result; one that tells nothing where it did not run."""
        return next((one for one in self.results if one.name == name), Result(name, "unknown", ""))


def audit(
    spark: SparkSession, uri: str, levels: Levels, say: Callable[[str], None] = lambda _: None
) -> Audit:
    """Run every registered check on the evidence.

    Args:
        spark: the session, on this machine or on a cluster.
        uri: the evidence folder, anything that Spark reads.
        say: told of each step, for a person who waits.

    Raises:
        EvidenceError: when the evidence cannot be read; then there is no verdict.
    """
    with session.keeping_nothing(spark):
        return _audit(spark, uri, levels, say)


def _audit(spark: SparkSession, uri: str, levels: Levels, say: Callable[[str], None]) -> Audit:
    clock = _Clock()
    spark.sparkContext.setJobGroup("evidence", f"{uri}: evidence")
    try:
        evidence = open_evidence(spark, uri)
        clock.lap("evidence")
        read = None
        if not evidence.has("records") and (evidence.run.loaded or evidence.run.topics):
            say("reading the topics")
            spark.sparkContext.setJobGroup("ingest", f"{uri}: ingest")
            read = ingest(spark, evidence.uri, evidence.run)
            if not read.reason:
                evidence = with_tables(spark, evidence, ("records", "batches"))
            clock.lap("ingest")
        checks = asked(evidence.run, levels)
        say(f"checks {', '.join(checks)}")
        results = []
        for name, result, took in _results(checks, evidence, levels):
            clock.seconds[name] = took
            because = result.because
            if read is not None and read.reason and result.verdict == "unknown":
                because += f" ({read.reason})"
            slo = {**given(getattr(levels, name)), **result.slo}
            definition = inspect.getdoc(CHECKS[name]) or ""
            results.append(replace(result, because=because, slo=slo, definition=definition))
        restarts = read_restarts(evidence.rows("actions"), evidence.run)
    except (PySparkException, Py4JJavaError) as error:
        if not damaged(error):
            raise
        raise EvidenceError(explain(error, uri)) from error
    verdict = compose(result.verdict for result in results)
    clock.seconds["all"] = round(time.monotonic() - clock.begin, 2)
    run_id = evidence.run.run_id
    return Audit(run_id, verdict, tuple(results), evidence, tuple(restarts), read, clock.seconds)


class Auditor:
    """Audits in one Spark session, which starts with the first unless :meth:`start` was called before.

    A session whose Java ends by itself is started once more, and what it did is done again.
    """

    def __init__(
        self,
        log: Path | None = None,
        master: str | None = "local[*]",
        driver_memory: str | None = None,
        *,
        quick: bool = True,
    ) -> None:
        self._log, self._master, self._memory, self._quick = log, master, driver_memory, quick
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> SparkSession:
        """Start the session, if there is none.

        Raises:
            EvidenceError: when no Java is found or the session does not start.
        """
        if self._spark is None:
            self._spark = session.start(self._master, self._memory, log=self._log, quick=self._quick)
        return self._spark

    def audit(self, uri: str, levels: Levels, say: Callable[[str], None] = lambda _: None) -> Audit:
        """Audit evidence, as :func:`audit` does.

        Raises:
            EvidenceError: when the evidence cannot be read, or Java ended twice by itself.
        """
        for again in (True, False):
            try:
                return audit(self.start(), uri, levels, say)
            except (Py4JError, PySparkException, OSError) as error:
                alive = self._spark is not None and session.alive(self._spark)
                self.close()
                where = f"; see {self._log}" if self._log else ""
                if alive:
                    raise EvidenceError(f"the audit broke off: {type(error).__name__}{where}") from error
                if not again:
                    raise EvidenceError(
                        "Spark's Java ended twice during the audit, most likely for want of memory: give it "
                        f"more (--driver-memory), or judge the run on a cluster{where}"
                    ) from error
                say("Spark's Java ended by itself; starting it again")
        raise AssertionError

    def close(self) -> None:
        """End the session."""
        if self._spark is not None:
            session.stop(self._spark)
        self._spark = None


class _Clock:
    """Where the seconds go: what came one after the other by laps, checks by themselves."""

    def __init__(self) -> None:
        self.begin = self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Say what was done since the last lap."""
        now = time.monotonic()
        self.seconds[name], self._last = round(now - self._last, 2), now


def _results(
    checks: Mapping[str, Check], evidence: Evidence, levels: Levels
) -> Iterator[tuple[str, Result, float]]:
    """Run checks at the same time, so that Spark has the next job when a core is free."""

    def timed(name: str, check: Check) -> tuple[Result, float]:
        begin = time.monotonic()
        # By this name Spark's own page, event log and counters tell which check a job was for.
        evidence.session.sparkContext.setJobGroup(name, f"{evidence.uri}: {name}")
        # What a part of the evidence comes to is no finding: it may be the copy's.
        if lacks := evidence.lacks(*needs(name, evidence.run)):
            result = Result(name, "unknown", "; ".join(lacks))
        else:
            result = check(evidence, levels)
        return result, round(time.monotonic() - begin, 2)

    with ThreadPoolExecutor(len(checks), thread_name_prefix="check") as pool:
        running = {
            name: pool.submit(copy_context().run, timed, name, check) for name, check in checks.items()
        }
        for name, future in running.items():
            yield name, *future.result()
