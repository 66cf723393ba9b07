"""Counted findings with a few examples of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_checks.results import Anomaly

_EXAMPLES: Final[ContextVar[int]] = ContextVar("examples", default=10)


def examples() -> int:
    """Return how many examples of each anomaly are shown."""
    return _EXAMPLES.get()


@contextmanager
def showing(count: int) -> Iterator[None]:
    """Show that many examples of each anomaly meanwhile."""
    before = _EXAMPLES.set(count)
    try:
        yield
    finally:
        _EXAMPLES.reset(before)


def tally(found: DataFrame | Sequence[Mapping[str, Any]], order: Sequence[str]) -> dict[str, Anomaly]:
    """Count findings by their column ``kind`` and take the first few of each.

    Args:
        found: columns ``kind``, those that an example shows (nulls and names that begin with an underscore
            are left out), and ``_times`` where one finding counts more than once; of what was sampled a list
            of such rows, each counted once.
        order: the columns that say which come first.
    """
    if isinstance(found, Sequence):
        return _tally_rows(found, order)
    cached = found.is_cached
    found = found if cached else found.persist()
    times = F.sum("_times") if "_times" in found.columns else F.count(F.lit(1))
    counts = {row[0]: int(row[1]) for row in sorted(found.groupBy("kind").agg(times).collect())}
    # A rank that is limited and nothing else: each task sorts its own rows, and passes on the few that may be
    # among the first.
    rank = F.row_number().over(Window.partitionBy("kind").orderBy(*order))
    first = found.withColumn("_n", rank).where(F.col("_n") <= examples())
    rows = sorted(first.collect() if counts else [], key=lambda row: int(row["_n"]))
    if not cached:
        found.unpersist()
    shown = [(row["kind"], _example(row.asDict(recursive=True))) for row in rows]
    return {
        kind: Anomaly(count, tuple(example for of, example in shown if of == kind))
        for kind, count in counts.items()
    }


def kinds(flags: Mapping[str, Column]) -> Column:
    """Return the kinds that hold of a row, each a finding by itself; null counts as false."""
    return F.array_compact(F.array(*(F.when(flag, F.lit(kind)) for kind, flag in flags.items())))


def listed(kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Anomaly]:
    """Return rows that are in order already as anomalies of one kind; nothing where there are none."""
    return {kind: Anomaly(len(rows), tuple(rows[: examples()]))} if rows else {}


def first(anomaly: Anomaly, *names: str) -> str:
    """Say where the first one is, so that a line in a terminal is enough to go and look."""
    if not anomaly.examples:
        return ""
    example = anomaly.examples[0]
    told = (f"{name.replace('_', ' ')} {example[name]}" for name in names if name in example)
    return f" (first: {', '.join(told)})"


def _tally_rows(found: Sequence[Mapping[str, Any]], order: Sequence[str]) -> dict[str, Anomaly]:
    rows = sorted(found, key=lambda row: [row["kind"], *(row[name] for name in order)])
    by_kind = {kind: [_example(row) for row in some] for kind, some in groupby(rows, itemgetter("kind"))}
    return {kind: Anomaly(len(some), tuple(some[: examples()])) for kind, some in by_kind.items()}


def _example(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in row.items()
        if value is not None and key != "kind" and not key.startswith("_")
    }


def add(one: Mapping[str, Anomaly], other: Mapping[str, Anomaly]) -> dict[str, Anomaly]:
    """Return two tallies as one."""
    result = dict(one)
    for kind, more in other.items():
        before = result.get(kind, Anomaly(0))
        result[kind] = Anomaly(before.count + more.count, (before.examples + more.examples)[: examples()])
    return result
