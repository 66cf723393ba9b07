"""What an application made of records of its input, of all records with some sequence numbers at once.

The functions run in workers (engine/workers.py, or Spark's) and depend on numpy and pyarrow alone.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark_checks.engine.aggregates import Aggregate, added_up, aggregated

COLUMNS: Final = (
    *("cluster", "topic", "partition", "offset", "timestamp_us", "timestamp_type"),
    *("producer", "seq", "intended_us", "crc", "crc_ok", "key_hash"),
)
KINDS: Final = ("missing", "duplicated", "unexpected")
#: A place as one number, by which the first of several is found: Kafka's partitions take 15 bits.
_PARTITION_BITS: Final = 15
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Ends:
    """An application: its input and its output (cluster, topic), and how many outputs of a record are due."""

    name: str
    source: tuple[str, str]
    target: tuple[str, str]
    per_record: int


class Made(TypedDict):
    """What an application made of some records, as tasks can hand it over: without a type of our own.

    Attributes:
        counts: records (``inputs``), ``due`` and found ``outputs``, and outputs by kind of :data:`KINDS`.
        examples: by kind the first records that it concerns: application, producer, seq, copies,
            outputs, due.
        grains: when the last outputs of records were appended, as an Arrow table.
        took: by microseconds from a record's intended time to its last output how many took as long; times
            that are the same to the tenth of a millisecond are one.
    """

    counts: Mapping[str, int]
    examples: Mapping[str, Sequence[Mapping[str, Any]]]
    grains: Any
    took: Mapping[int, int]


def made_of(
    rows: Any, apps: Sequence[Ends], grains: Aggregate, window: tuple[int, int], shown: int
) -> list[Made]:
    """Return what each application made of records.

    Args:
        rows: an Arrow table of :data:`COLUMNS`: all intact records of the applications' topics of some
            (producer, seq).
        apps: the applications.
        grains: how the times of last outputs are folded: group (the application), topic, partition, offset
            (of the record in the input, its first copy), received_us.
        window: first and last intended time (us) of the records whose latency counts.
        shown: how many examples of each kind are returned.
    """
    return [_made(rows, app, grains, window, shown) for app in apps]


def put_together(parts: Sequence[Made], grains: Aggregate) -> Made:
    """Return parts of what an application made as one; ``examples`` are in the order of their records."""
    counts, took = Counter[str](), Counter[int]()
    examples: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in KINDS}
    for part in parts:
        counts.update(part["counts"])
        took.update(part["took"])
        for kind, rows in part["examples"].items():
            examples[kind] += rows
    for rows in examples.values():
        rows.sort(key=lambda row: (row["producer"], row["seq"]))
    return Made(
        counts=counts,
        examples=examples,
        grains=added_up([part["grains"] for part in parts], grains),
        took=took,
    )


def at_place(*places: tuple[str, str]) -> Any:
    """Return as a pyarrow expression whether a record is in one of these topics, each (cluster, topic)."""
    names: dict[str, list[str]] = defaultdict(list)
    for cluster, topic in places:
        names[cluster].append(topic)
    each = ((pc.field("cluster") == one) & pc.field("topic").isin(some) for one, some in names.items())
    return reduce(operator.or_, each, pc.scalar(False))


def _made(rows: Any, app: Ends, grains: Aggregate, window: tuple[int, int], shown: int) -> Made:
    rows = rows.filter(at_place(app.source) | at_place(app.target))
    producer, seq, crc = (_numbers(rows, name) for name in ("producer", "seq", "crc"))
    order = np.lexsort((seq, producer))
    who = _begins(producer[order], seq[order])
    value = _begins(producer[order], seq[order], crc[order])
    if len(value) > len(who):
        # Records of one identity seldom have different values: only then those of a value are put together.
        order = np.lexsort((crc, seq, producer))
        value = _begins(producer[order], seq[order], crc[order])
    rows = rows.take(pa.array(order))
    output = _flags(rows, at_place(app.target))
    counts, examples = _counted(rows, output, value, app, shown)
    last = _last_outputs(rows, output, who, app)
    intended = _numbers(last, "intended_us")
    took = np.maximum(_numbers(last, "received_us") - intended, 0)
    took = took[(intended >= window[0]) & (intended <= window[1])]
    # What is told is rounded to tenths of a millisecond: only the middle between two keeps its own number.
    times, often = np.unique(took - took % 50 + (took % 100 != 50), return_counts=True)
    took_by = dict(zip(times.tolist(), often.tolist(), strict=True))
    return Made(counts=counts, examples=examples, grains=aggregated(last, grains), took=took_by)


def _counted(
    rows: Any, output: Any, begins: Any, app: Ends, shown: int
) -> tuple[dict[str, int], dict[str, list[dict[str, Any]]]]:
    """Count what is due and what is there by identity and value, whose rows begin at these numbers."""
    number = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(rows)))
    outputs = np.bincount(number[output], minlength=len(begins))
    copies = np.bincount(number[~output], minlength=len(begins))
    several = np.flatnonzero(output & (outputs[number] > 1))
    keys = rows["key_hash"].combine_chunks().take(pa.array(several))
    columns = (number[several], keys.is_null().to_numpy(zero_copy_only=False), _filled(keys, 0))
    by_key = np.lexsort(columns[::-1])
    again = np.ones(len(several), bool)
    again[_begins(*(column[by_key] for column in columns))] = False
    different = outputs - np.bincount(columns[0][by_key][again], minlength=len(begins))
    due = np.where(copies > 0, app.per_record, 0)
    found = {
        "missing": np.maximum(due - different, 0),
        "duplicated": np.where(copies == 1, outputs - different, 0),
        "unexpected": np.maximum(different - due, 0),
    }
    examples = {}
    for kind in KINDS:
        some = np.flatnonzero(found[kind])[:shown]
        who = {name: _numbers(rows, name)[begins[some]].tolist() for name in ("producer", "seq")}
        told = {"copies": copies, "outputs": outputs, "due": due}
        shown_of = who | {name: values[some].tolist() for name, values in told.items()}
        examples[kind] = pa.table({"application": pa.repeat(app.name, len(some)), **shown_of}).to_pylist()
    totals = {"inputs": np.count_nonzero(copies), "due": due.sum(), "outputs": outputs.sum()}
    totals |= {kind: times.sum() for kind, times in found.items()}
    return {name: int(value) for name, value in totals.items()}, examples


def _last_outputs(rows: Any, output: Any, begins: Any, app: Ends) -> Any:
    """Return a row a record of the input with an output that has the broker's time.

    Columns: group, topic, partition, offset, intended_us (-1: not known), received_us.
    """
    place = (_numbers(rows, "offset") << _PARTITION_BITS) | _numbers(rows, "partition")
    held = np.where(output, _MOST, place)
    first = np.minimum.reduceat(held, begins)
    is_first = held == np.repeat(first, np.diff(begins, append=len(rows)))
    intended = np.minimum.reduceat(np.where(is_first, _numbers(rows, "intended_us"), _MOST), begins)
    appended = output & _flags(rows, pc.field("timestamp_type") == "append")
    received = np.maximum.reduceat(np.where(appended, _numbers(rows, "timestamp_us"), _LEAST), begins)
    both = (first < _MOST) & (received > _LEAST)
    held = first[both]
    return pa.table({
        "group": pa.repeat(app.name, len(held)),
        "topic": pa.repeat(app.source[1], len(held)),
        "partition": pa.array(held & ((1 << _PARTITION_BITS) - 1), pa.int32()),
        "offset": held >> _PARTITION_BITS,
        "intended_us": intended[both],
        "received_us": received[both],
    })  # fmt: skip


def _begins(*columns: Any) -> Any:
    """Return the numbers of the rows that are not as the one before them."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(new)


def _flags(rows: Any, which: Any) -> Any:
    found = ds.dataset(rows).to_table({"": which}, use_threads=False).column(0)
    return pc.fill_null(found, False).to_numpy().astype(bool)


def _numbers(rows: Any, name: str) -> Any:
    return _filled(rows[name], -1)


def _filled(column: Any, null: int) -> Any:
    return pc.fill_null(column, null).to_numpy().astype(np.int64, copy=False)
