"""Classes of work that need no fleet: a mirror and a Streams application, with brokers of their own."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from lab.bench.mirror.__main__ import options_of, running_bench
from lab.bench.mirror.cases import all_cases
from lab.bench.mirror.run import repetition
from lab.bench.mirror.workloads import BEST_RATIO
from lab.bench.streams import cases, run
from lab.bench.streams.figures import memory, rate
from lab.bench.turns import Measured, TurnError
from lab.fleet import toxiproxy
from lab.services.application import SAMPLE_JAR
from lab.services.brokers import kafka_jars, running_broker
from lab.services.mirrors import CLASSIC_JARS, has_jars

Turn = Callable[[str], Measured]
_FAILURES: Final = (RuntimeError, ValueError, TimeoutError, KafkaException)
#: What the bench of mirrors calls the variants.
_MIRRORS: Final = {"stock": "defaults", "documented": "article", "planned": "planned"}
#: No document says how RocksDB is bounded: documented is left out.
_APPLICATIONS: Final = {"stock": cases.STOCK["defaults"], **cases.PLANNED}
#: What a backlog holds, and how fast it had come: segments follow its time.
_RECORDS: Final = 600_000
_CAME_PER_S: Final = 600.0
#: A store of a join keeps both sides of its window and the grace, in segments of half of that; three live at
#: once. Until the first one expires, memory grows and compaction has little to do.
_STORE_S: Final = (2 * cases.WINDOW_MS + cases.GRACE_MS) / 1000
_UNTIL_EXPIRED: Final = int(1.5 * _STORE_S * _CAME_PER_S)


class MissingError(Exception):
    """Something that make setup brings is not there; the text is one line."""


def variants_of(by: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variants of those asked for that there are of a class."""
    return tuple(one for one in asked if by != "streams" or one in _APPLICATIONS)


def _jars() -> Path:
    jars = kafka_jars()
    if jars is None:
        raise MissingError("the jars of a broker are not cached: make bench")
    return jars


@contextmanager
def mirror(_: argparse.Namespace) -> Iterator[Turn]:
    """Run two clusters 60 ms apart; yield what mirrors by a variant."""
    jars = _jars()
    if not has_jars(CLASSIC_JARS):
        raise MissingError(f"the jars of {CLASSIC_JARS} are not cached: make bench")
    if reason := toxiproxy.PROGRAM.obstacle():
        raise MissingError(reason)
    own = options_of([])
    of = all_cases(own.partitions, own.round_trip_ms, os.cpu_count() or 1, ratio=BEST_RATIO[own.workload])
    with running_bench(own, jars) as bench:

        def turn(variant: str) -> Measured:
            try:
                found = repetition(bench, of[_MIRRORS[variant]])
            except _FAILURES as error:
                raise TurnError(str(error).splitlines()[0]) from error
            return {"throughput": {"mirror": {"mean_records_per_s": found["records_per_s"]}}}

        yield turn


@contextmanager
def streams(options: argparse.Namespace) -> Iterator[Turn]:
    """Run a broker with a backlog; yield what joins it by a variant.

    A turn is measured once segments of its stores expire.
    """
    jars = _jars()
    if not SAMPLE_JAR.is_file():
        raise MissingError("the sample application is not built: make bench")
    if shutil.disk_usage(tempfile.gettempdir()).free < (needed := 3 * _RECORDS * cases.RECORD_BYTES):
        raise MissingError(f"{tempfile.gettempdir()} has less than {needed >> 30} GiB free for a backlog")
    with (
        tempfile.TemporaryDirectory(prefix="kedge-bench-worth-") as name,
        running_broker(jars, 512) as broker,
    ):
        run.prepare(broker)
        run.fill(broker, _RECORDS, _CAME_PER_S)
        bench = run.Bench(broker, Path(name), _RECORDS)

        def turn(variant: str) -> Measured:
            case = _APPLICATIONS[variant]
            try:
                seen = run.throughput(bench, variant, case, options.seconds, after=_UNTIL_EXPIRED)
                held = memory(seen["samples"], cases.HEAP_MIB, case.bounded)
            except _FAILURES as error:
                raise TurnError(str(error).splitlines()[0]) from error
            if seen["commits"][-1][1] >= _RECORDS:
                raise ValueError(f"all {_RECORDS} records were read before the turn was over")
            return {
                "throughput": {"streams": {"mean_records_per_s": rate(seen["commits"], seen["counted_s"])}},
                "cost": {"streams_app_rss_mib": held["rss_mib"]},
            }

        yield turn
