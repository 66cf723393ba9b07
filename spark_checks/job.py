"""The audit from evidence to results: land what is missing, run every check, compose."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evidence.errors import EvidenceError
from evidence.levels import Levels
from spark_checks.engine.facts import facts
from spark_checks.engine.readers import Evidence, damaged, explain, open_evidence, read_table
from spark_checks.engine.schemas import TABLES
from spark_checks.engine.session import for_small_evidence, spread
from spark_checks.engine.workers import cores_here
from spark_checks.landing import Landing, land
from spark_checks.rebalance.restarts import Restart, read_restarts
from spark_checks.registry import CHECKS, Check, asked
from spark_checks.results import Result, Verdict, compose

#: Evidence of less than some ten million records.
_SMALL_BYTES: Final = 512 << 20


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
    session: SparkSession | Callable[[], SparkSession],
    uri: str,
    levels: Levels,
    say: Callable[[str], None] = lambda _: None,
    cores: int | None = None,
) -> Audit:
    """Run every registered check on the evidence.

    Args:
        session: Spark's, or what gives it; it is asked for when something needs it, which is seldom where the
            evidence lies on this machine.
        uri: the evidence folder, anything that Spark reads.
        levels: the service levels.
        say: told of each step, for a person who waits.
        cores: as for :func:`spark_checks.engine.readers.open_evidence`.

    Raises:
        EvidenceError: when the evidence cannot be read; then there is no verdict.
    """
    clock = Clock()
    try:
        given = _Session(session, clock)
        if cores is None and not callable(session):
            cores = cores_here(str(session.sparkContext.master))
        evidence = open_evidence(given, uri, cores)
        clock.lap("evidence")
        landing = None
        if not evidence.has("records"):
            say("landing the topics")
            landing = land(given, evidence.uri, evidence.run, evidence.cores)
            fresh = () if landing.reason else ("records", "batches")
            tables = {name: read_table(given, evidence.uri, name, evidence.run) for name in fresh}
            evidence = replace(evidence, tables={**evidence.tables, **tables})
            clock.lap("landing")
        # Not before the topics were landed, which is much to do.
        given.suits(evidence)
        if evidence.run.loaded:
            say("reading ledger, records and deliveries")
            facts(evidence)
            clock.lap("reading")
        say(f"checks {', '.join(asked(evidence.run, levels))}")
        results = []
        for name, result, took in _results(asked(evidence.run, levels), evidence, levels):
            clock.seconds[name] = took
            because = result.because
            if landing is not None and landing.reason and result.verdict == "unknown":
                because += f" ({landing.reason})"
            definition = inspect.getdoc(CHECKS[name]) or ""
            results.append(replace(result, because=because, definition=definition))
        restarts = read_restarts(evidence.rows("actions"), evidence.run)
        evidence.shared.forget()
    except (PySparkException, Py4JJavaError, ValueError) as error:
        if not damaged(error):
            raise
        raise EvidenceError(explain(error, uri)) from error
    verdict = compose(result.verdict for result in results)
    clock.seconds["all"] = round(time.monotonic() - clock.begin, 2)
    run_id = evidence.run.run_id
    return Audit(run_id, verdict, tuple(results), evidence, tuple(restarts), landing, clock.seconds)


class Clock:
    """Where the seconds go: what came one after the other by laps, checks by themselves."""

    def __init__(self) -> None:
        self.begin = self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Say how long something takes within what is done."""
        begin = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begin, 2)

    def lap(self, name: str) -> None:
        """Say what was done since the last lap."""
        now = time.monotonic()
        self.seconds[name], self._last = round(now - self._last, 2), now


class _Session:
    """Spark's session: asked for when something first needs it, and made to suit the evidence."""

    def __init__(self, session: SparkSession | Callable[[], SparkSession], clock: Clock) -> None:
        self._session, self._clock = session, clock
        self._lock = threading.Lock()
        self._started: SparkSession | None = None
        self._evidence: Evidence | None = None

    def __call__(self) -> SparkSession:
        with self._lock:
            if self._started is None:
                with self._clock.within("spark"):
                    self._started = self._session() if callable(self._session) else self._session
                self._suit()
            return self._started

    def suits(self, evidence: Evidence) -> None:
        """Have it plan for this evidence from now on."""
        with self._lock:
            self._evidence = evidence
            self._suit()

    def _suit(self) -> None:
        if self._started is not None and self._evidence is not None:
            suit(self._started, self._evidence)


def suit(spark: SparkSession, evidence: Evidence) -> None:
    """Have the session plan for evidence of this size; what lies elsewhere is taken for large.

    So are runs with mirrors, whose check shuffles every record where both sides are not the same.
    """
    if not str(spark.sparkContext.master).startswith("local"):
        spread(spark)
    if evidence.run.mirrors:
        return
    if 0 < sum(file.stat().st_size for name in TABLES for file in evidence.files(name)) < _SMALL_BYTES:
        for_small_evidence(spark)


def _results(
    checks: Mapping[str, Check], evidence: Evidence, levels: Levels
) -> Iterator[tuple[str, Result, float]]:
    """Run checks at the same time: each spends most of its time planning and with too few tasks."""

    def timed(check: Check) -> tuple[Result, float]:
        begin = time.monotonic()
        result = check(evidence, levels)
        return result, round(time.monotonic() - begin, 2)

    with ThreadPoolExecutor(len(checks), thread_name_prefix="check") as pool:
        running = {name: pool.submit(copy_context().run, timed, check) for name, check in checks.items()}
        for name, future in running.items():
            yield name, *future.result()
